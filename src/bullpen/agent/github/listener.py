"""GitHub's runner as a child of the agent, from its registration to its removal: one object for one registration.

    CONFIGURING ── config.sh ──▶ STARTING ── "Listening for Jobs" ──▶ LISTENING ◀──▶ a job at a time
                  (jit: not)        ▲                                     │
                                    └──────────── PAUSING ◀── ended ──────┼──▶ LOST: what was for one job is used up
                                                     └─ jit ──▶ REMOVING ◀┼─── GitHub has forgotten us
                                                                          └──▶ BROKEN: the same again would not help
    STOPPING ── SIGINT, its end ──▶ REMOVING ── config.sh remove ──▶ OVER

The runner of a scale set has one more way to leave: its registration was removed, and it has a minute to end by itself
or to report a job before it is stopped. One that ends without a job has not failed: GitHub drops idle ones.

run.sh ends with 0 whatever happened, so what it printed and what it left on the disk tell more than its exit code. The
one exception is a version that GitHub refuses. Secrets reach the scripts through their environment, never as arguments;
run.sh is given none, but for a registration made for it, which is good for one job.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path

from bullpen.agent.child_process import Child
from bullpen.agent.github.install import RegistrationFiles
from bullpen.agent.store.base import RunnerCredentials, Sink
from bullpen.lazy_dataclass import dataclass
from bullpen.model.signal_text import refuses_runner

CONFIGURED_WITHIN = 60.0  # seconds for config.sh
LISTENS_WITHIN = 60.0  # seconds for run.sh, from its start to its first words
STOPPED_WITHIN = 25.0  # seconds from SIGINT to the end: a job's step gets ten of them, then it reports to GitHub
REMOVED_WITHIN = 20.0  # seconds for config.sh remove
MOST_RESTARTS, RESTARTS_WITHIN = 3, 60.0  # then something is wrong that a restart does not mend
FIRST_PAUSE = 1.0  # seconds before the first of them; each further one takes twice as long
WITHDRAWN_WITHIN = 60.0
"""Seconds for the runner of a set to end by itself or to report a job, once its registration was removed: GitHub may
have given it a job before, and shows that up to a minute late."""
ENDS_WITHIN = 60.0  # seconds for the runner of a set to end after its one job
DEPRECATED = 7  # the exit code of run.sh, for a version that GitHub refuses
LONGEST_LINE = 8192
SAID = re.compile(r"[0-9-]+ [0-9:]+Z: (?:(Listening for Jobs)|(Running job): .*|Job .* (completed with result): \w+)")
"""The lines that say what it does. They begin with the time, so no name of a job passes for one, unless it has a line
break in it: a user who chooses such a name only makes the agent take that user's own job for ended."""

Launch = Callable[[str, Sequence[str], Mapping[str, str], Sink, int], Child]
"""Start a command under a name: command, what to add to the environment, where output goes and how much of it."""


class ListenerStage(Enum):
    CONFIGURING = auto()
    STARTING = auto()
    LISTENING = auto()
    PAUSING = auto()
    LOST = auto()
    BROKEN = auto()
    STOPPING = auto()
    REMOVING = auto()
    OVER = auto()


class Restarts:
    """How often runners have ended by themselves lately, whatever their registration."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def pause(self, now: float) -> float | None:
        """Seconds until the next start; None if there were too many."""
        self._times = [one for one in self._times if now - one < RESTARTS_WITHIN]
        if len(self._times) >= MOST_RESTARTS:
            return None
        self._times.append(now)
        return FIRST_PAUSE * 2.0 ** (len(self._times) - 1)


class Lines:
    """Where the output goes: taken line by line."""

    def __init__(self) -> None:
        self._rest = b""
        self._whole: list[str] = []

    def write(self, content: bytes) -> None:
        *whole, rest = (self._rest + content).split(b"\n")
        self._whole += (line.decode(errors="replace").rstrip("\r") for line in whole)
        self._rest = rest[-LONGEST_LINE:]

    def close(self) -> None: ...

    def take(self) -> list[str]:
        whole, self._whole = self._whole, []
        return whole


@dataclass(eq=False)
class RunnerListener:
    """`undo` undoes whatever jobs have done to what removes a registration, or says why it cannot; `removal` is a token
    to remove it with that holds now. Nothing is started yet."""

    launch: Launch
    directory: Path  # of GitHub's runner
    version: str
    work: Path
    hooks: Mapping[str, str]  # the variables that name them to run.sh
    given: RunnerCredentials
    restarts: Restarts
    undo: Callable[[RegistrationFiles], str]
    removal: Callable[[], str]

    def __post_init__(self) -> None:
        self.stage = ListenerStage.STARTING if self.given.jit else ListenerStage.CONFIGURING
        self.why = ""  # it is broken, or its registration stays behind
        self.has_job = False
        self.jobs = 0  # so many have begun
        self.is_bound = False  # whether that job was admitted; set by `Actions.check`
        self.until = 0.0  # a monotonic reading at which to look again, if it is not 0
        self.child: Child | None = None
        self._registration: RegistrationFiles | None = None
        self._lines = Lines()
        self._is_wanted = True
        self._is_withdrawn = False
        self._has_listened = False

    @property
    def removes_itself(self) -> bool:
        """Only the agent can remove the registration: no service does it. That of a single job is never such a one."""
        return bool(self.given.removal) and not self.given.jit

    @property
    def waits(self) -> bool:
        """It listens, and has had no job."""
        return self.stage is ListenerStage.LISTENING and not self.jobs

    def begin(self) -> None:
        if self.stage is ListenerStage.STARTING:
            self._run()
            return
        given = self.given
        command = ["--unattended", "--url", given.url, "--name", given.runner, "--labels", given.label]
        command += ["--no-default-labels", "--disableupdate", "--work", str(self.work)]
        command += ["--runnergroup", given.group] if given.group else []
        self._start(CONFIGURED_WITHIN, "config.sh", *command, ACTIONS_RUNNER_INPUT_TOKEN=given.token)

    def check(self, now: float) -> None:
        """Take what was said, and notice what has ended. Never waits for long."""
        if self.child is None:
            if self.stage is ListenerStage.PAUSING and now >= self.until:
                # What was made for one start is not started again: it is removed, and another one made.
                (self._remove if self.given.jit else self._run)()
            return
        code = self.child.exit_code()  # first: what it printed before its end is there by now
        self.child.pump()
        self._hear()
        if self.given.serves is not None and self.jobs and self.stage is ListenerStage.LISTENING:
            # A job takes its time; after it, this runner has nothing left to do.
            self.until = 0.0 if self.has_job else self.until or now + ENDS_WITHIN
        if code is None and not (self.until and now >= self.until):
            return
        if code is None and self._is_withdrawn and self._is_wanted:
            self.stop(now)
            return
        said = self._said()
        self.drop(self.child)
        if code is None:
            said = f"it made no progress in time; {said}"
        self._ended(code, said, now)

    def stop(self, now: float) -> None:
        """Stop the runner, then have its registration removed. A registration that has begun is completed first,
        because only then can it be removed. The runner still sends GitHub the result of its last job: it prints that
        the job is over before it sends that."""
        self._is_wanted = False
        if self.stage in (ListenerStage.STARTING, ListenerStage.LISTENING) and self.child is not None:
            self.stage, self.until = ListenerStage.STOPPING, now + STOPPED_WITHIN
            self.child.interrupt()
        elif self.stage in (ListenerStage.PAUSING, ListenerStage.LOST, ListenerStage.BROKEN):
            self._remove()

    def withdraw(self, now: float) -> None:
        """Its registration was removed. That stops no runner, and a job may be on its way: let it end by itself."""
        if self.child is None or self.stage not in (ListenerStage.STARTING, ListenerStage.LISTENING):
            self.stop(now)
        elif not self._is_withdrawn:
            self._is_withdrawn = True
            self.until = 0.0 if self.has_job else now + WITHDRAWN_WITHIN

    def cut_off(self, why: str) -> None:
        """End it hard, with its job, of which nothing more runs: one that is asked to end has steps that always do."""
        if self.child is not None:
            self.drop(self.child)
        self.until = 0.0
        self._break(why)

    # ---------------------------------------------------------------------------------------------------------- in turn

    def _run(self) -> None:
        self.stage = ListenerStage.STARTING
        told = {"RUNNER_MANUALLY_TRAP_SIG": "1", "ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE": "1"}
        if self.given.jit:
            told["ACTIONS_RUNNER_INPUT_JITCONFIG"] = self.given.jit
        self._start(LISTENS_WITHIN, "run.sh", **told, **self.hooks)

    def _remove(self) -> None:
        self.until = 0.0
        if not self.removes_itself:
            self.stage = ListenerStage.OVER  # the service removes it, by its name
        elif self._registration is None:
            # config.sh failed or was ended: GitHub may have registered the runner before.
            unknown = "its registration may stay behind: whether GitHub registered it is not known"
            self.stage, self.why = ListenerStage.OVER, f"{unknown}; {self.why}" if self.why else unknown
        elif trouble := self.undo(self._registration):
            self.stage, self.why = ListenerStage.OVER, f"its registration stays behind: {trouble}"
        else:
            self.stage = ListenerStage.REMOVING
            self.given = replace(self.given, removal=self.removal())
            told = {"ACTIONS_RUNNER_INPUT_TOKEN": self.given.removal, "HOME": str(self.directory)}
            self._start(REMOVED_WITHIN, "config.sh", "remove", **told)

    def _ended(self, code: int | None, said: str, now: float) -> None:
        self.until = 0.0
        if self.stage is ListenerStage.CONFIGURING and self._is_configured:
            self._registration = RegistrationFiles(self.directory)
        match self.stage:
            case ListenerStage.CONFIGURING if not self._is_wanted:
                self._remove()
            case ListenerStage.CONFIGURING if code == 0 and self._is_configured:
                self._run()
            case ListenerStage.CONFIGURING:
                self._break(f"GitHub's runner could not be registered: {said}")
            case ListenerStage.STOPPING:
                self._remove()
            case ListenerStage.REMOVING:
                self.stage, self.why = ListenerStage.OVER, "" if code == 0 else f"its registration stays behind: {said}"
            case ListenerStage.STARTING if code != DEPRECATED and not self._has_listened and not self._is_withdrawn:
                self._break(f"GitHub's runner does not listen for jobs: {said}")
            case _:
                self._ended_by_itself(code, said, now)

    def _ended_by_itself(self, code: int | None, said: str, now: float) -> None:
        if code == DEPRECATED:
            # The control plane reads the version, to retire all machines that have it.
            words = f"GitHub refuses runner version {self.version}: use a newer one"
            self._break(refuses_runner(self.version, words))
        elif self.has_job and self.is_bound:
            # GitHub does not learn how the job ended, and waits for minutes: the control plane should know now.
            self._break(f"GitHub's runner ended while its job ran: {said}")
        elif self._is_withdrawn or self._is_used_up(code):
            self.stage = ListenerStage.LOST
        elif (pause := self.restarts.pause(now)) is None:
            self._break(f"GitHub's runner ended again and again: {said}")
        elif not self.given.jit and (not self._is_configured or "has been deleted" in said):
            # A job may have made it look so, to go on using its copy of a registration that is never removed then.
            self._remove()
        else:
            self.stage, self.until = ListenerStage.PAUSING, now + pause

    def _is_used_up(self, code: int | None) -> bool:
        """A registration for one job is gone after the job. That of a set also goes when GitHub drops an idle one."""
        is_dropped = self.given.serves is not None and code == 0
        return bool(self.given.jit) and not self._is_configured and (self.jobs > 0 or is_dropped)

    def _break(self, why: str) -> None:
        self.stage, self.why = ListenerStage.BROKEN, why

    # ---------------------------------------------------------------------------------------------------------- helpers

    @property
    def _is_configured(self) -> bool:
        return (self.directory / ".runner").exists()

    def drop(self, child: Child) -> None:
        child.end()  # with what it left running
        child.close()
        self.child = None

    def _start(self, within: float, program: str, *arguments: str, **told: str) -> None:
        self._lines = Lines()
        # Read again: what came before, such as `undo`, may have taken longer than the program has.
        now = time.monotonic()
        self.until = now + within
        command = [str(self.directory / program), *arguments]
        try:
            self.child = self.launch(program, command, told, self._lines, sys.maxsize)
        except (OSError, ValueError) as exc:
            self._ended(None, f"{program} could not be started: {exc}", now)

    def _hear(self) -> None:
        for line in self._lines.take():
            if (found := SAID.fullmatch(line)) is None:
                continue
            listens, begins, _ = found.groups()
            self.jobs += bool(begins)
            self.has_job = bool(begins)
            if listens and self.stage is ListenerStage.STARTING:
                self.stage, self._has_listened = ListenerStage.LISTENING, True
                self.until = self.until if self._is_withdrawn else 0.0
            if begins and self._is_withdrawn:
                self.until = 0.0  # it ends with its job

    def _said(self) -> str:
        """The last it printed, for people: no secret, whatever it printed."""
        assert self.child is not None, "nothing was started"
        text = self.child.tail()
        for secret in (self.given.token, self.given.removal, self.given.jit):
            text = text.replace(secret, "***") if secret else text
        return f"its last lines:\n{text}" if text else "it printed nothing"
