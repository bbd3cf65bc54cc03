"""The files of the project that `bullpen run` sends: which ones, and how."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from bullpen.cli.artifacts import DEFAULT
from bullpen.cli.output import note, note_width
from bullpen.cli.runs import refusal
from bullpen.cli.text import wrapped
from bullpen.config import Settings
from bullpen.model.progress import Tell
from bullpen.ports import Ports
from bullpen.ports.sources import no_store
from bullpen.sources import Sent, send
from bullpen.sources.upkeep import BoundedStore
from bullpen.sources.work_tree import WorkTree, check_outside, find_work_tree


def work_tree_of(settings: Settings | None, home: Path, sync_dir: str | None, no_sync: bool) -> WorkTree | None:
    """The tree to send; None if there is none, or it must not be sent. Raise ConfigError, before a pool is opened or
    made. Without settings the pool is a server's, and `home` means nothing."""
    if no_sync and sync_dir is not None:
        raise refusal("--no-sync", "--sync names the files to send", remedy="Leave one of them out.")
    tree = None if no_sync else find_work_tree(Path.cwd(), sync_dir)
    if tree is not None and settings is not None:
        if settings.engines.pool == "aws":
            raise no_store()
        check_outside(tree, pools_of(settings, home))
    return tree


def pools_of(settings: Settings, home: Path) -> list[Path]:
    """The directories of an embedded pool."""
    return [home, *([Path(settings.local.work_dir)] if settings.local.work_dir else [])]


def note_unsent(settings: Settings | None, directory: Path) -> None:
    """Say that jobs start in an empty directory, to a user who may expect the files of this one there. A pool on AWS
    takes no files."""
    if settings is not None and settings.engines.pool == "aws":
        return
    own = {"bullpen.toml", DEFAULT}
    try:
        names = os.listdir(directory)
    except OSError:  # it may be entered, and not listed
        return
    if any(not name.startswith(".") and name not in own for name in names):
        said = "this directory is not in a git work tree: jobs start in an empty directory; --sync . sends its files"
        note("\n".join(wrapped(f"bullpen: {said}", note_width(), "  ")))


def sending(
    ports: Ports, settings: Settings, home: Path, tree: WorkTree | None, stop: asyncio.Event, tell: Tell
) -> Callable[[], Awaitable[Sent]] | None:
    """What sends the tree to the store of an embedded pool; None without a tree."""
    if tree is None:
        return None
    return lambda: send(
        BoundedStore(ports, settings),
        tree,
        cache=home / "sources" / "clients",
        max_size=settings.sync.max_bytes,
        leave_out=pools_of(settings, home),
        tell=tell,
        stop=stop,
    )
