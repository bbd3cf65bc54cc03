"""The files of the project that `bullpen --server URL run` sends: where they are packed, and what is left out."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bullpen.cli.options import DEFAULT_HOME
from bullpen.client import AsyncClient, ServerStore
from bullpen.errors import ConfigError
from bullpen.model.progress import Tell
from bullpen.sources import Sent, send
from bullpen.sources.work_tree import WorkTree

PACKING_LASTS = 24 * 3600.0  # seconds: an older directory is one of a process that was killed
REMEMBERED_FOR = 30 * 24 * 3600.0  # seconds that the hashes of an unused work tree stay


async def send_through(
    client: AsyncClient, tree: WorkTree, secrets: Sequence[Path], *, stop: asyncio.Event, tell: Tell
) -> Sent:
    """Send a work tree to the store behind a server. A pool of this machine in it is left out: it has secrets. So are
    the files in `secrets`, such as the one with the user's token."""
    largest = (await client.source_limits()).max_size
    home = Path(os.environ.get("BULLPEN_HOME") or DEFAULT_HOME)
    with _cache() as cache:
        try:
            return await send(
                ServerStore(client, stop),
                tree,
                cache=cache,
                max_size=largest,
                leave_out=[home, tree.root / DEFAULT_HOME, cache, *secrets],
                tell=tell,
                stop=stop,
            )
        except ConfigError as exc:
            if exc.field == "sync.max-size":  # a server has settings, this command has not
                exc.remedy = exc.remedy.replace("sync.max-size", "sync.max-size of the server")
            raise


@contextmanager
def _cache() -> Iterator[Path]:
    """Where packs are written, and hashes remembered: a temporary directory if this user's cache is not writable."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = (given if given.is_absolute() else Path(os.path.expanduser("~/.cache"))) / "bullpen" / "sources"
    with suppress(OSError):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(cache, os.W_OK | os.X_OK):
        _tidy(cache)
        yield cache
        return
    with tempfile.TemporaryDirectory(prefix="bullpen-") as made:
        yield Path(made)


def _tidy(cache: Path) -> None:
    """Remove what killed processes left, and what is remembered of trees that were not sent for long."""
    now = time.time()
    for path in cache.iterdir():
        with suppress(OSError):
            unused = now - path.stat().st_mtime
            if path.name.startswith("packing-") and unused > PACKING_LASTS:
                shutil.rmtree(path)
            elif path.name.endswith(".json") and unused > REMEMBERED_FOR:
                path.unlink()
