"""The upkeep of files: sources and artifacts share one room."""

import asyncio
from pathlib import Path

import pytest

from bullpen.config import Settings, Sync
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import NotFound, StoreFull
from bullpen.sources.upkeep import BoundedStore, tidy
from conformance.test_sources import a_manifest, a_pack, stored

ONE_MEBIBYTE = Settings(sync=Sync(store_size=1))


def blocks(letter: str, count: int) -> list[bytes]:
    return [f"{letter}{number}".encode() * 100_000 for number in range(count)]


async def test_a_pool_on_this_machine_keeps_its_limit_and_removes_what_is_unused_longest(tmp_path: Path) -> None:
    ports = Memory().ports(LoopClock(), SeededChance())
    store = BoundedStore(ports, ONE_MEBIBYTE)
    sources = []
    for letter in ("a", "b"):
        await store.add_pack(a_pack(tmp_path, blocks(letter, 2))[0])
        sources.append(await store.add_manifest(a_manifest(*blocks(letter, 2))))
        await asyncio.sleep(2 * 3600)
    await store.add_pack(a_pack(tmp_path, blocks("c", 2))[0])
    with pytest.raises(NotFound):
        await ports.sources.bundle(sources[0])
    await ports.sources.bundle(sources[1])


async def test_a_pool_on_this_machine_refuses_what_does_not_fit_beside_what_is_in_use(tmp_path: Path) -> None:
    ports = Memory().ports(LoopClock(), SeededChance())
    store = BoundedStore(ports, ONE_MEBIBYTE)
    await store.add_pack(a_pack(tmp_path, blocks("a", 3))[0])
    await store.add_manifest(a_manifest(*blocks("a", 3)))
    more, _ = a_pack(tmp_path, blocks("b", 3))
    said = r"no room for 586 KiB more: 438 KiB of 1 MiB \(sync.store-size\) are free"
    with pytest.raises(StoreFull, match=said) as full:
        await store.add_pack(more)
    assert "Raise sync.store-size" in full.value.remedy
    await asyncio.sleep(2 * 3600)
    await store.add_pack(more)


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
