"""What every Sources and every Artifacts promises."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from bullpen.errors import NotFound, Refused, StoreFull
from bullpen.host.packs import PackWriter, bundle_head
from bullpen.model.manifest import FileEntry, Manifest, encode, source_id
from bullpen.ports import ARTIFACTS_LIMIT, Artifacts, Ports, Sources

LATER = timedelta(hours=2)  # past the time that everything stays
WEEKS_LATER = timedelta(days=8)
ROOM = 10**9
UNKNOWN = "0" * 64


def name_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def a_pack(directory: Path, contents: Sequence[bytes]) -> tuple[Path, str]:
    writer = PackWriter(directory / "made.pack")
    for content in contents:
        writer.add(name_of(content), content)
    return writer.path, writer.finish()


def a_manifest(*contents: bytes) -> bytes:
    files = tuple(FileEntry(f"file-{number}", False, (number,)) for number in range(len(contents)))
    return encode(Manifest(files, blocks=tuple((name_of(one), len(one)) for one in contents)))


async def stored(sources: Sources, directory: Path, *contents: bytes) -> str:
    await sources.add_pack(a_pack(directory, contents)[0])
    return await sources.add_manifest(a_manifest(*contents))


async def bundle(sources: Sources, source: str) -> bytes:
    size, pieces = await sources.bundle(source)
    found = b"".join([piece async for piece in pieces])
    assert len(found) == size
    return found


async def test_only_blocks_that_were_never_added_are_missing(sources: Sources, tmp_path: Path) -> None:
    blocks = [name_of(one) for one in (b"one", b"two", b"three")]
    assert await sources.missing(blocks) == set(blocks)
    pack, _ = a_pack(tmp_path, [b"one", b"two"])
    await sources.add_pack(pack)
    assert await sources.missing(blocks) == {blocks[2]}
    assert not pack.exists()


async def test_a_bundle_is_the_manifest_and_its_blocks_from_whichever_pack(sources: Sources, tmp_path: Path) -> None:
    await sources.add_pack(a_pack(tmp_path, [b"one", b"unused"])[0])
    source = await stored(sources, tmp_path, b"two", b"three")
    manifest = a_manifest(b"three", b"one", b"two")
    source = await sources.add_manifest(manifest)
    assert source == source_id(manifest)
    assert await bundle(sources, source) == bundle_head(manifest) + b"threeonetwo"
    with pytest.raises(NotFound):
        await sources.bundle(UNKNOWN)


async def test_adding_again_is_success(sources: Sources, tmp_path: Path) -> None:
    source = await stored(sources, tmp_path, b"one")
    assert await stored(sources, tmp_path, b"one") == source


async def test_a_manifest_with_a_block_that_is_not_stored_is_refused(sources: Sources, tmp_path: Path) -> None:
    await sources.add_pack(a_pack(tmp_path, [b"one"])[0])
    with pytest.raises(Refused, match="not stored"):
        await sources.add_manifest(a_manifest(b"one", b"two"))
    with pytest.raises(NotFound):
        await sources.keep(source_id(a_manifest(b"one", b"two")))


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "a//b", "a/./b", "", ".", "nul\0", "a/"])
async def test_a_manifest_that_leads_out_of_its_directory_is_refused(sources: Sources, path: str) -> None:
    with pytest.raises(Refused, match="not a manifest"):
        await sources.add_manifest(encode(Manifest((FileEntry(path, False, ()),))))


async def test_what_is_no_manifest_and_no_pack_is_refused(sources: Sources, tmp_path: Path) -> None:
    for content in (b"", b"{}", b"[" * 100_000, encode(Manifest((FileEntry("a", False, (0,)),)))):
        with pytest.raises(Refused):
            await sources.add_manifest(content)
    (tmp_path / "torn").write_bytes(b"no pack")
    with pytest.raises(Refused):
        await sources.add_pack(tmp_path / "torn")


async def test_a_pack_arrives_in_pieces_also_twice_and_counts_once_whole(sources: Sources, tmp_path: Path) -> None:
    path, pack = a_pack(tmp_path, [b"one", b"two"])
    content = path.read_bytes()
    size = len(content)
    assert await sources.receive_pack(pack, 0, size, content[:10]) == 10
    assert await sources.receive_pack(pack, 0, size, b"") == 10
    assert await sources.receive_pack(pack, 5, size, content[5:20]) == 20
    with pytest.raises(Refused, match="none at 30"):
        await sources.receive_pack(pack, 30, size, content[30:])
    assert await sources.missing([name_of(b"one")]) == {name_of(b"one")}
    assert await sources.receive_pack(pack, 20, size, content[20:]) == size
    assert await sources.missing([name_of(b"one"), name_of(b"two")]) == set()
    assert await sources.receive_pack(pack, 0, size, content[:10]) == size


async def test_a_pack_that_is_not_what_it_says_is_refused_and_can_be_sent_again(
    sources: Sources, tmp_path: Path
) -> None:
    path, pack = a_pack(tmp_path, [b"one", b"two"])
    content = path.read_bytes()
    wrong = b"ONE" + content[3:]
    for sent, named in ((wrong, pack), (content, UNKNOWN)):
        with pytest.raises(Refused):
            await sources.receive_pack(named, 0, len(sent), sent)
        assert await sources.missing([name_of(b"one")]) == {name_of(b"one")}
    assert await sources.receive_pack(pack, 0, len(content), content) == len(content)
    for name in ("../../etc", "x" * 64, "A" * 64):
        with pytest.raises(Refused):
            await sources.receive_pack(name, 0, 1, b"x")


async def test_a_manifest_arrives_in_pieces(sources: Sources, tmp_path: Path) -> None:
    await sources.add_pack(a_pack(tmp_path, [b"one"])[0])
    manifest = a_manifest(b"one")
    source, size = source_id(manifest), len(manifest)
    assert await sources.receive_manifest(source, 0, size, manifest[:20]) == 20
    with pytest.raises(NotFound):
        await sources.keep(source)
    assert await sources.receive_manifest(source, 20, size, manifest[20:]) == size
    await sources.keep(source)
    with pytest.raises(Refused, match="it is not manifest"):
        await sources.receive_manifest(UNKNOWN, 0, size, manifest)


async def test_what_is_needed_or_was_used_lately_stays(ports: Ports, sources: Sources, tmp_path: Path) -> None:
    now = ports.clock.now()
    source = await stored(sources, tmp_path, b"one")
    assert await sources.tidy(now, [], 0) == 0
    assert await sources.tidy(now + WEEKS_LATER, [source], 0) == 0
    assert await bundle(sources, source)


@pytest.mark.parametrize(("later", "room", "goes"), [(LATER, ROOM, False), (LATER, 1, True), (WEEKS_LATER, ROOM, True)])
async def test_what_is_not_needed_goes_with_time_or_for_want_of_room(
    ports: Ports, sources: Sources, tmp_path: Path, later: timedelta, room: int, goes: bool
) -> None:
    source = await stored(sources, tmp_path, b"one")
    freed = await sources.tidy(ports.clock.now() + later, [], room)
    assert (freed > 0) == goes
    assert await sources.missing([name_of(b"one")]) == ({name_of(b"one")} if goes else set())
    if goes:
        with pytest.raises(NotFound):
            await sources.keep(source)


async def test_a_pack_that_one_of_two_manifests_needs_stays(ports: Ports, sources: Sources, tmp_path: Path) -> None:
    now: datetime = ports.clock.now()
    await stored(sources, tmp_path, b"one", b"two")
    second = await sources.add_manifest(a_manifest(b"two"))
    await sources.tidy(now + LATER, [second], 0)
    assert await bundle(sources, second) == bundle_head(a_manifest(b"two")) + b"two"


async def test_packs_that_many_runs_added_are_joined(sources: Sources, tmp_path: Path) -> None:
    contents = [f"content {number}".encode() for number in range(40)]
    for content in contents:
        await sources.add_pack(a_pack(tmp_path, [content])[0])
    source = await sources.add_manifest(a_manifest(*contents))
    assert await bundle(sources, source) == bundle_head(a_manifest(*contents)) + b"".join(contents)


# ---- artifacts


async def test_artifacts_are_read_as_they_were_written_once_they_are_whole(artifacts: Artifacts) -> None:
    assert await artifacts.append("j-1", 1, 0, 6, b"one") == 3
    assert await artifacts.read("j-1", 1, 0, 10) == b""
    with pytest.raises(Refused, match="none at 5"):
        await artifacts.append("j-1", 1, 5, 6, b"o")
    assert await artifacts.append("j-1", 1, 1, 6, b"netwo") == 6
    assert await artifacts.append("j-1", 1, 0, 6, b"one") == 6
    assert [await artifacts.read("j-1", 1, offset, 4) for offset in (0, 4, 6)] == [b"onet", b"wo", b""]
    assert await artifacts.read("j-1", 2, 0, 10) == b""


async def test_artifacts_beyond_the_limit_are_refused(artifacts: Artifacts) -> None:
    with pytest.raises(Refused, match="at most"):
        await artifacts.append("j-1", 1, 0, ARTIFACTS_LIMIT + 1, b"one")


# ---- room


async def test_a_pack_that_is_there_already_needs_no_room(sources: Sources, tmp_path: Path) -> None:
    for _ in range(2):
        path, _ = a_pack(tmp_path, [b"x" * 1000])
        await sources.add_pack(path, room=path.stat().st_size)
        assert not path.exists()
    with pytest.raises(StoreFull):
        await sources.add_pack(a_pack(tmp_path, [b"y"])[0], room=1000)


async def test_what_there_is_no_room_for_is_refused_before_any_of_it_is_stored(
    sources: Sources, artifacts: Artifacts, tmp_path: Path
) -> None:
    manifest, (path, pack) = a_manifest(), a_pack(tmp_path, [b"x" * 1000])
    content = path.read_bytes()
    full = r"no room for \S+ K?i?B more: 9 B of 9 B \(sync.store-size\) are free"
    with pytest.raises(Refused, match=full) as refused:
        await sources.receive_pack(pack, 0, len(content), content[:1], room=9)
    assert "Raise sync.store-size" in refused.value.remedy
    with pytest.raises(StoreFull, match=full) as missed:
        await sources.add_pack(path, room=9)
    assert (missed.value.needed, path.exists()) == (len(content), True)
    with pytest.raises(Refused, match=full):
        await sources.receive_manifest(source_id(manifest), 0, len(manifest), manifest, room=9)
    with pytest.raises(Refused, match=full):
        await artifacts.append("j-1", 1, 0, 10, b"0123456789", room=9)
    assert await artifacts.append("j-1", 1, 0, 9, b"012345678", room=9) == 9


async def test_sources_artifacts_and_what_is_still_arriving_share_one_room(
    sources: Sources, artifacts: Artifacts, tmp_path: Path
) -> None:
    path, pack = a_pack(tmp_path, [b"x" * 1000])
    content = path.read_bytes()
    room = 2 * len(content) - 1
    assert await sources.receive_pack(pack, 0, len(content), content[:10], room=room) == 10
    assert await artifacts.append("j-1", 1, 0, len(content), content[:-1], room=room) == len(content) - 1
    assert await artifacts.append("j-1", 1, len(content) - 1, len(content), content[-1:], room=room) == len(content)
    with pytest.raises(Refused, match="no room"):
        await sources.receive_pack(pack, 10, len(content), content[10:], room=room)
    assert await sources.receive_pack(pack, 10, len(content), content[10:], room=room + 1) == len(content)


async def test_an_upkeep_makes_room_again(ports: Ports, sources: Sources, artifacts: Artifacts, tmp_path: Path) -> None:
    await artifacts.append("j-1", 1, 0, 10, b"0123456789")
    await artifacts.append("j-2", 1, 0, 10, b"cut off")
    with pytest.raises(Refused, match="no room"):
        await artifacts.append("j-3", 1, 0, 20, b"", room=20)
    assert await artifacts.tidy(ports.clock.now() + LATER, 5) == 17
    assert await artifacts.size() == 0
    assert await artifacts.append("j-3", 1, 0, 20, b"x" * 20, room=20) == 20


async def test_artifacts_go_only_for_want_of_room_and_not_within_an_hour(ports: Ports, artifacts: Artifacts) -> None:
    for job in ("j-1", "j-2"):
        await artifacts.append(job, 1, 0, 10, b"0123456789")
    assert await artifacts.size() == 20
    assert await artifacts.tidy(ports.clock.now(), 0) == 0
    assert await artifacts.tidy(ports.clock.now() + WEEKS_LATER, 20) == 0
    assert await artifacts.tidy(ports.clock.now() + LATER, 19) == 10
    assert sorted([await artifacts.read(job, 1, 0, 10) for job in ("j-1", "j-2")]) == [b"", b"0123456789"]
