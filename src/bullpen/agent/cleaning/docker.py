"""Docker on a machine that is not shared: brought back to what it held at boot, as the places of the jobs are.

Containers go first, for they hold the rest. An image is known by its id and one name: a name that a job has moved to
another image is as much a difference as a new image. What a job changed inside a volume or a container of the baseline
is not seen. Docker may be slow or stuck: each command is a child with a deadline, and the work yields while it runs.

A docker that does not answer at boot is looked at again by each cleaning: as long as it stays so, nothing can have run
in it; once it answers, all that it holds is new.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from tempfile import TemporaryFile

from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.slices import Turn
from bullpen.lazy_dataclass import dataclass

PATIENCE = 30.0  # seconds for one command
AT_ONCE = 100  # names in one command
MOST_SHOWN = 200  # characters of what docker says


@dataclass(frozen=True, slots=True)
class DockerObjects:
    """A kind of thing that docker holds: how to list it, and how to remove some of it."""

    name: str
    listed: tuple[str, ...]
    removed: tuple[str, ...]


KINDS = (
    DockerObjects("container", ("ps", "--all", "--quiet", "--no-trunc"), ("rm", "--force", "--volumes")),
    DockerObjects(
        "image", ("images", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"), ("rmi", "--force")
    ),
    DockerObjects("volume", ("volume", "ls", "--quiet"), ("volume", "rm", "--force")),
    DockerObjects("network", ("network", "ls", "--quiet", "--no-trunc", "--filter", "type=custom"), ("network", "rm")),
)
# Part of no baseline: removing it costs time, keeping it shows the next run what was built.
BUILD_CACHE = ("builder", "prune", "--all", "--force")

Holdings = dict[DockerObjects, dict[str, None]]


class DockerFailed(Exception):
    """A command of docker's did not end well, or not in time."""


class Docker:
    """The docker of this machine. `child` is the pid of the command that runs now."""

    def __init__(self, program: str, patience: float = PATIENCE) -> None:
        self.child: int | None = None
        self._program = program
        self._patience = patience
        self._baseline: Holdings | None = None
        self._cache_resists = ""

    def take_baseline(self) -> Generator[Turn, None, str]:
        """Note what it holds now. The result says why that cannot be known, if it cannot."""
        try:
            self._baseline = yield from self._holdings()
        except DockerFailed as exc:
            return str(exc)
        return ""

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        """Remove what the baseline has not; what resists is noted in `troubles`."""
        try:
            for kind in KINDS:
                found = yield from self._listed(kind)
                new = [_handle(entry) for entry in found if not self._stays(kind, entry, keep)]
                for start in range(0, len(new), AT_ONCE):
                    try:
                        yield from self._run(*kind.removed, *new[start : start + AT_ONCE])
                    except DockerFailed as exc:
                        troubles[f"docker {kind.name}s"] = str(exc)
            self._cache_resists = ""
            yield from self._run(*BUILD_CACHE)
        except DockerFailed as exc:
            self._cache_resists = str(exc)

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        try:
            found = yield from self._holdings()
        except DockerFailed as exc:
            if self._baseline is not None:
                yield f"docker cannot be read: {exc}"
            return
        for kind, entries in found.items():
            for entry in entries:
                if not self._stays(kind, entry, keep):
                    yield f"docker {kind.name} {entry} was left behind"
            for entry in (self._baseline or {}).get(kind, {}):
                if entry not in entries:
                    yield f"docker {kind.name} {entry} is missing"
        if self._cache_resists:
            yield f"docker's build cache could not be removed: {self._cache_resists}"

    def _stays(self, kind: DockerObjects, entry: str, keep: KeepList) -> bool:
        """An image may be kept by its name, as `images/registry/name:tag`."""
        if entry in (self._baseline or {}).get(kind, {}):
            return True
        return kind.name == "image" and keep.covers(("images", *entry.partition(" ")[2].split("/")))

    def _holdings(self) -> Generator[Turn, None, Holdings]:
        held: Holdings = {}
        for kind in KINDS:
            held[kind] = yield from self._listed(kind)
        return held

    def _listed(self, kind: DockerObjects) -> Generator[Turn, None, dict[str, None]]:
        said = yield from self._run(*kind.listed)
        return dict.fromkeys(line.strip() for line in said.splitlines() if line.strip())

    def _run(self, *arguments: str) -> Generator[Turn, None, str]:
        """What it printed, once it has ended."""
        what, deadline = f"docker {arguments[0]}", time.monotonic() + self._patience
        with TemporaryFile() as output, TemporaryFile() as errors:
            command = [self._program, *arguments]
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
            except OSError as exc:
                raise DockerFailed(f"{what} cannot be started: {exc.strerror}") from exc
            self.child = process.pid
            try:
                while (status := process.poll()) is None:
                    if time.monotonic() >= deadline:
                        raise DockerFailed(f"{what} did not end within {self._patience:g} s")
                    yield Turn.WAITING
            finally:
                self.child = None
                if process.poll() is None:
                    process.kill()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(1.0)
            said = output if status == 0 else errors
            said.seek(0)
            text = said.read().decode(errors="replace")
        if status != 0:
            raise DockerFailed(f"{what} failed with status {status}: {text.strip()[-MOST_SHOWN:]}")
        return text


def _handle(entry: str) -> str:
    """By what an entry is removed: an image by its name, if it has one, for its other names may be the baseline's."""
    id, _, name = entry.partition(" ")
    return name if name and "<none>" not in name else id
