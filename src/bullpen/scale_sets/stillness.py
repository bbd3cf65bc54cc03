"""Since when the records of sessions stand still, by the monotonic clock of this process.

The process that holds a set changes the record of its session every few seconds. So a record that stands still for a
whole lease has no living holder, whatever the wall clocks of the two processes say.
"""

import asyncio

from bullpen.model.set_session import SetSession


class StillSessions:
    """Remembers the version of each session and when this process saw it first. Keep one for the life of a process."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}

    def seconds(self, session: SetSession) -> float:
        """For how long this process has seen no other version. The first look answers 0."""
        now = asyncio.get_running_loop().time()
        version, since = self._seen.get(session.id, (0, now))
        if version != session.version:
            version, since = self._seen[session.id] = session.version, now
        return now - since
