"""Manifest: which files a job gets, or leaves behind, and what they contain.

    manifest    files, links and directories by path, and the *blocks* that the files consist of
    block       up to BLOCK bytes of one file, named by its SHA-256; equal blocks are stored and sent once
    source id   the SHA-256 of the manifest, so an id names every byte of every file

A manifest comes from outside: from a client, or from a job through its agent. `decode` accepts only what can be written
below one directory: no path leads out of it, and none leads through a file or a link. Paths are text in which a byte
that is not UTF-8 is a lone surrogate, as Python has it in names of files.

Standard library only: the agent imports this too.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from bullpen.lazy_dataclass import dataclass

FORMAT = 1
BLOCK = 256 * 1024  # bytes: a small change of a large file sends this much again
FILES = 200_000  # files, links and directories of one manifest: more is a mistake, such as a data set or a cache
LARGEST = 64 * 1024 * 1024  # bytes of an encoded manifest: what so many files need
LISTS = 2_000_000  # of an encoded manifest: two for each file, one for each block; more would take memory and time
PATH_BYTES = 4096  # of a path and of a link's target, as Linux has it
NAME_BYTES = 255  # of one name in it
HEX = frozenset("0123456789abcdef")


class BadManifest(ValueError):
    """What was given is not a manifest, or has a path that could lead elsewhere. Its text says what is wrong."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A regular file: its mode is 0755 or 0644, its content the blocks of these numbers, one after the other."""

    path: str
    executable: bool
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Sorted by path, so that the files of one directory follow each other."""

    files: tuple[FileEntry, ...] = ()
    links: tuple[tuple[str, str], ...] = ()  # path and target
    directories: tuple[str, ...] = ()  # only those that would be missing otherwise: the empty ones
    blocks: tuple[tuple[str, int], ...] = ()  # SHA-256 and length; each once
    start: str = ""  # the directory in which the job begins; empty: the top

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.blocks[number][1] for file in self.files for number in file.blocks)

    def file_size(self, file: FileEntry) -> int:
        return sum(self.blocks[number][1] for number in file.blocks)


def encode(manifest: Manifest) -> bytes:
    """As JSON. The same manifest always gives the same bytes."""
    document = {
        "format": FORMAT,
        "files": [[one.path, int(one.executable), one.blocks] for one in manifest.files],
        "links": manifest.links,
        "directories": manifest.directories,
        "blocks": manifest.blocks,
        "start": manifest.start,
    }
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def source_id(encoded: bytes) -> str:
    return sha256(encoded).hexdigest()


def is_hash(text: object) -> bool:
    """Whether this is a SHA-256 as manifests write it. What is one cannot be a path."""
    return isinstance(text, str) and len(text) == 64 and HEX.issuperset(text)


def decode(encoded: bytes) -> Manifest:
    """Raise BadManifest."""
    if len(encoded) > LARGEST:
        raise BadManifest(f"it has {len(encoded)} bytes, and may have {LARGEST}")
    if encoded.count(b"[") + encoded.count(b"{") > LISTS:  # before they are made: a server reads it beside heartbeats
        raise BadManifest(f"it has more than {LISTS} lists")
    try:
        found = json.loads(encoded)
    except (ValueError, RecursionError) as exc:
        raise BadManifest(f"not JSON: {exc}") from exc
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadManifest(f"format: not {FORMAT}")
    try:
        return _checked(*(found[name] for name in ("files", "links", "directories", "blocks", "start")))
    except (KeyError, TypeError, ValueError) as exc:
        raise exc if isinstance(exc, BadManifest) else BadManifest(f"not a manifest: {exc!r}") from exc


def _checked(files: list[Any], links: list[Any], directories: list[Any], blocks: list[Any], start: Any) -> Manifest:
    if not all(isinstance(some, list) for some in (files, links, directories, blocks)):
        raise BadManifest("files, links, directories and blocks: must be lists")
    if len(files) + len(links) + len(directories) > FILES:
        raise BadManifest(f"more than {FILES} files")
    for digest, length in blocks:
        if not is_hash(digest) or type(length) is not int or not 0 < length <= BLOCK:
            raise BadManifest(f"blocks: not a SHA-256 and a length up to {BLOCK}")
    entries = []
    last = len(blocks)
    for path, executable, numbers in files:
        if executable not in (0, 1) or not isinstance(numbers, list):
            raise BadManifest("files: not a path, 0 or 1, and a list of blocks")
        for number in numbers:
            if type(number) is not int or not 0 <= number < last:
                raise BadManifest("files: a block that the manifest does not have")
        entries.append(FileEntry(path, executable == 1, tuple(numbers)))
    for _, target in links:
        if not isinstance(target, str) or not target or "\0" in target or _size(target) > PATH_BYTES:
            raise BadManifest("links: a target that is none")
    known = _check_paths([one.path for one in entries] + [path for path, _ in links], directories)
    if start not in known:
        raise BadManifest("start: not a directory of the manifest")
    named = tuple((path, target) for path, target in links)
    return Manifest(tuple(entries), named, tuple(directories), tuple((one, size) for one, size in blocks), start)


def _check_paths(leaves: list[str], directories: list[str]) -> set[str]:
    """Every path stays below the top, none is there twice, and none leads through a file or a link. Returns the
    directories."""
    taken = set(leaves)
    above: set[str] = {""}
    for path in (*leaves, *directories):
        if not isinstance(path, str):
            raise BadManifest("a path that is not a text")
        parent, _, name = path.rpartition("/")
        if not is_name(name) or path.startswith("/"):
            raise BadManifest(f"{path!r}: not a path below the directory")
        if parent not in above:
            _climb(path, parent, taken, above)
    if len(taken) != len(leaves) or not taken.isdisjoint(directories) or len(set(directories)) != len(directories):
        raise BadManifest("a path that is there twice")
    return above.union(directories)


def _climb(path: str, parent: str, taken: set[str], above: set[str]) -> None:
    """Check the directories of a path that have not been checked yet."""
    if _size(path) > PATH_BYTES:
        raise BadManifest(f"{path[:40]!r}…: a path longer than {PATH_BYTES} bytes")
    while parent not in above:
        if not is_name(parent.rpartition("/")[2]) or parent in taken:
            raise BadManifest(f"{path!r}: not a path below the directory, or one through a file or a link")
        above.add(parent)
        parent = parent.rpartition("/")[0]


def is_name(name: str) -> bool:
    """Whether this can be one name in a directory."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name and _size(name) <= NAME_BYTES


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
