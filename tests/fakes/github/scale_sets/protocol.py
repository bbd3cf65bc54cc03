"""What the parts of the service share: its addresses, and how it refuses."""

from __future__ import annotations

from typing import Any

from fakes.github.scale_sets.records import Json
from fakes.github.wire import WireAnswer, WireRequest

API_VERSION = "6.0-preview"
SERVICES = {False: "/tenant-4f2a/", True: "/_services/pipelines/4f2a/"}  # on github.com; of an Enterprise Server
QUEUES = {False: "/scalesets/message", True: "/_services/pipelines/4f2a/_apis/runtime/messages"}
SETS, AGENTS = "_apis/runtime/runnerscalesets", "_apis/distributedtask/pools/0/agents"


class SetRefusal(Exception):
    """The service refuses a call. Without a kind it says nothing about why."""

    def __init__(self, status: int, kind: str = "", text: str = "") -> None:
        super().__init__(text)
        self.status, self.kind = status, kind

    def answer(self) -> WireAnswer:
        content = {"$id": "1", "typeName": self.kind, "message": str(self), "eventId": 3000} if self.kind else None
        return WireAnswer(self.status, content)


class Violations:
    """Requests that GitHub's own client would not send."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def note(self, request: WireRequest, wrong: str) -> None:
        self.found.append(f"{request.method} {request.target}: {wrong}")

    def body(self, request: WireRequest, *keys: str) -> Json:
        """The object that was sent; it must have these keys."""
        asked = request.json() or {}
        if missing := [key for key in keys if key not in asked]:
            self.note(request, f"no {', '.join(missing)}")
            raise SetRefusal(400, "VssPropertyValidationException", f"missing: {', '.join(missing)}")
        return dict(asked)


def listed(found: list[Any]) -> WireAnswer:
    return WireAnswer(200, {"count": len(found), "value": found})
