"""The two services that GitHub's own client is tried on: the GitHub of our tests, and the emulator that is not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from fakes.github.acting import RunnerSide, caller
from fakes.github.hub import FakeGithub, Job, JobSpec
from fakes.scale_sets.emulator import Emulator

SET = "medium"


class SetPeer(Protocol):
    """A service with one set, which the client makes."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def offers(self) -> bool:
        """Whether jobs must be acquired."""

    def queue(self, name: str) -> Any:
        """A workflow asks for a runner of the set."""

    def run(self, job: Any, configured: dict[str, Any]) -> None:
        """A runner starts with this configuration, and takes the job."""

    def complete(self, job: Any) -> None: ...

    def end_queue_token(self) -> None: ...

    def revoke_jwts(self) -> None: ...

    def fail_polls(self, status: int, times: int) -> None: ...

    def has_session(self) -> bool: ...


@dataclass
class StandIn:
    hub: FakeGithub
    api: httpx.Client
    offers: bool
    token: str
    _listeners: dict[int, tuple[RunnerSide, dict[str, Any]]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.hub.url

    def queue(self, name: str) -> Any:
        return self.hub.start_run("acme/widgets", [JobSpec(name, (SET,))]).job(name)

    def run(self, job: Job, configured: dict[str, Any]) -> None:
        listener = RunnerSide.of_jit(self.api, self.hub, configured["config"])
        assert listener.listen().status_code == 200
        given = listener.next()
        assert listener.tell("started", given).status_code == 204
        self._listeners[given["id"]] = listener, given

    def complete(self, job: Job) -> None:
        listener, given = self._listeners[job.id]
        assert listener.tell("finish", given, conclusion="success", log="").status_code == 204

    def end_queue_token(self) -> None:
        self.hub.sets.end_queue_tokens()

    def revoke_jwts(self) -> None:
        self.hub.sets.revoke_jwts()

    def fail_polls(self, status: int, times: int) -> None:
        for address in ("/scalesets/message", "/_services/pipelines/4f2a/_apis/runtime/messages"):
            self.hub.fail(f"GET {address}*", status, times=times)

    def has_session(self) -> bool:
        return self.hub.sets.of(SET).session is not None


@dataclass
class Emulated:
    emulator: Emulator
    offers = True

    @property
    def url(self) -> str:
        return self.emulator.url

    @property
    def token(self) -> str:
        return self.emulator.token

    def queue(self, name: str) -> Any:
        return self.emulator.queue(self._set_id(), SET)

    def run(self, job: Any, configured: dict[str, Any]) -> None:
        self.emulator.start_job(job, configured["runner"])

    def complete(self, job: Any) -> None:
        self.emulator.complete_job(job)

    def end_queue_token(self) -> None:
        self.emulator.end_queue_token(self._set_id())

    def revoke_jwts(self) -> None:
        self.emulator.revoke_jwts()

    def fail_polls(self, status: int, times: int) -> None:
        self.emulator.fail("getMessage", status, times=times)

    def has_session(self) -> bool:
        return bool(self.emulator.state()["sessions"])

    def _set_id(self) -> int:
        return next(int(one["id"]) for one in self.emulator.state()["scaleSets"] if one["name"] == SET)


@contextmanager
def a_stand_in(github: FakeGithub, *, enterprise: bool) -> Iterator[StandIn]:
    github.sets.is_enterprise, github.sets.long_poll = enterprise, 0.3
    with caller(github) as api:
        yield StandIn(github, api, enterprise, github.token())
