"""The other side of `ports.ScaleSets`: what workflows and runners do at each service under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import httpx

from bullpen.config import Github
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.memory import Memory, MemoryGithub, SetTroubles
from bullpen.engines.memory.github import JobSpec as MemoryJobSpec
from bullpen.engines.system import SystemClock
from bullpen.ports import JitConfiguration, ScaleSets
from bullpen.wiring import on_github
from engines.github.places import settings_of
from fakes.github.acting import RunnerSide, caller
from fakes.github.hub import FakeGithub, JobSpec
from fakes.scale_sets.emulator import Emulator

JOB_LASTS = 10.0  # seconds, in memory
GROUP = "special"


class SetWorld(Protocol):
    """`sets` is the port under test."""

    sets: ScaleSets

    async def queue(self, set_id: int, label: str, count: int = 1) -> list[Any]:
        """Workflows ask for runners of a set."""

    async def run_on(self, job: Any, configured: JitConfiguration) -> None:
        """A runner starts with this configuration, and takes the job."""

    async def complete(self, job: Any) -> None:
        """A job that runs succeeds."""

    async def drop_session(self, set_id: int) -> None:
        """The session of a set ends, for no visible reason."""

    async def end_tokens(self, set_id: int) -> None:
        """Every token that the engine has got so far is refused from now on."""


class AdmittingWorld(SetWorld, Protocol):
    """A service that does what is known of github.com beyond the protocol."""

    async def pass_time(self, seconds: float) -> None:
        """GitHub's clock goes on."""

    async def garble(self, part: str) -> None:
        """The next message cannot be read: its body, an entry, or the whole message."""

    async def hide_busy(self, seconds: float) -> None:
        """GitHub learns so late that a runner is busy."""

    async def take(self, configured: JitConfiguration) -> bool:
        """A runner starts with this configuration; whether it gets a job."""


@dataclass
class MemoryWorld:
    sets: ScaleSets
    hub: MemoryGithub

    async def queue(self, set_id: int, label: str, count: int = 1) -> list[Any]:
        return [self.hub.start("acme/widgets", MemoryJobSpec(f"job-{n}", label, JOB_LASTS)) for n in range(count)]

    async def run_on(self, job: Any, configured: JitConfiguration) -> None:
        assert await self.take(configured)

    async def take(self, configured: JitConfiguration) -> bool:
        assert self.hub.set_runners.connect(configured.encoded)
        return any(job.runner == configured.runner.name for run in self.hub.runs.values() for job in run.jobs)

    async def complete(self, job: Any) -> None:
        await asyncio.sleep(JOB_LASTS)

    async def drop_session(self, set_id: int) -> None:
        self.hub.sets.drop(set_id)

    async def end_tokens(self, set_id: int) -> None:
        """It has none."""

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def garble(self, part: str) -> None:
        whole, body, entry = (float(part == one) for one in ("message", "body", "entry"))
        self.hub.sets.troubles = SetTroubles(unreadable=whole, unreadable_body=body, unreadable_entry=entry)

    async def hide_busy(self, seconds: float) -> None:
        self.hub.sets.troubles = replace(self.hub.sets.troubles, busy_known_after=seconds)


@dataclass
class GithubWorld:
    sets: ScaleSets
    hub: FakeGithub
    api: httpx.Client
    runners: dict[int, tuple[RunnerSide, dict[str, Any]]] = field(default_factory=dict)  # by the job that they have

    async def queue(self, set_id: int, label: str, count: int = 1) -> list[Any]:
        run = self.hub.start_run("acme/widgets", [JobSpec(f"job-{n}", (label,)) for n in range(count)])
        return list(run.jobs())

    async def run_on(self, job: Any, configured: JitConfiguration) -> None:
        assert await self.take(configured)

    async def take(self, configured: JitConfiguration) -> bool:
        listener = RunnerSide.of_jit(self.api, self.hub, configured.encoded)
        assert listener.listen().status_code == 200
        if not (given := listener.next()):
            return False
        assert listener.tell("started", given).status_code == 204
        self.runners[given["id"]] = listener, given
        return True

    async def complete(self, job: Any) -> None:
        listener, given = self.runners[job.id]
        assert listener.tell("finish", given, conclusion="success", log="").status_code == 204

    async def drop_session(self, set_id: int) -> None:
        self.hub.sets.drop_session(self._name(set_id))

    async def end_tokens(self, set_id: int) -> None:
        self.hub.sets.revoke_jwts()
        self.hub.sets.end_queue_tokens()

    async def pass_time(self, seconds: float) -> None:
        self.hub.advance(seconds)

    async def garble(self, part: str) -> None:
        self.hub.sets.garble(part)

    async def hide_busy(self, seconds: float) -> None:
        self.hub.sets.busy_known_after = seconds

    def _name(self, set_id: int) -> str:
        return next(one.name for one in self.hub.sets.all() if one.id == set_id)


@dataclass
class EmulatedSets:
    sets: ScaleSets
    emulator: Emulator

    async def queue(self, set_id: int, label: str, count: int = 1) -> list[Any]:
        return [self.emulator.queue(set_id, label) for _ in range(count)]

    async def run_on(self, job: Any, configured: JitConfiguration) -> None:
        self.emulator.start_job(job, configured.runner.name)

    async def complete(self, job: Any) -> None:
        self.emulator.complete_job(job)

    async def drop_session(self, set_id: int) -> None:
        self.emulator.drop_session(set_id)

    async def end_tokens(self, set_id: int) -> None:
        self.emulator.revoke_jwts()
        self.emulator.end_queue_token(set_id)


@asynccontextmanager
async def memory_world() -> AsyncIterator[MemoryWorld]:
    services = Memory(github=True)
    assert services.hub is not None
    yield MemoryWorld(services.ports().scale_sets, services.hub)


@asynccontextmanager
async def github_world(github: FakeGithub, *, enterprise: bool = False) -> AsyncIterator[GithubWorld]:
    """The engine as the wiring opens it. GitHub's clock stands still unless the test moves it."""
    now = github.clock()
    github.clock = lambda: now
    github.sets.is_enterprise, github.sets.long_poll = enterprise, 0.3
    github.add_group("acme", GROUP)
    async with on_github(settings_of(github, scope="acme"), Memory().ports(SystemClock())) as ports:
        with caller(github) as api:
            yield GithubWorld(ports.scale_sets, github, api)


@asynccontextmanager
async def emulated_world(emulator: Emulator) -> AsyncIterator[EmulatedSets]:
    client = GithubClient(Github(scope="acme", url=emulator.url, token=emulator.token), SystemClock())
    yield EmulatedSets(GithubScaleSets(client, SystemClock()), emulator)
    await client.aclose()
