"""A call of the API: what a route is given, and what it may answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fakes.github.past import Past
from fakes.github.state import Repository, Run, State
from fakes.github.wire import WireAnswer, WireRequest

DOCUMENTATION = "https://docs.github.com/rest"
PER_PAGE = 30


class ApiRefusal(Exception):
    """The API answers no."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}

    def answer(self) -> WireAnswer:
        content = {"message": str(self), "documentation_url": DOCUMENTATION, "status": str(self.status)}
        return WireAnswer(self.status, content, dict(self.headers))


@dataclass
class ApiCall:
    state: State
    past: Past
    url: str  # of the server
    request: WireRequest
    operation: str  # as the description calls it: method and template of the path
    target: str  # path without prefix
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    account: str = ""  # whose limits it uses up
    app: str = ""  # id of the App that calls as itself

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v3"

    @property
    def scope(self) -> str:
        """The repository or the organisation that it is about; empty if about neither."""
        if "repo" in self.path:
            return f"{self.path['owner']}/{self.path['repo']}"
        return self.path.get("org", "")

    def repository(self) -> Repository:
        found = self.state.repository(self.scope)
        if found is None:
            raise ApiRefusal(404, "Not Found")
        return found

    def run(self) -> Run:
        found = self.state.runs.get(int(self.path["run_id"]))
        if found is None or found.repository is not self.repository():
            raise ApiRefusal(404, "Not Found")
        return found


def listed(call: ApiCall, key: str, views: list[Any]) -> WireAnswer:
    """One page, with links to the others. An empty key: a bare array."""
    size, number = int(call.query.get("per_page", PER_PAGE)), int(call.query.get("page", 1))
    last = max(1, -(-len(views) // size))
    shown = views[(number - 1) * size : number * size]
    links = {"first": 1, "prev": number - 1} if number > 1 else {}
    links |= {"next": number + 1, "last": last} if number < last else {}
    base = f"{call.api_url}{call.target}"
    headers = {}
    if links:
        pages = {name: urlencode({**call.query, "page": page}) for name, page in links.items()}
        headers["Link"] = ", ".join(f'<{base}?{query}>; rel="{name}"' for name, query in pages.items())
    return WireAnswer(200, {"total_count": len(views), key: shown} if key else shown, headers)
