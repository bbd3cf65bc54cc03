"""Signals at the end of an event loop, which takes its handlers away: for a moment SIGTERM would kill and Ctrl-C be a
traceback. So they are held from the end of the work until `finish`, which is called when the loop is closed.
"""

import os
import signal
from types import FrameType

from bullpen.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def hold() -> None:
    """Let signals wait. The last thing to be done on the loop."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def finish() -> None:
    """The work is done and its answer is about to be printed: the first signal, held or still to come, is too late to
    change either. A second one ends this process, for nobody may be reading the answer."""
    for number in SIGNALS:
        signal.signal(number, _too_late)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _too_late(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, _abandon)


def _abandon(number: int, frame: FrameType | None) -> None:
    os._exit(Interrupted.exit_code)
