"""Files are written below one directory, and nowhere else, whatever a manifest says."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bullpen.agent.collect_artifacts import matches
from bullpen.errors import ConfigError, Refused
from bullpen.host.packs import bundle_head
from bullpen.host.unpack import BadContent, Blocks, unpack
from bullpen.model.manifest import BLOCK, BadManifest, FileEntry, Manifest, decode, encode
from bullpen.ports import ARTIFACTS_LIMIT
from bullpen.sources import fetch_artifacts

NAMES = some.sampled_from(["a", "b", "..", ".", "", "c\udcff", "é", "long" * 63])
PATHS = some.lists(NAMES, min_size=1, max_size=4).map("/".join)
CONTENTS = some.binary(max_size=50)


def a_manifest(files: dict[str, bytes], links: dict[str, str] | None = None) -> tuple[Manifest, bytes]:
    blocks = {sha256(one).hexdigest(): one for one in files.values() if one}
    numbers = {digest: number for number, digest in enumerate(blocks)}
    entries = [
        FileEntry(path, False, (numbers[sha256(one).hexdigest()],) if one else ()) for path, one in files.items()
    ]
    listed = tuple((digest, len(one)) for digest, one in blocks.items())
    made = Manifest(tuple(sorted(entries, key=lambda one: one.path)), tuple((links or {}).items()), (), listed)
    return made, b"".join(blocks.values())


def unpacked(manifest: Manifest, content: bytes, target: Path, *, replace: bool = False) -> None:
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        blocks, places, offset = Blocks(), {}, 0
        for digest, length in manifest.blocks:
            places[digest] = (offset, length)
            offset += length
        blocks.add(file.fileno(), places)
        top = os.open(target, os.O_RDONLY)
        try:
            unpack(manifest, blocks, top, replace=replace)
        finally:
            os.close(top)


def found_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@settings(max_examples=3 * settings().max_examples)  # 300
@given(some.dictionaries(PATHS, CONTENTS, max_size=6), some.dictionaries(PATHS, PATHS, max_size=2))
def test_what_a_manifest_accepts_is_written_below_the_directory_and_is_the_same(
    files: dict[str, bytes], links: dict[str, str]
) -> None:
    manifest, content = a_manifest(files, links)
    with tempfile.TemporaryDirectory() as directory:
        around = Path(directory)
        try:
            accepted = decode(encode(manifest))
        except BadManifest:
            return
        assert accepted == manifest
        unpacked(accepted, content, around / "target")
        made = {path: (around / "target" / path) for path in links}
        assert all(path.is_symlink() for path in made.values())
        for path in made.values():
            path.unlink()
        assert found_in(around) == {f"target/{path}": one for path, one in files.items()}


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("link/b",), ("a/b", "a")])
def test_a_path_twice_or_through_a_file_or_a_link_is_no_manifest(paths: tuple[str, ...]) -> None:
    entries = tuple(FileEntry(path, False, ()) for path in paths)
    with pytest.raises(BadManifest):
        decode(encode(Manifest(entries, (("link", "/etc"),))))


def test_a_manifest_of_empty_lists_is_refused_before_it_is_read() -> None:
    """As JSON it would take gigabytes, and hold up the server for many seconds."""
    lists = b"[]," * 2_000_000 + b"[]"
    with pytest.raises(BadManifest, match="more than 2000000 lists"):
        decode(b'{"format":1,"files":[%b],"links":[],"directories":[],"blocks":[],"start":""}' % lists)


def test_a_directory_that_was_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "target/sub").symlink_to(tmp_path / "outside")
    manifest, content = a_manifest({"sub/file": b"content"})
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        unpacked(manifest, content, tmp_path / "target")
    assert found_in(tmp_path / "outside") == {}


def test_a_block_with_other_content_is_detected(tmp_path: Path) -> None:
    manifest, content = a_manifest({"file": b"content"})
    with pytest.raises(BadContent, match="other content"):
        unpacked(manifest, b"Content", tmp_path / "target")
    with pytest.raises(BadContent, match="shorter"):
        unpacked(manifest, content[:-1], tmp_path / "other")


async def fetched(bundle: bytes, target: Path) -> list[str]:
    async def read(offset: int) -> bytes:
        return bundle[offset : offset + 7]

    return await fetch_artifacts(read, target)


@pytest.mark.real_loop
async def test_artifacts_replace_files_and_never_follow_links(tmp_path: Path) -> None:
    manifest, content = a_manifest({"dist/report": b"new"})
    bundle = bundle_head(encode(manifest)) + content
    assert await fetched(b"", tmp_path / "none") == []
    assert await fetched(bundle, tmp_path / "out") == ["dist/report"]
    report = tmp_path / "out/dist/report"
    os.unlink(report)
    os.symlink(tmp_path / "victim", report)
    assert await fetched(bundle, tmp_path / "out") == ["dist/report"]
    assert found_in(tmp_path) == {"out/dist/report": b"new"}
    os.unlink(report)
    os.rmdir(report.parent)
    os.symlink(tmp_path, report.parent)
    with pytest.raises(ConfigError, match="artifacts cannot be written there"):
        await fetched(bundle, tmp_path / "out")


@pytest.mark.real_loop
async def test_artifacts_do_not_follow_a_link_in_the_place_of_their_directory(tmp_path: Path) -> None:
    manifest, content = a_manifest({"pre-commit": b"new"})
    (tmp_path / "hooks").mkdir()
    for target in (tmp_path / "hooks", tmp_path / "missing"):
        out = tmp_path / f"{target.name}-out"
        out.symlink_to(target)
        with pytest.raises(ConfigError, match="artifacts cannot be written there"):
            await fetched(bundle_head(encode(manifest)) + content, out)
    assert found_in(tmp_path) == {}


@pytest.mark.real_loop
async def test_artifacts_with_links_or_damage_are_refused(tmp_path: Path) -> None:
    manifest, content = a_manifest({"file": b"new"}, {"link": "/etc/passwd"})
    with pytest.raises(Refused, match="only files are taken"):
        await fetched(bundle_head(encode(manifest)) + content, tmp_path / "out")
    plain, content = a_manifest({"file": b"new"})
    for broken in (b"x" * 40, bundle_head(encode(plain)), bundle_head(encode(plain)) + b"old"):
        with pytest.raises(Refused, match="damaged"):
            await fetched(broken, tmp_path / "out")


@pytest.mark.real_loop
async def test_a_small_bundle_of_endless_files_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    block = bytes(BLOCK)
    files = (FileEntry("zeros", False, (0,) * (ARTIFACTS_LIMIT // BLOCK + 1)),)
    bundle = bundle_head(encode(Manifest(files, blocks=((sha256(block).hexdigest(), BLOCK),)))) + block

    async def read(offset: int) -> bytes:
        return bundle[offset:]

    with pytest.raises(Refused, match="have more than"):
        await fetch_artifacts(read, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("pattern", "path", "does"),
    [
        ("dist/*", "dist/a", True),
        ("dist/*", "dist/a/b", True),  # a directory that matches gives all files in it
        ("dist", "dist/a/b", True),
        ("*.xml", "a.xml", True),
        ("*.xml", "sub/a.xml", False),
        ("**/*.xml", "a.xml", True),
        ("**/*.xml", "x/y/a.xml", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b/c", True),
        ("a/**/b", "a/x", False),
        ("**", "any/thing", True),
        ("dist/?", "dist/ab", False),
    ],
)
def test_a_pattern_matches_names_and_directories(pattern: str, path: str, does: bool) -> None:
    assert matches(path.split("/"), pattern.split("/")) is does
