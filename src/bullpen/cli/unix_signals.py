"""Signals of a command: which ones stop it, and what they do after the work of its event loop.

A closing event loop removes its signal handlers. Without care SIGTERM would then kill the process, and Ctrl-C would
print a traceback. So signals are blocked from the end of the work until `finish`, which runs after the loop is closed.

A terminal that is closed sends SIGHUP: it stops a command as Ctrl-C does, unless `nohup` started the command.
"""

import os
import select
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from types import FrameType

from bullpen.cli.output import note
from bullpen.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopping() -> list[signal.Signals]:
    """The signals that stop this process: not a SIGHUP that was ignored when it started."""
    return [one for one in SIGNALS if one is not signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


def terminals() -> list[int]:
    """Those of stdin, stdout and stderr that are a terminal."""
    return [number for number in (0, 1, 2) if os.isatty(number)]


def replace_closed(before: Collection[int]) -> None:
    """Read nothing from the terminals that were closed, and write nowhere: they would answer with an error, in the
    middle of the work. `before` are the terminals at the start."""
    for number in before:
        if not os.isatty(number):
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nowhere, number)
            os.close(nowhere)


def hold() -> None:
    """Block signals. Called last on the loop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def finish() -> None:
    """Unblock signals when the work is done and its answer is about to be printed.

    The first signal, blocked or new, is ignored: it cannot change the result. A second one ends this process, because
    the reader of the answer may be gone.
    """
    for number in stopping():
        signal.signal(number, _too_late)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def answer_to(question: str, remedy: str) -> str:
    """The next line of stdin, "" at its end, for a person who is asked after a query and before any work. A signal
    raises Interrupted with this remedy, also one that answers the question at once: `finish` has left handlers that
    ignore the first.

    The signal is noticed by what it writes to a pipe: one that arrives just before a read would not interrupt it.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    earlier = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda number, frame: None) for number in stopping()}
    try:
        note(question, end="")
        ready, _, _ = select.select([sys.stdin, reading], [], [])
        if reading in ready:
            raise Interrupted("interrupted", remedy=remedy)
        with suppress(OSError):
            if (line := sys.stdin.readline()) or sys.stdin.isatty():
                return line
        raise Interrupted("interrupted", remedy=remedy)  # the terminal was closed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(earlier)
        os.close(reading)
        os.close(writing)


def _too_late(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:  # twice for one closed terminal: from the system, and from the shell
        return
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _abandon)


def _abandon(number: int, frame: FrameType | None) -> None:
    os._exit(Interrupted.exit_code)
