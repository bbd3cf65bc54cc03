"""Removes the files of projects that no job needs, and old artifacts, so that both together take no more than
`sync.store-size`. Artifacts come first: a project can be sent again."""

from bullpen.config import Settings
from bullpen.ports import Ports


async def tidy(ports: Ports, settings: Settings) -> int:
    """Returns how many bytes were freed. What an unfinished job needs stays."""
    now, room = ports.clock.now(), settings.sync.store_bytes
    freed = await ports.artifacts.tidy(now, room)
    left = max(room - await ports.artifacts.size(), 0)
    return freed + await ports.sources.tidy(now, await ports.jobs.sources(), left)
