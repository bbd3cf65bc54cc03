"""Runs the pre-runner script and jobs as children, and keeps of their output what fits.

A child's output comes through a pipe and is read until its last holder closes it, because a daemon that outlives its
parent must not be stopped by a full pipe. How much is kept is bounded; how much is printed is not.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from bullpen.agent.command_errors import explained
from bullpen.agent.config import Config
from bullpen.agent.store.base import Order, Sink
from bullpen.agent.store.sqlite import LogFile
from bullpen.host.processes import TreeSurvived, end_tree, identify

if TYPE_CHECKING:
    from bullpen.agent.account import Account

TAIL = 1500  # characters of the last output: what fits into a signal beside the reason
LOG_LIMIT = 4 * 1024 * 1024  # bytes of a job's log
CHUNK = 64 * 1024
CHUNKS_AT_ONCE = 16  # a child that prints without end must not keep the loop from its heartbeat
PATIENCE = 5.0  # seconds for a killed tree to leave; shorter than a lease


class Child:
    """A running command of the instance, and its output. `task` is unique in the instance: with the instance's id it
    marks everything that the command starts."""

    def __init__(
        self,
        config: Config,
        task: str,
        command: Sequence[str],
        extra: Mapping[str, str],
        log: Sink,
        account: Account | None = None,
        *,
        limit: int = LOG_LIMIT,
        cwd: Path | None = None,
        explain: Callable[[int], str] = lambda code: "",
    ) -> None:
        """Start it as `account`, or as the agent's user, with nothing of the agent's environment but what the launcher
        chose, and `extra`. Raise OSError or ValueError where it cannot start. The log is closed when the output is and
        the command has ended; what `explain` says about its exit code is the last line."""
        name, places = f"{config.instance_id}/{task}", config.places
        environment = {
            **os.environ,  # what the launcher chose to pass on; it carries the instance's mark
            "HOME": str(places["home"]),
            "TMPDIR": str(places["tmp"]),
            "BULLPEN_INSTANCE": config.instance_id,
            **({"USER": account.name, "LOGNAME": account.name} if account else {}),
            **extra,
            "BULLPEN_TASK": name,
        }
        self._mark = f"BULLPEN_TASK={name}"
        self._tail = b""
        self._room = limit
        self._log = log
        self._explain = explain
        self._has_ended = False
        self.output, writing_end = os.pipe()  # to wait on; negative once no process holds the other end
        try:
            os.set_blocking(self.output, False)
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=cwd or places["work"],
                stdin=subprocess.DEVNULL,
                stdout=writing_end,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o022,  # as users have it; the agent's own lets no other user read what it writes
                user=account.user if account else None,
                group=account.group if account else None,
                extra_groups=account.groups if account else None,
            )
        except Exception:
            self.close()
            raise
        finally:
            os.close(writing_end)
        self.pid = self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        code = self._process.poll()
        if code is not None and not self._has_ended:
            self.pump()
            if said := self._explain(code):
                self._log.write(f"[{said}]\n".encode())
            self._has_ended = True
            if self.output < 0:
                self._log.close()
        return code

    def tail(self) -> str:
        """The last lines it printed, up to now."""
        self.pump()
        return self._tail.decode(errors="replace")[-TAIL:].strip()

    def pump(self) -> None:
        """Take what was printed, without waiting."""
        for _ in range(CHUNKS_AT_ONCE):
            if self.output < 0:
                return
            try:
                chunk = os.read(self.output, CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._close_output()
                return
            self._tail = (self._tail + chunk)[-4 * TAIL :]
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        fits = chunk[: self._room]
        self._room -= len(fits)
        if fits:
            self._log.write(fits)
        if fits and not self._room:
            self._log.write(b"\n[the log ends here: its limit is reached]\n")

    def interrupt(self) -> None:
        """Ask it to end by itself."""
        self._process.send_signal(SIGINT)

    def end(self) -> None:
        """Kill it with all its descendants; what does not leave in time is left to the cleaning, which reports it."""
        with suppress(TreeSurvived):
            end_tree(identify(self.pid), self._mark, patience=PATIENCE)
        self.exit_code()  # collects it: its exit code may not be asked for again

    def close(self) -> None:
        self._has_ended = True
        self._close_output()
        self._log.close()

    def _close_output(self) -> None:
        """No process holds the other end. The log stays open for a command that has closed its output and runs on."""
        if self.output >= 0:
            os.close(self.output)
            self.output = -1
        if self._has_ended:
            self._log.close()


def start_script(config: Config) -> Child:
    """The pre-runner script, by its own interpreter if it names one."""
    path = config.directory / "pre-runner"
    path.write_text(config.pre_runner_script, encoding="utf-8")
    path.chmod(0o700)
    command = [str(path)] if config.pre_runner_script.startswith("#!") else ["/bin/sh", str(path)]
    return Child(config, "boot", command, {}, LogFile(config.directory / "pre-runner.log"))


def start_job(
    config: Config,
    order: Order,
    run_id: str,
    log: Sink,
    account: Account | None = None,
    directory: Path | None = None,
) -> Child:
    """Its command, in `directory` or in the shared one. Raise OSError or ValueError where it cannot start."""
    if not order.command:
        log.close()
        raise ValueError("the job has no command")
    job = order.job
    known = {"BULLPEN_JOB_ID": job.id, "BULLPEN_JOB_INDEX": str(order.index), "BULLPEN_RUN_ID": run_id}
    work = directory or config.places["work"]

    def explain(code: int) -> str:
        return explained(code, work)

    return Child(config, f"{job.id}.{job.fence}", order.command, known, log, account, cwd=directory, explain=explain)
