"""`bullpen evidence`: everything that is known about one record, as a zip to send to a person who was not there."""

import errno
import json
import os
import tempfile
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import click

from bullpen.cli.arguments import checked_id
from bullpen.cli.backend import Backend
from bullpen.cli.cells import safe
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import plural
from bullpen.errors import ConfigError, Refused, Unavailable
from bullpen.evidence.archive import safe_part
from bullpen.settings.redaction import shortened

EPILOG = """
\b
Examples:
  bullpen evidence i-0123456789abcdef
  bullpen evidence j-0123456789abcdef --out job.zip
  bullpen evidence 4711 --out run.zip --force      a run: its provisions, instances, jobs and their logs
  bullpen evidence i-0123456789abcdef --force --json | jq .missing

Secrets are removed. Look through the logs all the same before you hand the file on: a job may print anything.
"""
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # what file systems without links answer
LARGEST = 64 << 20  # bytes that are taken from a server


@click.command("evidence", epilog=EPILOG)
@click.argument("id")
@click.option("--out", metavar="FILE", help="Where to write the zip [evidence-ID.zip].")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@answering_options
def command(given: PoolOptions, id: str, out: str | None, force: bool) -> int:
    """Write a zip with the record, story, logs and settings that explain an instance, job, worker, run or scale set.

    Its manifest.json lists the files, and what is missing and why. Each log is its end, and the whole is bounded. On
    AWS the logs of agents are on the machines; the console output of EC2 is in the zip instead.
    """
    target = given.target()
    id = checked_id(id)
    file = Path(out if out is not None else f"evidence-{safe_part(id)}.zip")
    _check_place(file, out, force)

    async def fetch(pool: Backend) -> dict[str, Any]:
        with NewFile(file, force) as made:
            size = 0
            async for piece in pool.evidence(id):
                if (size := size + len(piece)) > LARGEST:
                    raise Refused(f"the server sends more than {LARGEST} bytes: no evidence is as large")
                _write(made.opened, piece, file)
            manifest = _manifest_in(made.opened)
            made.keep()
        return manifest

    manifest = target.query(fetch)
    missing = manifest.get("missing", [])
    if given.as_json:
        print_json({"file": str(file.absolute()), "bytes": file.stat().st_size, **manifest})
        return 0
    say(f"{file}: {plural(len(manifest.get('files', [])) + 1, 'file')} about {id}")
    for one in missing:
        say(safe(f"  missing: {one['name']}: {one['why']}"))
    return 0


class NewFile:
    """A new file beside the one that it becomes: whole, or not at all. Only its owner may read it."""

    def __init__(self, file: Path, force: bool) -> None:
        self._file, self._force = file, force
        self._path = ""
        self.opened: BinaryIO

    def __enter__(self) -> "NewFile":
        try:
            handle, self._path = tempfile.mkstemp(prefix=".bullpen-evidence-", dir=self._file.parent)
        except OSError as exc:
            raise _unwritable(self._file, exc) from exc
        self.opened = os.fdopen(handle, "w+b")
        return self

    def keep(self) -> None:
        """Raise ConfigError if the file has appeared meanwhile and must not be replaced."""
        try:
            self.opened.flush()
            os.fsync(self.opened.fileno())
            if self._force:
                os.replace(self._path, self._file)
            else:
                os.link(self._path, self._file)  # unlike a rename it never replaces
        except FileExistsError as exc:
            raise _exists(self._file) from exc
        except OSError as exc:
            if exc.errno not in NO_LINKS:
                raise _unwritable(self._file, exc) from exc
            if self._file.exists():
                raise _exists(self._file) from None
            os.rename(self._path, self._file)

    def __exit__(self, *error: object) -> None:
        self.opened.close()
        with suppress(OSError):
            os.unlink(self._path)


def _check_place(file: Path, out: str | None, force: bool) -> None:
    """Raise ConfigError before anything is read."""
    if out == "":
        raise ConfigError("--out '': must name a file", remedy="Leave it out for evidence-ID.zip.", field="--out")
    try:
        if file.is_dir():
            remedy = "Name a file in it."
            raise ConfigError(f"--out {shortened(str(file))}: is a directory", remedy=remedy, field="--out")
        if not file.parent.is_dir():
            remedy, found = f"Create {file.parent}, or name another place.", "its directory does not exist"
            raise ConfigError(f"--out {shortened(str(file))}: {found}", remedy=remedy, field="--out")
        file.lstat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as exc:  # a name too long, a directory without permission
        raise _unwritable(file, exc) from exc
    if not force:
        raise _exists(file)


def _write(opened: BinaryIO, piece: bytes, file: Path) -> None:
    try:
        opened.write(piece)
    except OSError as exc:
        raise _unwritable(file, exc) from exc


def _manifest_in(opened: BinaryIO) -> dict[str, Any]:
    """The manifest of a whole archive. Raise Unavailable for one that was cut off."""
    try:
        opened.flush()
        with zipfile.ZipFile(opened) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
                raise zipfile.BadZipFile(f"its files have more than {LARGEST} bytes")
            if (damaged := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"{damaged} is damaged")
            found: dict[str, Any] = json.loads(archive.read("manifest.json"))
            return found
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError) as exc:
        raise Unavailable(
            f"the archive did not arrive whole ({exc}); nothing was written", remedy="Run the command again."
        ) from exc


def _exists(file: Path) -> ConfigError:
    remedy = "Name another file with --out, or replace it with --force."
    return ConfigError(f"--out {shortened(str(file))}: exists already", remedy=remedy, field="--out")


def _unwritable(file: Path, exc: OSError | ValueError) -> ConfigError:
    remedy = "Name a place with room that this user can write to, with --out."
    why = exc.strerror if isinstance(exc, OSError) else str(exc)
    return ConfigError(f"--out {shortened(str(file))}: cannot be written ({why})", remedy=remedy, field="--out")
