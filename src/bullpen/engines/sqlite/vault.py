"""Secrets as files of a home: `<home>/vault/<name>.json`, for their owner only.

Agents on the same machine read these files (`agent.github.token_source`), so their form must stay:
`{"content": …, "expires": seconds since 1970}`, replaced whole by a rename.
"""

import asyncio
import json
import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bullpen.errors import Unavailable
from bullpen.ports import Clock, Secret

FOLDER = "vault"


class FileVault:
    """`ports.Vault` in one home."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._folder = home / FOLDER
        self._clock = clock

    async def read(self, name: str) -> Secret | None:
        """A file that holds no secret counts as none: the next one written replaces it."""
        found = await asyncio.to_thread(_read, self._folder / f"{name}.json")
        return found if found is not None and found.expires > self._clock.now() else None

    async def write(self, name: str, secret: Secret) -> None:
        await asyncio.to_thread(_write, self._folder / f"{name}.json", secret)


def _read(path: Path) -> Secret | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Secret(str(found["content"]), datetime.fromtimestamp(found["expires"], UTC))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unavailable(f"{path}: cannot be read ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _write(path: Path, secret: Secret) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    said = {"content": secret.content, "expires": secret.expires.timestamp()}
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(json.dumps(said).encode())
                file.flush()
                os.fsync(file.fileno())  # before the rename: a crash must not leave an empty file under the name
            os.replace(draft, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
    except OSError as exc:
        raise Unavailable(f"{path}: cannot be written ({exc.strerror})") from exc
