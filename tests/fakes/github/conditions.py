"""Conditions: where GitHub is served, what goes wrong there, and how time passes.

The part of `FakeGithub` that is about no runner and no run; `hub` shows its use.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from fakes.github import flow
from fakes.github.auth import IssuedCredentials
from fakes.github.faults import GithubFaults
from fakes.github.limits import Limits
from fakes.github.scale_sets.control import SetControl
from fakes.github.scale_sets.service import SetService
from fakes.github.scale_sets.sets import Sets
from fakes.github.server import GithubServer
from fakes.github.state import State
from fakes.github.webhooks import Webhooks

BEYOND_LOOKED_EVERY = 0.05  # seconds


class Conditions:
    def __init__(self, lease: float) -> None:
        self._state = State(lease)
        self._credentials = IssuedCredentials(self._state)
        self._limits = Limits(self._state)
        self._faults = GithubFaults()
        self._webhooks = Webhooks(self._state)
        self._set_service = SetService(Sets(self._state))
        self.sets = SetControl(self._set_service)
        self._server = GithubServer(
            self._state, self._credentials, self._limits, self._faults, self._webhooks, self._set_service
        )
        self.url = self._server.start()

    def close(self) -> None:
        """Stop serving. Requests that wait are cut off."""
        self._server.stop()

    def check(self) -> None:
        """AssertionError if anything did not keep to GitHub's description."""
        assert not self.violations, "GitHub's description was violated:\n" + "\n".join(self.violations)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def violations(self) -> list[str]:
        return [*self._server.violations, *self._set_service.violations.found]

    @property
    def calls(self) -> list[str]:
        """Method and target of every request of the API, in order; without the prefix /api/v3."""
        return list(self._server.calls)

    # --------------------------------------------------------------------------------------------------------- faults

    def fail(self, pattern: str, status: int, *, times: int | None = 1, message: str = "as told") -> None:
        """Calls that match (as in `calls`, with wildcards) are answered so, and nothing is done; None: until `heal`."""
        self._faults.fail(pattern, status, times, message)

    def lose_answer(self, pattern: str, *, times: int | None = 1) -> None:
        """Calls that match are carried out, and the connection breaks."""
        self._faults.lose(pattern, times)

    def slow(self, pattern: str, seconds: float, *, times: int | None = 1) -> None:
        """Calls that match are answered so late."""
        self._faults.slow(pattern, seconds, times)

    def heal(self) -> None:
        self._faults.rules.clear()

    def rate_limit(self, token: str, *, remaining: int, resets_in: float = 3600.0, resource: str = "core") -> None:
        """What is left to a token, or to the installation of an App whose id this is. The other resource is
        `actions_runner_registration`."""
        self._limits.leave(self._credentials.account_of(token), resource, remaining, resets_in)

    def secondary_limit(self, *, retry_after: int = 1, times: int = 1, status: int = 403) -> None:
        """The next calls are refused, with or (0) without a retry-after."""
        self._limits.refuse(retry_after, times, status)

    # ----------------------------------------------------------------------------------------------------------- time

    @property
    def lease(self) -> float:
        return self._state.lease

    @lease.setter
    def lease(self, seconds: float) -> None:
        self._state.lease = seconds

    @property
    def offline_after(self) -> float:
        return self._state.offline_after

    @offline_after.setter
    def offline_after(self, seconds: float) -> None:
        self._state.offline_after = seconds

    @property
    def pick_up_within(self) -> float:
        return self._state.pick_up_within

    @pick_up_within.setter
    def pick_up_within(self, seconds: float) -> None:
        """A job that its runner was given and has not begun waits again after so long: 60, as GitHub's."""
        self._state.pick_up_within = seconds

    @property
    def oldest_version(self) -> str:
        return self._state.oldest_version

    @oldest_version.setter
    def oldest_version(self, version: str) -> None:
        """Listeners that are older are refused from now on."""
        self._state.oldest_version = version

    @property
    def lag(self) -> float:
        return self._server.past.lag

    @lag.setter
    def lag(self, seconds: float) -> None:
        self._server.past.begin(seconds)

    @property
    def latency(self) -> float:
        return self._server.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        """Every call of the API and of scale sets takes so much longer, half of it each way. Runners are near."""
        self._server.latency = seconds

    @property
    def clock(self) -> Callable[[], datetime]:
        return self._state.clock

    @clock.setter
    def clock(self, now: Callable[[], datetime]) -> None:
        self._state.now = now

    def advance(self, seconds: float) -> None:
        """Put its clock ahead. Live runners look silent for as long, until they call again."""
        with self._state.lock:
            self._state.ahead += timedelta(seconds=seconds)
            flow.sweep(self._state)
            self._set_service.sets.sweep()
            self._state.changed()

    def wait_for(self, condition: Callable[[], object], timeout: float = 120.0) -> None:
        """Block until it holds; it is asked after every change. TimeoutError shows what GitHub knows."""
        ends = time.monotonic() + timeout
        while True:
            # Asked without the lock, for it may be a question to the server; so a change meanwhile must not be missed.
            seen = self._state.version
            if condition():
                return
            if time.monotonic() >= ends:
                raise TimeoutError(f"not within {timeout} s; {self._story()}")
            with self._state.lock:
                # Some conditions look beyond GitHub: nothing here changes when they begin to hold.
                self._state.lock.wait_for(functools.partial(self._state.moved_since, seen), BEYOND_LOOKED_EVERY)

    def _story(self) -> str:
        with self._state.lock:
            jobs = [
                f"{job.name} {job.status} {job.conclusion}" for run in self._state.runs.values() for job in run.jobs()
            ]
            names = [runner.name for runner in self._state.runners.values()]
        return f"jobs: {', '.join(jobs) or 'none'}; runners: {', '.join(names) or 'none'}"
