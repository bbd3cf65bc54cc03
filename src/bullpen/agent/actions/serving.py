"""GitHub's jobs on this instance: its runner is made ready at boot, and started and stopped as `decide` says.

What the listener is at becomes the agent's progress here, and nothing but here.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.actions.admission import Asked, activity_of, refusal
from bullpen.agent.actions.hooks import EVENTS, Hooks
from bullpen.agent.actions.install import PROGRAMS, install
from bullpen.agent.actions.listener import Installed, Lines, Listener, Restarts, Stage
from bullpen.agent.actions.pass_ import NoPass, Pass
from bullpen.agent.config import Config
from bullpen.agent.progress import Phase, Progress, Record
from bullpen.agent.runner import Child, start
from bullpen.agent.sweep import Path as Entry
from bullpen.agent.turn import CannotSettle, Turn

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.link import Link, Sink

VERSION_WITHIN = 30.0  # seconds
LEAVING_WITHIN = 10.0  # seconds that a leaving agent gives its runner: to cancel a job, to tell GitHub
LOOK_AGAIN = 0.050  # seconds
VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")


class Actions:
    def __init__(self, config: Config, account: Account | None, log: Callable[[str], None]) -> None:
        """Raise ValueError where GitHub's runner would refuse to run."""
        if account is None and os.geteuid() == 0:
            raise ValueError("GitHub's runner refuses to run as root: set local.runner-user to whom jobs shall run as")
        self.version = ""
        self._config, self._account, self._log = config, account, log
        self._directory = config.directory / "runner"
        self._hooks: Hooks | None = None
        self._listener: Listener | None = None
        self._asking: Child | None = None  # for the runner's version
        self._restarts = Restarts()
        self._is_over = False  # the job's last step; its runner still has to tell GitHub
        self._children = 0

    def settle(self) -> Generator[Turn, None, tuple[Entry, ...]]:
        """Make the runner ready, and return which of our files may change without a job's doing. Raise CannotSettle."""
        config = self._config
        linked: tuple[Path, ...] = ()
        if config.runner_url:
            from bullpen.agent.actions.fetch import fetch

            yield from fetch(config.runner_url, config.runner_sha256, self._directory, self._account)
        else:
            linked = yield from install(Path(config.runner_directory), self._directory, self._account)
        self._hooks = Hooks(config.directory / "hooks", self._account)
        self.version = yield from self._ask_version()
        self._log(f"has GitHub's runner {self.version}")
        # A file that others link to as well changes its time with each of them.
        shared = (("instance", "runner", *file.parts) for file in linked)
        return ("instance", "hooks", "ask"), *shared

    def _ask_version(self) -> Generator[Turn, None, str]:
        self._asking = child = self._launch(
            "version", [str(self._directory / PROGRAMS[0]), "--version"], {}, Lines(), 4096
        )
        until = time.monotonic() + VERSION_WITHIN
        while (code := child.exit_code()) is None and time.monotonic() < until:
            child.pump()
            yield Turn.WAITING
        said = child.tail()
        child.end()
        child.close()
        self._asking = None
        version = said.rpartition("\n")[2].strip()
        if code != 0 or not VERSION.fullmatch(version):
            raise CannotSettle(f"GitHub's runner does not tell its version, but: {said or 'nothing'}")
        return version

    # ------------------------------------------------------------------------------------------------- what decide says

    def register(self, link: Link, progress: Progress, record: Record) -> Progress:
        """Begin to appear at GitHub; `check` tells when it is done. Raise StoreUnreachable."""
        assert self._hooks is not None, "not settled"
        try:
            given = link.register(record)
        except NoPass as exc:
            return progress.registered(record, str(exc))
        if not isinstance(given, Pass):
            return progress.registered(record, "whoever gives out passes has jobs of its own") if given else progress
        began = progress.registering(record, given.runner, keeps=bool(self._config.keep))
        if given.oldest and _number(self.version) < _number(given.oldest):
            why = f"runner {self.version} is too old: GitHub takes {given.oldest} or later"
            return began.hung_up().listening(why)
        told = {f"ACTIONS_RUNNER_HOOK_JOB_{event.upper()}": str(self._hooks.path(event)) for event in EVENTS}
        work = self._config.places["work"]
        installed = Installed(self._directory, self.version)
        self._listener = Listener(self._launch, installed, work, told, given, self._restarts)
        self._listener.begin(time.monotonic())
        return self.check(began)

    def hang_up(self, progress: Progress, record: Record) -> Progress:
        """Begin to leave GitHub; `check` tells when it is done."""
        if self._listener is None:
            return progress.hung_up()
        self._listener.stop(time.monotonic())
        return self.check(progress.hanging_up(record))

    def admit(self, progress: Progress, asked: Asked) -> tuple[Progress, bool]:
        """Bind a job that may run here, which waits until it is let go; send away any other. Says which it was."""
        assert self._hooks is not None, "not settled"
        # A question may be late: whoever asked has given up, and its job has ended.
        listener = self._listener
        may_begin = listener is not None and listener.has_job and listener.stage is not Stage.STOPPING
        why = refusal(asked, progress.seen, progress.registered_for if may_begin else "")
        job = f"job {asked.job} of {asked.repository} run={asked.run} attempt={asked.attempt}"
        if why or progress.seen is None:
            self._log(f"refuses {job!r}: {why}")
            self._hooks.answer(asked, why)
            return progress, False
        self._log(f"admits {job!r}")
        return progress.bound(activity_of(asked, progress.seen, progress.runner), time.monotonic()), True

    def let_go(self, asked: Asked) -> None:
        assert self._hooks is not None, "not settled"
        self._hooks.answer(asked, "")

    # ------------------------------------------------------------------------------------------------- what is going on

    def outputs(self) -> list[int]:
        """Descriptors to wait on."""
        found = [child.output for child in self._running() if child.output >= 0]
        return found if self._hooks is None else [*found, self._hooks.fileno()]

    def must_be_checked_at(self) -> float | None:
        return self._listener.until or None if self._listener is not None else None

    def awaited(self) -> list[int]:
        return [child.pid for child in self._running()]

    def asked(self) -> Asked | None:
        """A job that waits for our word. That one is over is only noted, for the next check."""
        asked = self._hooks.asked() if self._hooks is not None else None
        if asked is None or not asked.is_over:
            return asked
        self._is_over = True
        return None

    def check(self, progress: Progress) -> Progress:
        listener = self._listener
        if listener is None:
            return progress
        if self._is_over:
            self._is_over, progress = False, progress.ending()
        had_job = listener.has_job
        listener.check(time.monotonic())
        if had_job and not listener.has_job:
            self._log("its job has ended")
            progress = progress.bound(None, 0.0)
        begun = progress.registration
        match listener.stage:
            case Stage.LISTENING if begun is not None and begun.phase is Phase.UNDER_WAY:
                self._log(f"listens as {progress.runner}")
                return progress.listening()
            case Stage.BROKEN if begun is not None and begun.phase is not Phase.FAILED:
                self._log(f"serves no more: {listener.why}")
                return progress.listening(listener.why)
            case Stage.LOST if progress.removal is None:
                self._log("its registration is over")
                self._listener = None
                return progress.forgotten()
            case Stage.OVER:
                self._log(f"listens no more{f', but {listener.why}' if listener.why else ''}")
                self._listener = None
                return progress.hung_up()
        return progress

    def give_up(self, progress: Progress, why: str) -> Progress:
        """What nobody foresaw costs the runner, never the agent."""
        listener, self._listener = self._listener, None
        if listener is None or progress.registration is None:
            return progress
        if listener.child is not None:
            listener.child.end()
            listener.child.close()
        return progress.listening(why).hung_up()

    def leave(self) -> None:
        """Stop at once, for ever, and wait for it, but not long."""
        listener, until = self._listener, time.monotonic() + LEAVING_WITHIN
        if listener is None:
            return
        listener.stop(time.monotonic())
        while listener.stage is not Stage.OVER and time.monotonic() < until:
            select.select([child.output for child in self._running() if child.output >= 0], [], [], LOOK_AGAIN)
            listener.check(time.monotonic())

    def _running(self) -> list[Child]:
        found = (self._asking, self._listener.child if self._listener is not None else None)
        return [child for child in found if child is not None]

    def _launch(self, name: str, command: Sequence[str], told: Mapping[str, str], log: Sink, limit: int) -> Child:
        self._children += 1  # a name is used once: it marks what the child starts
        return start(self._config, f"{name}.{self._children}", command, told, log, self._account, limit=limit)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
