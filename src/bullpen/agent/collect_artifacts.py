"""Collects the artifacts of a job that has ended, as one bundle. Runs in a process of its own, see `forked`.

Only regular files below the working directory, reached by way of open directories: no link is followed, and nothing is
read that the user of the jobs could not read. What is left out is said in the job's log.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256
from http.client import HTTPException
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlencode

from bullpen.agent.config import Config
from bullpen.agent.forked import CannotDo, become, say
from bullpen.agent.unpack_source import authorization, connected, patiently
from bullpen.host.packs import bundle_head
from bullpen.host.stored_files import FULL_REMEDY, no_room, stored_size
from bullpen.model.manifest import BLOCK, PATH_BYTES, FileEntry, Manifest, encode

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.store.base import Order

MOST_FILES = 10_000
MOST_BYTES = 256 * 1024 * 1024
MOST_SEEN = 1_000_000  # entries of the directory looked at
MOST_NOTES = 10
DEEPEST = 100  # directories: each costs an open file
PIECE = 256 * 1024
LONGEST_ANSWER = 2000  # bytes read of what the server says
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def collect(config: Config, order: Order, account: Account | None, directory: Path) -> str:
    """Write the bundle to where `part_of` says, or send it to the server; returns how many files it has. Raise
    CannotDo or OSError."""
    taken = 0 if config.serve_url else stored_size(config.home)  # before: the user of the jobs may not read it
    with tempfile.TemporaryFile(dir=config.directory) as content, _target(config, order) as target:
        become(account)
        manifest = _Collector(order.artifacts, content).walk(directory)
        if not manifest.files:
            return "0"
        size = content.tell()
        if not config.serve_url and taken + size > config.room:  # a server looks for room itself
            raise CannotDo(f"no artifacts: {no_room(size, taken, config.room)}. {FULL_REMEDY}")
        target.write(bundle_head(encode(manifest)))
        content.seek(0)
        while piece := content.read(PIECE):
            target.write(piece)
        target.flush()
        if config.serve_url:
            try:
                patiently(lambda: _send(config, order, target))
            except (HTTPException, ValueError, KeyError) as exc:
                raise CannotDo(f"the artifacts were not sent: {exc!r}") from exc
        return str(len(manifest.files))


def part_of(config: Config, order: Order) -> Path:
    """Where an agent beside the store writes the bundle. The agent renames it when it is whole."""
    return config.home / "jobs" / f"{order.job.id}.{order.job.fence}.artifacts-part"


def publish(config: Config, order: Order) -> None:
    """Make a whole bundle readable; an empty one goes. Raise OSError."""
    if not config.serve_url:
        part = part_of(config, order)
        if part.stat().st_size:
            part.rename(part.with_suffix(".artifacts"))
        else:
            part.unlink()


def discard(config: Config, order: Order) -> None:
    """Remove what is left of a bundle that did not become whole."""
    if not config.serve_url:
        with suppress(OSError):  # it goes with the job
            part_of(config, order).unlink()


def _target(config: Config, order: Order) -> BinaryIO:
    if config.serve_url:
        return tempfile.TemporaryFile(dir=config.directory)
    fd = os.open(part_of(config, order), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    return os.fdopen(fd, "w+b")


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path, or a directory above it, matches: `**` stands for any number of names, also none."""
    reached = {0}  # how much of the pattern the names so far may have used up
    for part in ("", *parts):
        if part:
            step = {at + 1 for at in reached if at < len(pattern) and fnmatchcase(part, pattern[at])}
            reached = step | {at for at in reached if at < len(pattern) and pattern[at] == "**"}
        for at in sorted(reached):
            while at < len(pattern) and pattern[at] == "**":
                at += 1
                reached.add(at)
        if part and len(pattern) in reached:
            return True
    return False


class _Collector:
    def __init__(self, globs: Sequence[str], content: BinaryIO) -> None:
        self._globs = {glob: [part for part in glob.split("/") if part not in ("", ".")] for glob in globs}
        self._content = content
        self._blocks: dict[str, tuple[int, int]] = {}
        self._files: list[FileEntry] = []
        self._size = self._notes = self._seen = 0
        self._matched: set[str] = set()

    def walk(self, directory: Path) -> Manifest:
        try:
            top = os.open(directory, DIRECTORY)
        except OSError as exc:
            raise CannotDo(f"no artifacts: the working directory cannot be read ({exc.strerror})") from exc
        for path, name, at in self._entries((), top):
            self._take(path, name, at)
        for glob in self._globs:
            if glob not in self._matched:
                self._note(f"artifacts: no file matches {glob!r}")
        files = tuple(sorted(self._files, key=lambda file: file.path))
        return Manifest(files, blocks=tuple((digest, length) for digest, (_, length) in self._blocks.items()))

    def _entries(self, above: tuple[str, ...], at: int) -> Iterator[tuple[tuple[str, ...], str, int]]:
        """Everything that is not a directory: its path, its name, and the open directory that it is in."""
        try:
            with os.scandir(at) as entries:
                found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        except OSError as exc:
            self._note(f"artifacts: {'/'.join(above) or '.'} cannot be read ({exc.strerror})")
            found = []
        for name, is_directory in found:
            self._seen += 1
            if self._seen > MOST_SEEN:
                raise CannotDo(f"no artifacts: the working directory has more than {MOST_SEEN} files")
            path = (*above, name)
            if not is_directory:
                yield path, name, at
            elif len(path) < DEEPEST:
                try:
                    below = os.open(name, DIRECTORY, dir_fd=at)
                except OSError as exc:
                    self._note(f"artifacts: {'/'.join(path)} cannot be read ({exc.strerror})")
                    continue
                try:
                    yield from self._entries(path, below)
                finally:
                    os.close(below)

    def _take(self, path: tuple[str, ...], name: str, at: int) -> None:
        wanted = [glob for glob, pattern in self._globs.items() if matches(path, pattern)]
        if not wanted:
            return
        self._matched.update(wanted)
        shown = "/".join(path)
        if len(os.fsencode(shown)) > PATH_BYTES:
            self._note(f"artifacts: {shown[:40]}… is left out: a path longer than {PATH_BYTES} bytes")
            return
        try:
            fd = os.open(name, FILE, dir_fd=at)
        except OSError as exc:
            self._note(f"artifacts: {shown} is left out: {'a link' if exc.errno == errno.ELOOP else exc.strerror}")
            return
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                self._note(f"artifacts: {shown} is left out: not a regular file")
            elif len(self._files) >= MOST_FILES:
                self._note(f"artifacts: {shown} is left out: there are more than {MOST_FILES} files")
            elif self._size + status.st_size > MOST_BYTES:
                self._note(
                    f"artifacts: {shown} is left out: all files together have more than {MOST_BYTES // 1024**2} MiB"
                )
            else:
                self._read(shown, fd, status)
        except OSError as exc:
            self._note(f"artifacts: {shown} is left out: {exc.strerror}")
        finally:
            os.close(fd)

    def _read(self, path: str, fd: int, status: os.stat_result) -> None:
        numbers = []
        left = status.st_size  # what a process that still runs appends is not taken
        while left and (block := os.read(fd, min(BLOCK, left))):
            left -= len(block)
            self._size += len(block)  # also of equal blocks: the files need room for all of them
            digest = sha256(block).hexdigest()
            if digest not in self._blocks:
                self._blocks[digest] = (len(self._blocks), len(block))
                self._content.write(block)
            numbers.append(self._blocks[digest][0])
        self._files.append(FileEntry(path, bool(status.st_mode & 0o100), tuple(numbers)))

    def _note(self, text: str) -> None:
        self._notes += 1
        if self._notes <= MOST_NOTES:
            say(text if self._notes < MOST_NOTES else "artifacts: more was left out")


def _send(config: Config, order: Order, bundle: BinaryIO) -> None:
    """From the beginning: the server says how much of it is there already."""
    size, offset = bundle.seek(0, os.SEEK_END), 0
    connection = connected(config)
    path = f"/v1/agents/{quote(config.instance_id, safe='')}/jobs/{quote(order.job.id)}/artifacts"
    try:
        while offset < size:
            bundle.seek(offset)
            where = urlencode({"fence": order.job.fence, "offset": offset, "size": size})
            headers = {"Content-Type": "application/octet-stream", **authorization(config)}
            connection.request("POST", f"{path}?{where}", bundle.read(PIECE), headers)
            answer = connection.getresponse()
            said = answer.read(LONGEST_ANSWER)
            if answer.status >= 500 or (answer.length and len(said) < LONGEST_ANSWER):
                raise HTTPException(f"the server answers {answer.status}, or not all of it")
            if answer.status >= 300:
                raise CannotDo(f"the server does not take the artifacts: {answer.status} {said.decode()}")
            offset = loads(said)["length"]
    finally:
        connection.close()
