"""GitHub's runner from the archive that the settings name: nothing is unpacked before its checksum is known."""

from __future__ import annotations

import hashlib
import tarfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from urllib.request import urlopen

from bullpen.agent.account import Account
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.agent.github.install import open_up, protect

SILENCE = 20.0  # seconds without a byte
PATIENCE = 150.0  # seconds in all: a provision waits little longer
CHUNK = 1024 * 1024


def fetch(url: str, sha256: str, target: Path, account: Account | None) -> Generator[Turn, None, None]:
    """Unpack the archive at `target`. Raise CannotSettle."""
    failures: list[str] = []

    def work() -> None:
        try:
            _fetch(url, sha256, target)
        except (OSError, ValueError, tarfile.TarError) as exc:
            failures.append(str(exc) or type(exc).__name__)

    # On a thread of its own: the loop has a heartbeat to send.
    thread = threading.Thread(target=work, name="bullpen-fetch", daemon=True)
    thread.start()
    while thread.is_alive():
        yield Turn.WAITING
    if failures:
        raise CannotSettle(f"GitHub's runner cannot be downloaded from {url}: {failures[0]}")
    yield from open_up(target)
    protect(target, account)


def _fetch(url: str, sha256: str, target: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise ValueError("this Python cannot unpack archives safely: 3.11.4 or later is needed")
    archive = target.with_name(f"{target.name}.tar.gz")
    found, until = hashlib.sha256(), time.monotonic() + PATIENCE
    try:
        with urlopen(url, timeout=SILENCE) as answer, open(archive, "xb") as file:
            while chunk := answer.read(CHUNK):
                found.update(chunk)
                file.write(chunk)
                if time.monotonic() > until:
                    raise ValueError(f"it took longer than {PATIENCE:g} s")
        if found.hexdigest() != sha256:
            raise ValueError(f"its checksum is {found.hexdigest()}, expected {sha256}: nothing was unpacked")
        target.mkdir()
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data")
    finally:
        archive.unlink(missing_ok=True)
