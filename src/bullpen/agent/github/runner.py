"""GitHub's jobs on this instance: its runner is made ready at boot, and started and stopped as `decide` says.

What the listener is at becomes the agent's progress here, and nothing but here.
"""

from __future__ import annotations

import math
import os
import re
import select
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.agent.child_process import Child
from bullpen.agent.cleaning.crontabs import UserCrontabs
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.agent.config import Config
from bullpen.agent.github.install import PROGRAMS, RegistrationFiles, install, strip
from bullpen.agent.github.job_hooks import AdmissionRequest, Hooks, activity_of, refusal, set_refusal
from bullpen.agent.github.listener import STOPPED_WITHIN, Lines, ListenerStage, Restarts, RunnerListener
from bullpen.agent.progress import AgentProgress, InstanceRecord, Phase
from bullpen.agent.store.base import NoCredentials, OwnList, RunnerCredentials, StillBusy, StoreUnreachable
from bullpen.host.processes import ProcessIdentity, TreeSurvived, descendants, end_tree, identify, mark_of
from bullpen.host.sweep import Path as Entry
from bullpen.model.activity import Listening, unnamed

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.store.base import AgentStore, Sink

VERSION_WITHIN = 30.0  # seconds
LEAVING_WITHIN = 10.0  # seconds that a leaving agent gives its runner, and as much more as a job takes to be cancelled
ENDED_WITHIN = 2.0  # seconds for what jobs left running; a heartbeat waits so long
ASKED_WITHIN = 300.0  # seconds from a job's begin until its hook asks: what the job uses is downloaded before
REFUSED_WITHIN = 10.0  # seconds for a refused job to end by itself: see `job_hooks`
LOOK_AGAIN = 0.050  # seconds
NEXT_AFTER = 10.0
"""Seconds between two registrations of a set if no job came in between: GitHub drops idle ones, and limits calls."""
ASK_AGAIN = 5.0  # seconds until the server is asked again to remove a registration, or whether the record moved on
VERSION = re.compile(r"[0-9]+(\.[0-9]+)+")


class Actions:
    def __init__(self, config: Config, account: Account | None, log: Callable[[str], None]) -> None:
        """Raise ValueError where GitHub's runner would refuse to run."""
        if account is None and os.geteuid() == 0:
            raise ValueError("GitHub's runner refuses to run as root: name users for jobs in local.runner-users")
        self.version = ""
        self._config, self._account, self._log = config, account, log
        self._user = account.user if account is not None else None  # all its processes belong to jobs
        self._directory = config.directory / "runner"
        self._hooks: Hooks | None = None
        self._listener: RunnerListener | None = None
        self._asking: Child | None = None  # for the runner's version
        self._restarts = Restarts()
        self._registered_at = 0.0
        self._job = 0  # the number of the one that runs, since the registration
        self._judged = 0  # the number of the last one that was admitted or refused
        self._due, self._overdue = math.inf, ""  # by then it must have been judged, or have ended; what if not
        self._is_over = False  # the job's last step; its runner still has to tell GitHub
        self._asked: AdmissionRequest | None = None  # the first question that the last check found
        self._children = 0
        self._at_boot: frozenset[ProcessIdentity] = frozenset()  # what the pre-runner script left running
        self._programs: frozenset[str] = frozenset()  # what lies in the runner's directory without a registration

    def settle(self) -> Generator[Turn, None, tuple[Entry, ...]]:
        """Make the runner ready, and return which of its files may change without a job's doing. Raise CannotSettle."""
        config = self._config
        linked: tuple[Path, ...] = ()
        if config.runner_url:
            from bullpen.agent.github.fetch import fetch

            yield from fetch(config.runner_url, config.runner_sha256, self._directory, self._account)
        else:
            linked = yield from install(Path(config.runner_directory), self._directory, self._account)
        self._hooks = Hooks(config.directory / "hooks", self._account)
        self._hooks.pin(self._directory)
        self._programs = frozenset(os.listdir(self._directory))
        self.version = yield from self._ask_version()
        # config.sh writes files even for --version, and writes them again the next time.
        strip(self._directory, self._programs)
        self._log(f"has GitHub's runner {self.version}")
        self._at_boot = frozenset(descendants(identify(os.getpid()), mark_of(config.instance_id), self._user))
        # A file that others store to as well changes its time with each of them.
        return tuple(("instance", "runner", *file.parts) for file in linked)

    def _ask_version(self) -> Generator[Turn, None, str]:
        command = [str(self._directory / PROGRAMS[0]), "--version"]
        self._asking = child = self._launch("version", command, {}, Lines(), 4096)
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
            raise CannotSettle(f"GitHub's runner did not print its version, but: {said or 'nothing'}")
        return version

    # ------------------------------------------------------------------------------------------------- what decide says

    def register(self, store: AgentStore, progress: AgentProgress, record: InstanceRecord) -> AgentProgress:
        """Begin to appear at GitHub; `check` notes when it is done. Raise StoreUnreachable."""
        assert self._hooks is not None, "not settled"
        try:
            given = store.register(record, progress.refused_job)
        except NoCredentials as exc:
            return progress.registered(record, str(exc))
        now, progress = time.monotonic(), progress.refused("")
        if given is OwnList.LISTED:
            return progress.registered(record, "launched for GitHub's jobs, before engines.ci changed")
        if given is OwnList.MOVED_ON:
            # Of a set, the server may say so before the record does: it is given back in between.
            return progress.asking_at(record.round, now + ASK_AGAIN) if record.serves_set else progress
        if record.serves_set and given.serves is None:
            return progress.registered(record, "the server does not say which jobs of the scale set may run here")
        began = progress.registering(record, given.runner, keeps=bool(self._config.keep))
        self._registered_at = now
        if given.oldest and _number(self.version) < _number(given.oldest):
            why = f"runner {self.version} is too old: GitHub takes {given.oldest} or later"
            return began.hung_up().listening(why)
        self._hooks.open()
        self._job = self._judged = 0
        at, work, hooks = self._directory, self._config.places["work"], self._hooks.variables
        restarts, undo, removal = self._restarts, self._undo, partial(_removal, store, given)
        self._listener = RunnerListener(self._launch, at, self.version, work, hooks, given, restarts, undo, removal)
        self._listener.begin()
        return self._follow(began)

    def withdraw(self, store: AgentStore, progress: AgentProgress, record: InstanceRecord) -> AgentProgress:
        """Have the registration of a set removed, then let its runner end by itself. Raise StoreUnreachable."""
        listener = self._listener
        if listener is None:
            return progress.hung_up()
        try:
            store.deregister(progress.runner)
        except StillBusy:
            self._log(f"GitHub does not remove {progress.runner}, because it assigned a job to it")
            return progress.held().asking_at(record.round, time.monotonic() + ASK_AGAIN)
        listener.withdraw(time.monotonic())
        return self._follow(progress.withdrawn())

    def hang_up(self, progress: AgentProgress) -> AgentProgress:
        """Begin to leave GitHub; `check` notes when it is done."""
        if self._listener is None:
            return progress.hung_up()
        self._listener.stop(time.monotonic())
        return self._follow(progress.hanging_up())

    @property
    def awaits_word(self) -> bool:
        """A job has begun and its hook has not asked yet. Any other question is late, or made up by a job."""
        return self._listener is not None and self._job > self._judged

    @property
    def is_asked(self) -> bool:
        return self._asked is not None and self.awaits_word

    def admit(self, progress: AgentProgress) -> AgentProgress:
        """Bind the job that has begun if it may run here, and have it wait until it is let go; else have it end. One
        job is judged only once: what runs cannot pass for another."""
        asked = self._asked
        assert asked is not None, "no job has asked"
        assert self._hooks is not None, "not settled"
        assert self._listener is not None, "no runner could have asked"
        self._judged, self._due = self._job, math.inf
        given, is_leaving = self._listener.given, self._listener.stage is ListenerStage.STOPPING
        if given.serves is not None:
            label, why = given.serves.run_id, set_refusal(asked, None if is_leaving else progress.seen, given)
        else:
            label = progress.seen.run_id if progress.seen is not None else ""
            why = refusal(asked, progress.seen, "" if is_leaving else progress.registered_for)
        job = f"job {asked.job} of {asked.repository} run={asked.run} attempt={asked.attempt}"
        if why or progress.seen is None:
            self._log(f"refuses {job!r}: {why}")
            self._due, self._overdue = time.monotonic() + REFUSED_WITHIN, "a job that was refused does not end"
            self._hooks.answer(asked, why)
            return progress.refused(f"{job}: {why}") if given.serves is not None and not is_leaving else progress
        self._log(f"admits {job!r}")
        return progress.bound(activity_of(asked, label, progress.runner), time.monotonic())

    def let_go(self) -> None:
        """Let the job begin that was admitted."""
        assert self._asked is not None, "no job has asked"
        assert self._hooks is not None, "not settled"
        self._hooks.answer(self._asked, "")

    # ------------------------------------------------------------------------------------------------- what is going on

    def outputs(self) -> list[int]:
        """Descriptors to wait on. Questions that no job is expected to ask are not among them, so they cost no time."""
        found = [child.output for child in self._running() if child.output >= 0]
        return [*found, self._hooks.fileno()] if self._hooks is not None and self.awaits_word else found

    def must_be_checked_at(self) -> float | None:
        return self._listener.until or None if self._listener is not None else None

    def awaited(self) -> list[int]:
        return [child.pid for child in self._running()]

    def check(self, progress: AgentProgress) -> AgentProgress:
        """Take the questions first: what the runner has printed by then says whether a job waits for an answer."""
        heard = self._hooks.asked() if self._hooks is not None else []
        self._is_over |= any(asked.is_over for asked in heard)
        self._asked = next((asked for asked in heard if not asked.is_over), None)
        return self._follow(progress)

    def _follow(self, progress: AgentProgress) -> AgentProgress:
        listener = self._listener
        if listener is None:
            return progress
        if self._is_over:
            self._is_over, progress = False, progress.ending()
        now, had = time.monotonic(), self._job
        listener.is_bound = progress.activity is not None
        listener.check(now)
        self._job = listener.jobs if listener.has_job else 0
        if had and self._job != had:
            self._log("its job has ended")
            progress = progress.bound(None, 0.0)
        if self._job and self._job != had:
            self._due, self._overdue = now + ASKED_WITHIN, "GitHub's runner did not ask whether a job may run here"
        elif self._job and now >= self._due:
            listener.cut_off(self._overdue)
        given = listener.given
        if given.serves is not None:
            waits = Listening(given.runner, given.id, given.serves.digest) if listener.waits else None
            begun = unnamed(given.serves.run_id, given.runner) if listener.has_job else None
            progress = progress.following(waits=waits, begun=begun, at=now)
            if progress.is_withdrawn and listener.stage is ListenerStage.STOPPING and not progress.is_hanging_up:
                self._log("its runner goes on listening without a registration, and is stopped")
                progress = progress.hanging_up()
        attempt = progress.registration
        match listener.stage:
            case ListenerStage.LISTENING if attempt is not None and attempt.phase is Phase.UNDER_WAY:
                self._log(f"listens as {progress.runner}")
                return progress.listening()
            case ListenerStage.BROKEN if attempt is not None and attempt.phase is not Phase.FAILED:
                self._log(f"cannot serve jobs any more: {listener.why}")
                return progress.listening(listener.why)
            case ListenerStage.LOST if not progress.is_hanging_up:
                self._log("GitHub has removed its registration")
                self._hang_up()
                return self._paused(progress, listener).forgotten()
            case ListenerStage.OVER:
                self._log(f"stopped listening{f', but {listener.why}' if listener.why else ''}")
                self._hang_up()
                if listener.why and not progress.is_hanging_up:
                    progress = progress.listening(listener.why)  # the agent did not ask it to stop
                return self._paused(progress, listener).hung_up(listener.why)
        return progress

    def _paused(self, progress: AgentProgress, listener: RunnerListener) -> AgentProgress:
        """A registration of a set that got no job, and was not withdrawn, is not followed by the next one at once."""
        if listener.given.serves is None or listener.jobs or progress.is_withdrawn or progress.is_hanging_up:
            return progress
        return progress.asking_at(progress.registered_for, self._registered_at + NEXT_AFTER)

    def give_up(self, progress: AgentProgress, why: str) -> AgentProgress:
        """An unexpected error costs the runner, never the agent. A registration that only the agent can remove is left
        behind: what removes it may be what failed."""
        listener = self._listener
        self._hang_up()
        if listener is None or progress.registration is None:
            return progress
        if listener.child is not None:
            listener.drop(listener.child)
        left = f"its registration stays behind: {why}" if listener.removes_itself else ""
        return progress.listening(why).hung_up(left)

    def leave(self) -> None:
        """Stop at once, for ever, and wait for it, but not long."""
        listener = self._listener
        if listener is None:
            return
        until = time.monotonic() + LEAVING_WITHIN + (STOPPED_WITHIN if listener.has_job else 0.0)
        listener.stop(time.monotonic())
        while listener.stage is not ListenerStage.OVER and time.monotonic() < until:
            select.select([child.output for child in self._running() if child.output >= 0], [], [], LOOK_AGAIN)
            listener.check(time.monotonic())

    def _hang_up(self) -> None:
        """There is nothing to ask about any more, and nothing left to ask by."""
        self._listener = None
        if self._hooks is not None:
            self._hooks.close()

    def _undo(self, registration: RegistrationFiles) -> str:
        """Undo what jobs have done to what removes a registration, or say why that is not possible. What they left
        running could read the token in the environment of config.sh, for it has the same user."""
        me, mark = identify(os.getpid()), mark_of(self._config.instance_id)
        try:
            if self._account is not None:
                UserCrontabs(self._account).stop()
            end_tree(me, mark, patience=ENDED_WITHIN, spare=self._at_boot, user=self._user)
            registration.bring_back(self._directory, self._programs, self._account)
        except (TreeSurvived, OSError) as exc:
            return str(exc)
        return ""

    def _running(self) -> list[Child]:
        found = (self._asking, self._listener.child if self._listener is not None else None)
        return [child for child in found if child is not None]

    def _launch(self, name: str, command: Sequence[str], told: Mapping[str, str], log: Sink, limit: int) -> Child:
        self._children += 1  # a name is used once: it marks what the child starts
        # In its own directory: there it looks for its libraries before it goes there itself.
        where, name = self._directory, f"{name}.{self._children}"
        return Child(self._config, name, command, told, log, self._account, limit=limit, cwd=where)


def _removal(store: AgentStore, given: RunnerCredentials) -> str:
    """A token to remove a registration with: the one that came with it may have ended by now."""
    with suppress(NoCredentials, StoreUnreachable):
        return store.removal_token()
    return given.removal


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
