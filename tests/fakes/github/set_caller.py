"""A listener of a scale set that speaks to the service by hand, in the tests of the GitHub of our tests."""

from __future__ import annotations

import json
from typing import Any

import httpx

from fakes.github.acting import PATIENCE, RunnerSide, caller
from fakes.github.hub import FakeGithub

SETS, AGENTS = "_apis/runtime/runnerscalesets", "_apis/distributedtask/pools/0/agents"


class SetCaller:
    def __init__(self, hub: FakeGithub, scope: str = "acme/widgets") -> None:
        self._hub = hub
        self._api = caller(hub)
        path = f"/repos/{scope}" if "/" in scope else f"/orgs/{scope}"
        token = self._api.post(f"{path}/actions/runners/registration-token").json()["token"]
        about = {"url": f"{hub.url}/{scope}", "runner_event": "register"}
        remote = {"Authorization": f"RemoteAuth {token}"}
        found = self._api.post("/actions/runner-registration", json=about, headers=remote).json()
        self._client = httpx.Client(
            base_url=found["url"],
            params={"api-version": "6.0-preview"},
            headers={"Authorization": f"Bearer {found['token']}"},
            trust_env=False,
            timeout=PATIENCE,
        )
        self.session: dict[str, Any] = {}

    def close(self) -> None:
        self._api.close()
        self._client.close()

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self._client.request(method, path, **more)

    def create(self, name: str, *, group: int = 1, labels: tuple[str, ...] = ()) -> int:
        wanted = [{"name": label, "type": "System"} for label in labels or (name,)]
        body = {"name": name, "runnerGroupId": group, "labels": wanted, "RunnerSetting": {"disableUpdate": True}}
        answer = self.ask("POST", SETS, json=body)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def open(self, set_id: int, owner: str = "me") -> int:
        """The status; the session is kept if there is one."""
        answer = self.ask("POST", f"{SETS}/{set_id}/sessions", json={"ownerName": owner})
        self.session = answer.json() if answer.status_code == 200 else self.session
        return answer.status_code

    def poll(self, last: int = 0, capacity: int = 10) -> httpx.Response:
        headers = {
            "Authorization": f"Bearer {self.session['messageQueueAccessToken']}",
            "Accept": "application/json; api-version=6.0-preview",
            "X-ScaleSetMaxCapacity": str(capacity),
        }
        url = httpx.URL(self.session["messageQueueUrl"])
        url = url.copy_merge_params({"lastMessageId": last}) if last else url
        return self._api.get(url, headers=headers)

    def heard(self, last: int = 0, capacity: int = 10) -> list[tuple[str, str]]:
        """The kinds and names of the next message's entries, which it acknowledges; empty if there is none."""
        answer = self.poll(last, capacity)
        if answer.status_code != 200:
            return []
        self.acknowledge(answer.json()["messageId"])
        return [(one["messageType"], one["jobDisplayName"]) for one in json.loads(answer.json()["body"])]

    def acknowledge(self, message: int) -> int:
        url = httpx.URL(self.session["messageQueueUrl"])
        headers = {"Authorization": f"Bearer {self.session['messageQueueAccessToken']}"}
        return self._api.delete(url.copy_with(path=f"{url.path}/{message}"), headers=headers).status_code

    def configure(self, set_id: int, name: str) -> dict[str, Any]:
        answer = self.ask("POST", f"{SETS}/{set_id}/generatejitconfig", json={"name": name, "workFolder": "_work"})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def runner(self, set_id: int, name: str) -> RunnerSide:
        """A runner of the set that listens, without a process."""
        made = RunnerSide.of_jit(self._api, self._hub, self.configure(set_id, name)["encodedJITConfig"])
        assert made.listen().status_code == 200
        return made
