"""Signals after the work of an event loop.

A closing event loop removes its signal handlers. Without care SIGTERM would then kill the process, and Ctrl-C would
print a traceback. So signals are blocked from the end of the work until `finish`, which runs after the loop is closed.
"""

import os
import signal
from types import FrameType

from bullpen.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def hold() -> None:
    """Block signals. Called last on the loop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def finish() -> None:
    """Unblock signals when the work is done and its answer is about to be printed.

    The first signal, blocked or new, is ignored: it cannot change the result. A second one ends this process, because
    the reader of the answer may be gone.
    """
    for number in SIGNALS:
        signal.signal(number, _too_late)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _too_late(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, _abandon)


def _abandon(number: int, frame: FrameType | None) -> None:
    os._exit(Interrupted.exit_code)
