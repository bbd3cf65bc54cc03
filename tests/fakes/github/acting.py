"""The actors in the tests of GitHub: a caller of its API, and a runner that needs no process."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx

from fakes.github.hub import FakeGithub

WIDGETS = "/repos/acme/widgets"
RUNNERS = f"{WIDGETS}/actions/runners"
PATIENCE = (
    120.0  # seconds; the first call waits until GitHub's description is read, which a busy machine takes long for
)


def caller(hub: FakeGithub, credential: str = "") -> httpx.Client:
    """A caller with every permission unless the credential has fewer."""
    headers = {"Authorization": f"Bearer {credential or hub.token()}", "User-Agent": "tests"}
    return httpx.Client(base_url=hub.api_url, headers=headers, trust_env=False, timeout=PATIENCE)


class RunnerSide:
    """A runner's side of the private protocol."""

    def __init__(self, api: httpx.Client, hub: FakeGithub, name: str, labels: tuple[str, ...], **more: Any) -> None:
        self._api, self._hub, self.name = api, hub, name
        token = more.pop("token", "") or api.post(f"{RUNNERS}/registration-token").json()["token"]
        scope = more.pop("scope", "acme/widgets")
        asked = {"url": f"{hub.url}/{scope}", "token": token, "name": name, "labels": labels, "version": "2.336.0"}
        self.registered = self.say("register", **asked, **more)
        self.known = self.registered.json() if self.registered.status_code == 200 else {}

    @classmethod
    def of_jit(cls, api: httpx.Client, hub: FakeGithub, encoded: str) -> RunnerSide:
        """One that was registered by generate-jitconfig."""
        self = cls.__new__(cls)
        config = json.loads(base64.b64decode(encoded))
        self._api, self._hub, self.name = api, hub, config["name"]
        self.known = {"id": config["id"], "secret": config["secret"]}
        return self

    def say(self, word: str, **asked: Any) -> httpx.Response:
        return self._api.post(f"{self._hub.url}/_runner/{word}", json=asked)

    def listen(self, version: str = "2.336.0") -> httpx.Response:
        return self.say("session", **self.known, version=version)

    def next(self, wait: float = 0.0) -> dict[str, Any]:
        """The job that it is given; empty if none."""
        answer = self.say("next", **self.known, wait=wait)
        return answer.json()["job"] if answer.status_code == 200 else {}

    def tell(self, word: str, job: dict[str, Any], **more: Any) -> httpx.Response:
        return self.say(word, **self.known, job=job["id"], **more)
