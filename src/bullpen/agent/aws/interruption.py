"""Notices that EC2 is going to take this machine: an interruption of its spot capacity, or the advice to leave it.

An agent with a notice takes no more jobs, refuses a claim at once, and reports in every heartbeat when it leaves. A
thread of its own asks for notices and wakes the agent's loop: a metadata service that does not answer must not delay a
heartbeat.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import NamedTuple

from bullpen.agent.aws.imds import Metadata, NoMetadata, time_of
from bullpen.agent.wakeup import ThreadWakeup

EVERY = 5.0  # seconds: EC2 gives two minutes at most
SPOT = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"


class Notice(NamedTuple):
    """EC2 is going to take the machine: at `at`, or, after a mere advice, some time after it."""

    text: str
    at: datetime


def current(metadata: Metadata) -> Notice | None:
    """The notice of an interruption if there is one, else the advice to leave if there is one. Raise NoMetadata."""
    if (found := metadata.texts(SPOT, "action", "time")) is not None:
        action, at = found
        return Notice(f"spot interruption: EC2 is going to {action} this machine at {at}", time_of(at))
    if (found := metadata.texts(REBALANCE, "noticeTime")) is not None:
        (at,) = found
        return Notice(f"rebalance recommendation: since {at} EC2 may take this machine at any time", time_of(at))
    return None


class Notices:
    """What EC2 said last. A notice stands until a more urgent one takes its place: none is ever taken back."""

    def __init__(self, metadata: Metadata, bell: ThreadWakeup) -> None:
        self.notice: Notice | None = None
        self._metadata = metadata
        self._bell = bell
        self._closing = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="bullpen-notices", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def ask(self) -> None:
        """Ask once; ring if there is news. A service that does not answer has none."""
        try:
            found = current(self._metadata)
        except NoMetadata:
            return
        if found is not None and found != self.notice:
            self.notice = found
            self._bell.ring()

    def _watch(self) -> None:
        self.ask()
        while not self._closing.wait(EVERY):
            self.ask()
