"""Work of the agent itself that takes long: it runs in a process forked from the agent, so that the heartbeat goes on.

A fork and not a program: the installation may have been replaced since the agent started (see `preload`), and what is
loaded is ready at once. The child closes what it inherits and keeps only its output, which goes to the job's log. It
never returns into the agent's loop, and it runs no destructor and no handler of the agent's.
"""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from traceback import format_exc
from typing import TYPE_CHECKING, NoReturn

from bullpen.agent.child_process import Child
from bullpen.agent.store.base import Sink
from bullpen.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from bullpen.agent.account import Account

FAILED = 65  # what was given is wrong: it would fail on every runner (EX_DATAERR)
ELSEWHERE = 75  # this runner cannot: another one may (EX_TEMPFAIL)
LONGEST_REPORT = 32 * 1024  # bytes: a path and a sentence; a pipe takes twice as much at once
WHY = 1000  # characters of a sentence: the record keeps it
OUTPUT_LIMIT = 64 * 1024  # bytes that it may print


class CannotDo(Exception):
    """The work failed; its text is for the job's log and record. `elsewhere`: another runner may succeed. `about` is
    what the agent has to see to."""

    def __init__(self, text: str, *, elsewhere: bool = False, about: str = "") -> None:
        super().__init__(text)
        self.code = ELSEWHERE if elsewhere else FAILED
        self.about = about


@dataclass(frozen=True, slots=True)
class Report:
    """What the work said at its end."""

    result: str = ""  # what it returned
    why: str = ""  # why it failed
    about: str = ""


class Forked(Child):
    """A function in a process of its own. Its output is read like that of any child."""

    def __init__(self, work: Callable[[], str], log: Sink) -> None:
        self._tail = b""
        self._room = OUTPUT_LIMIT
        self._log = log
        self._has_ended = False
        self._code: int | None = None
        self._report, reporting_end = os.pipe()
        self.output, writing_end = os.pipe()
        try:
            os.set_blocking(self.output, False)
            os.set_blocking(self._report, False)
            with warnings.catch_warnings():
                # The other thread of an agent only waits for the server, and the child does not use its connection.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
        except OSError:
            for fd in (self._report, reporting_end, writing_end):
                os.close(fd)
            self.close()
            raise
        if self.pid == 0:
            _live(work, writing_end, reporting_end)
        os.close(writing_end)
        os.close(reporting_end)

    def report(self) -> Report:
        """What it said at its end, once that has come; asked for once."""
        try:
            return Report(*json.loads(os.read(self._report, LONGEST_REPORT)))
        except (OSError, ValueError, TypeError):
            return Report(why="its process was ended")
        finally:
            self._hear_no_more()

    def _hear_no_more(self) -> None:
        if self._report >= 0:
            os.close(self._report)
            self._report = -1

    def exit_code(self) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, ELSEWHERE << 8  # collected elsewhere: how it ended is not known
            if pid:
                self._note(status)
        return self._code

    def _note(self, status: int) -> None:
        self._code = os.waitstatus_to_exitcode(status)
        self.pump()
        self._has_ended = True
        if self.output < 0:
            self._log.close()

    def end(self) -> None:
        """Kill it. It has no descendants."""
        if self.exit_code() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                self._note(os.waitpid(self.pid, 0)[1])
        self._hear_no_more()


class Nowhere:
    """A log that keeps nothing."""

    def write(self, content: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def _live(work: Callable[[], str], output: int, report: int) -> NoReturn:
    code, said = ELSEWHERE, Report()
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        report = os.dup2(report, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # locks and connections of the agent, above all
        os.umask(0o022)
        said = Report(work())
        code = 0
    except CannotDo as exc:
        code, said = exc.code, Report("", str(exc), exc.about)
    except OSError as exc:
        where = f"{os.fsdecode(exc.filename)}: " if exc.filename else ""
        said = Report("", f"{where}{exc.strerror or exc}")
    except BaseException as exc:
        say(format_exc())
        said = Report("", f"unexpected error: {exc!r}")
    finally:
        if said.why:
            say(said.why)
        with suppress(OSError):
            os.write(report, json.dumps([said.result, said.why[:WHY], said.about]).encode())
        os._exit(code)


def say(text: str) -> None:
    """Print a line to the job's log."""
    with suppress(OSError):
        os.write(1, f"[bullpen: {text}]\n".encode(errors="replace"))


def become(account: Account | None) -> None:
    """Go on as the user of the jobs, for good: what is read and written from now on is what a job could."""
    if account is not None:
        os.setgroups(account.groups)
        os.setgid(account.group)
        os.setuid(account.user)
