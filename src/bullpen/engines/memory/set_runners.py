"""Registrations of scale sets in memory: each serves one job, of its set and of GitHub's choice.

They are on the same list as all other runners, without a label, under their own names: an instance may leave several
behind.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace
from datetime import timedelta

from bullpen.engines.memory.clock import LoopClock
from bullpen.engines.memory.set_records import StoredSet
from bullpen.engines.memory.set_service import SetService
from bullpen.errors import Conflict, Refused
from bullpen.ports import JitConfiguration, Registration, Removal, SetRunner

LONGEST_NAME = 64
PREFIX = "jit:"


class SetRunners:
    def __init__(
        self,
        registered: dict[str, Registration],
        service: SetService,
        instance_of: Callable[[str], str | None],
        assign: Callable[[], None],
    ) -> None:
        self.on_drop: Callable[[str], None] = lambda runner: None
        """Called with the name of a runner that GitHub has dropped while it was idle: it ends by itself."""
        self._registered = registered
        self._service = service
        self._instance_of = instance_of
        self._assign = assign
        service.on_delete = self._delete_idle

    def configure(self, set_id: int, runner: str) -> JitConfiguration:
        found = self._service.of(set_id)
        if not 0 < len(runner) <= LONGEST_NAME:
            raise Refused(f"the name of a runner must have 1 to {LONGEST_NAME} characters: {runner!r}")
        if any(runner in (key, one.handle) for key, one in self._registered.items()):
            raise Conflict(f"a runner named {runner} exists")
        found.runners[runner] = self._service.number()
        name = self._instance_of(runner) or runner
        self._registered[runner] = Registration(name, "", busy=False, runner=runner, online=False)
        return JitConfiguration(SetRunner(found.runners[runner], runner, set_id), f"{PREFIX}{runner}")

    def connect(self, encoded: str) -> bool:
        """A runner that was started with this configuration listens from now on; False if it is not registered."""
        runner = encoded.removeprefix(PREFIX)
        if (found := self._registered.get(runner)) is None or found.online:
            return False
        self._registered[runner] = replace(found, online=True)
        if self._service.happens(self._service.troubles.idle_end):
            idle = self._service.random.uniform(*self._service.troubles.idle_for)
            asyncio.get_running_loop().call_later(idle, self._end_idle, runner, context=Context())
        self._assign()
        return True

    def all(self) -> list[SetRunner]:
        sets = self._service.sets.values()
        return [SetRunner(id, name, one.id) for one in sets for name, id in one.runners.items()]

    def serves(self, runner: str, label: str) -> bool:
        """Whether it belongs to a set that has this label."""
        found = self._service.set_of(runner)
        return found is not None and label.casefold() in found.labels

    def fails(self, runner: str) -> bool:
        """Whether it fails to take a job: then it goes on listening, and is not registered any more."""
        if self._service.set_of(runner) is None or not self._service.happens(self._service.troubles.ghost):
            return False
        self.drop(runner)
        return True

    def remove(self, runner: str) -> Removal:
        """Unless GitHub knows that it executes a job."""
        if self._knows_busy(runner):
            return Removal.BUSY
        self.drop(runner)
        return Removal.REMOVED

    def drop(self, runner: str) -> None:
        """It is not registered any more, whatever it does."""
        if (found := self._service.set_of(runner)) is not None:
            del found.runners[runner]
            self._registered.pop(runner, None)

    def _delete_idle(self, found: StoredSet) -> None:
        """They go with their set."""
        for runner in list(found.runners):
            if (listed := self._registered.get(runner)) is None or not listed.busy:
                self.drop(runner)

    def _knows_busy(self, runner: str) -> bool:
        found = self._service.set_of(runner)
        jobs = found.jobs.values() if found is not None else ()
        since = next((job.started_at for job in jobs if job.runner == runner and job.started_at), None)
        unknown = timedelta(seconds=self._service.troubles.busy_known_after)
        return since is not None and LoopClock().now() - since >= unknown

    def _end_idle(self, runner: str) -> None:
        found = self._registered.get(runner)
        if found is not None and not found.busy:
            self.drop(runner)
            self.on_drop(runner)
