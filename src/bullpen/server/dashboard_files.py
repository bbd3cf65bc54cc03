"""The files of the dashboard: HTML, CSS and scripts of the package, which anyone may read. They know nothing of the
pool; its data need a token or a session.

    /                   index.html
    /dashboard/NAME     each file of the folder, and nothing else: a name is looked up, and never a path that is opened

A file is read once, when the first client asks, compressed then, and sent whole or not at all: with its `ETag` a
browser asks again before each use, and is answered 304 while the release is the same.
"""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bullpen.lazy_dataclass import dataclass

FOLDER = Path(__file__).parent / "dashboard"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""By the end of the name. Other files are not served: what an editor leaves beside them stays private."""
COMPRESSED = frozenset(TYPES) - {".png"}

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",  # no script stands in a page: what is written into one is never executed
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
PROTECTION = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",  # what `frame-ancestors` says, for browsers that are older than it
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
"""Headers of each answer with a file of the dashboard, also of 304 and 404."""


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """`compressed` is empty where it would not be smaller."""

    kind: str
    content: bytes
    compressed: bytes
    tag: str

    def is_sent_compressed(self, accepted: str) -> bool:
        return bool(self.compressed) and _accepts_gzip(accepted)


@dataclass(frozen=True, slots=True)
class FileAnswer:
    status: int
    body: bytes
    headers: Mapping[str, str]


def file_answer(name: str, accepted: str = "", known: str = "") -> FileAnswer | None:
    """The answer to a request for a file; None if there is none of that name. `accepted` are the encodings that the
    client takes (`Accept-Encoding`), `known` the tags of what it has (`If-None-Match`)."""
    found = files().get(name)
    if found is None:
        return None
    is_compressed = found.is_sent_compressed(accepted)
    tag = f'"{found.tag}-gzip"' if is_compressed else f'"{found.tag}"'
    headers = {
        **PROTECTION,
        "etag": tag,
        # Kept, and never used unasked: after an upgrade no page works with the scripts of the release before.
        "cache-control": "no-cache",
        "vary": "accept-encoding",
    }
    if _has(known, tag):
        return FileAnswer(304, b"", headers)
    headers["content-type"] = found.kind
    if is_compressed:
        headers["content-encoding"] = "gzip"
    return FileAnswer(200, found.compressed if is_compressed else found.content, headers)


@cache
def files() -> dict[str, DashboardFile]:
    """Every file of the folder and of the folders in it, by name."""
    return {
        path.relative_to(FOLDER).as_posix(): _read(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in TYPES and path.is_file() and not path.name.startswith(".")
    }


def _read(path: Path) -> DashboardFile:
    content = path.read_bytes()
    compressed = gzip.compress(content, mtime=0) if path.suffix in COMPRESSED else b""
    tag = hashlib.sha256(content).hexdigest()[:32]
    return DashboardFile(TYPES[path.suffix], content, compressed if len(compressed) < len(content) else b"", tag)


def _accepts_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _has(known: str, tag: str) -> bool:
    """A proxy that compresses by itself makes tags weak; the content is the same."""
    return any(part.strip().removeprefix("W/") in (tag, "*") for part in known.split(","))
