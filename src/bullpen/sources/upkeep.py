"""Removes the files of projects that no job needs, so that they take no more than `sync.store-size`."""

from bullpen.config import Settings
from bullpen.ports import Ports

MEBIBYTE = 1024 * 1024


async def tidy(ports: Ports, settings: Settings) -> int:
    """Returns how many bytes were freed. What an unfinished job needs stays."""
    needed = await ports.jobs.sources()
    return await ports.sources.tidy(ports.clock.now(), needed, settings.sync.store_size * MEBIBYTE)
