"""The upkeep of files: sources and artifacts share one room."""

import asyncio
from pathlib import Path

import pytest

from bullpen.config import Settings, Sync
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import NotFound
from bullpen.sources.upkeep import tidy
from conformance.test_sources import stored

ONE_MEBIBYTE = Settings(sync=Sync(store_size=1))


async def test_sources_go_to_leave_room_for_artifacts(tmp_path: Path) -> None:
    ports = Memory().ports(LoopClock(), SeededChance())
    source = await stored(ports.sources, tmp_path, b"x" * 1000)
    size = 1024 * 1024 - 500  # it leaves no room for the source
    await ports.artifacts.append("j-1", 1, 0, size, b"x" * size)
    assert await tidy(ports, ONE_MEBIBYTE) == 0, "both are young"
    await asyncio.sleep(2 * 3600)
    assert await tidy(ports, ONE_MEBIBYTE) >= 1000
    with pytest.raises(NotFound):
        await ports.sources.bundle(source)
    assert await ports.artifacts.size() == size
