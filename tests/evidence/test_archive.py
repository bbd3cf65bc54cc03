"""The zip of evidence: valid, and with names that stay in the folder into which it is unpacked."""

import asyncio
import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.evidence.archive import PIECE, EvidenceFile, safe_part, zipped

AT = datetime(2026, 11, 19, 12, 30, 15, tzinfo=UTC)


def packed(*files: EvidenceFile, at: datetime = AT) -> zipfile.ZipFile:
    async def pieces() -> bytes:
        return b"".join([piece async for piece in zipped(files, at)])

    return zipfile.ZipFile(io.BytesIO(asyncio.run(pieces())))


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, 5 * PIECE + 7])
def test_every_file_is_in_the_archive_whole(size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    archive = packed(EvidenceFile("a/b.log", content, size), EvidenceFile("c.json", b"{}", 2))
    assert archive.testzip() is None
    assert archive.namelist() == ["a/b.log", "c.json"]
    assert archive.read("a/b.log") == content
    assert archive.getinfo("c.json").date_time == (2026, 11, 19, 12, 30, 14)  # a zip counts in steps of two seconds


def test_a_clock_before_1980_makes_an_archive_all_the_same() -> None:
    archive = packed(EvidenceFile("a", b"x", 1), at=datetime(1970, 1, 1, tzinfo=UTC))
    assert archive.read("a") == b"x"


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("i-0123456789abcdef", "i-0123456789abcdef"),
        ("i-1/6798", "i-1_6798"),
        ("../../etc/passwd", "__.._etc_passwd"),
        ("..", "_"),
        (".", "_"),
        ("", "_"),
        (".ssh", "_ssh"),
        ("C:\\x", "C__x"),
        ("a\0b\n", "a_b_"),
        ("日本", "___"),
    ],
)
def test_any_id_makes_one_safe_part_of_a_path(id: str, name: str) -> None:
    assert safe_part(id) == name


@given(st.text(max_size=300))
def test_no_id_leaves_the_folder(id: str) -> None:
    part = safe_part(id)
    assert part not in ("", ".", "..")
    assert len(part) <= 121
    assert Path("/folder", part).resolve() == Path("/folder") / part
    assert part.isascii()
