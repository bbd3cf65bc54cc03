"""Removes the files of projects that no job needs, and old artifacts, so that both together take no more than
`sync.store-size`. Artifacts come first: a project can be sent again."""

from collections.abc import Sequence
from pathlib import Path

from bullpen.config import Settings
from bullpen.errors import StoreFull
from bullpen.ports import Ports


async def tidy(ports: Ports, settings: Settings, more: int = 0) -> int:
    """Make room, for so many bytes `more`. Returns how many bytes were freed. What an unfinished job needs stays."""
    now, room = ports.clock.now(), max(settings.sync.store_bytes - more, 0)
    freed = await ports.artifacts.tidy(now, room)
    left = max(room - await ports.artifacts.size(), 0)
    return freed + await ports.sources.tidy(now, await ports.jobs.sources(), left)


class BoundedStore:
    """The store of a pool on this machine, for `send`: it takes no more than `sync.store-size`."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._settings = settings

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        return await self._ports.sources.missing(blocks)

    async def add_pack(self, pack: Path) -> None:
        """Where there is no room, what no job needs is removed first, the oldest before the others. Raise StoreFull if
        that does not suffice."""
        room = self._settings.sync.store_bytes
        try:
            await self._ports.sources.add_pack(pack, room=room)
        except StoreFull as full:
            await tidy(self._ports, self._settings, more=full.needed)
            await self._ports.sources.add_pack(pack, room=room)

    async def add_manifest(self, content: bytes) -> str:
        return await self._ports.sources.add_manifest(content)
