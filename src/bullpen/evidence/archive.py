"""A zip of evidence, written piece by piece: valid, bounded, and with names that cannot leave the folder into which a
person unpacks it."""

import asyncio
import io
import re
import zipfile
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from bullpen.lazy_dataclass import dataclass

PIECE = 64 * 1024  # bytes that are compressed before others have a turn
LONGEST_NAME = 120  # characters of one part of a path
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """`size` is how long the whole is, of which `content` may be the end."""

    name: str
    content: bytes
    size: int


def safe_part(text: str) -> str:
    """One part of a path, of any id: no separator, no drive, not hidden, neither `.` nor `..`."""
    found = UNSAFE.sub("_", text)[:LONGEST_NAME]
    return found if found.strip("._") and not found.startswith(".") else f"_{found.lstrip('.')}"


class _Sink(io.RawIOBase):
    """Takes what zipfile writes; it cannot be read again, or rewound."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # zipfile writes nothing but bytes
        self.pieces.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        pieces, self.pieces = self.pieces, []
        return b"".join(pieces)


async def zipped(files: Sequence[EvidenceFile], at: datetime) -> AsyncIterator[bytes]:
    """The archive, in pieces. Other work of this process has its turn between them."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.name, (max(1980, at.year), at.month, at.day, at.hour, at.minute, at.second))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            with archive.open(entry, "w") as opened:
                for begin in range(0, len(file.content), PIECE):
                    opened.write(file.content[begin : begin + PIECE])
                    await asyncio.sleep(0)
                    if piece := sink.taken():
                        yield piece
    if piece := sink.taken():
        yield piece
