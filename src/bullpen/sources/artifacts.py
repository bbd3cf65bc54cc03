"""Brings the artifacts of a job back: below one directory, and nowhere else, whatever the job made of them."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from bullpen.errors import ConfigError, Refused
from bullpen.host.packs import offsets, read_bundle
from bullpen.host.unpack import BadContent, Blocks, unpack
from bullpen.model.manifest import BadManifest
from bullpen.ports import ARTIFACTS_LIMIT

LIMIT = f"{ARTIFACTS_LIMIT // 1024**2} MiB"

Read = Callable[[int], Awaitable[bytes]]
"""Gives the bytes of a bundle from an offset on, some of them; none at the end."""


async def fetch_artifacts(read: Read, target: Path) -> list[str]:
    """Write the files of a bundle below `target`, which is made if it is missing. Files that are there are replaced;
    a link in the way, or as the target itself, is not followed. Returns the paths below it; none if the job left
    nothing.

    Raise ConfigError if the target cannot be written, Refused for a bundle that is damaged or has more than files.
    """
    with tempfile.TemporaryFile() as bundle:
        size = 0
        while piece := await read(size):
            size += len(piece)
            if size > ARTIFACTS_LIMIT:
                raise Refused(f"the artifacts have more than {LIMIT}")
            bundle.write(piece)
        if not size:
            return []
        bundle.flush()
        bundle.seek(0)
        return await asyncio.to_thread(_unpack, bundle, target)


def _unpack(bundle: BinaryIO, target: Path) -> list[str]:
    try:
        _, manifest, begin = read_bundle(bundle)
        if manifest.links:
            raise Refused(f"the artifacts have a link, {manifest.links[0][0]!r}: only files are taken")
        if manifest.size > ARTIFACTS_LIMIT:  # a block counts each time that a file has it
            raise Refused(f"the files of the artifacts have more than {LIMIT}")
        blocks = Blocks()
        blocks.add(bundle.fileno(), {digest: (offset, size) for digest, offset, size in offsets(manifest, begin)})
    except (BadManifest, BadContent) as exc:
        raise Refused(f"the artifacts are damaged: {exc}") from exc
    try:
        target.mkdir(parents=True, exist_ok=True)
        top = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise _unwritable(exc.filename or target, exc) from exc
    try:
        unpack(manifest, blocks, top, replace=True)
    except BadContent as exc:
        raise Refused(f"the artifacts are damaged: {exc}") from exc
    except OSError as exc:  # its name is that of a file below the target
        raise _unwritable(target / os.fsdecode(exc.filename or ""), exc) from exc
    finally:
        os.close(top)
    return [file.path for file in manifest.files]


def _unwritable(where: str | Path, exc: OSError) -> ConfigError:
    text = f"{where}: artifacts cannot be written there ({exc.strerror})"
    return ConfigError(text, remedy="Name an empty directory that this user can write to.")
