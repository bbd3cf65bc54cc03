"""Limits on requests at once. Beyond them, every request but a heartbeat is answered with 429."""

from collections.abc import Iterator
from contextlib import contextmanager

from bullpen.server.problems import too_busy

MOST_REQUESTS = 64
"""Requests other than heartbeats at work at once. The store has one writer: more of them would only wait in line, and
heartbeats with them."""
MOST_WATCHING = 2000
"""Event streams and long polls, which wait and do no work."""
MOST_AT_CI = 64
"""Requests that wait for the CI. It may be slow or silent: they do not count against other requests."""
MOST_UNPROVED = 64
"""Bodies, of a megabyte at most, that are read before their sender is known: webhooks are signed over the body."""
RETRY_AFTER = 2.0  # seconds


class Admission:
    """Counts the requests that are being served."""

    def __init__(
        self,
        requests: int = MOST_REQUESTS,
        watching: int = MOST_WATCHING,
        at_ci: int = MOST_AT_CI,
        unproved: int = MOST_UNPROVED,
    ) -> None:
        self._limits = {"request": requests, "watching": watching, "ci": at_ci, "unproved": unproved}
        self._at_work = dict.fromkeys(self._limits, 0)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Raise a 429 if too much is at work already."""
        with self._counted("request"):
            yield

    @contextmanager
    def watch(self) -> Iterator[None]:
        """The same for something that mostly waits."""
        with self._counted("watching"):
            yield

    @contextmanager
    def ask_ci(self) -> Iterator[None]:
        """The same for something that waits for a CI which is not ours."""
        with self._counted("ci"):
            yield

    @contextmanager
    def read_unproved(self) -> Iterator[None]:
        """The same for the body of a sender who is proved by it."""
        with self._counted("unproved"):
            yield

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        if self._at_work[kind] >= self._limits[kind]:
            raise too_busy(RETRY_AFTER)
        self._at_work[kind] += 1
        try:
            yield
        finally:
            self._at_work[kind] -= 1
