"""Limits on requests at once. Beyond them, every request but a heartbeat is answered with 429."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

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
MOST_UNKNOWN = 256
"""Requests with a token that may be new: they wait for the next read of the tokens, a second at most, with the first
64 KiB of their bodies."""
MOST_POLLS = 2  # of one instance: an agent's own, and the one its crash left behind
RETRY_AFTER = 2.0  # seconds


class Admission:
    """Counts the requests that are being served. A method raises a 429 if too many of its kind are already."""

    def __init__(
        self, requests: int = MOST_REQUESTS, watching: int = MOST_WATCHING, unproved: int = MOST_UNPROVED
    ) -> None:
        self._limits = {
            "request": requests,
            "watching": watching,
            "ci": MOST_AT_CI,
            "unproved": unproved,
            "unknown": MOST_UNKNOWN,
        }
        self._at_work: Counter[str] = Counter()

    def work(self) -> AbstractContextManager[None]:
        return self._counted("request")

    def watch(self) -> AbstractContextManager[None]:
        """For a request that mostly waits."""
        return self._counted("watching")

    @contextmanager
    def poll(self, instance_id: str) -> Iterator[None]:
        """For a long poll: one agent cannot take the room of all."""
        with self._counted(f"poll {instance_id}", MOST_POLLS), self.watch():
            yield

    def ask_ci(self) -> AbstractContextManager[None]:
        """For a request that waits for the CI."""
        return self._counted("ci")

    def read_unproved(self) -> AbstractContextManager[None]:
        """For the body of a sender that is proved by it."""
        return self._counted("unproved")

    def wait_for_tokens(self) -> AbstractContextManager[None]:
        """For a request whose token is not known yet."""
        return self._counted("unknown")

    @contextmanager
    def _counted(self, kind: str, most: int | None = None) -> Iterator[None]:
        if self._at_work[kind] >= (self._limits[kind] if most is None else most):
            raise too_busy(RETRY_AFTER)
        self._at_work[kind] += 1
        try:
            yield
        finally:
            self._at_work[kind] -= 1
            if not self._at_work[kind]:
                del self._at_work[kind]
