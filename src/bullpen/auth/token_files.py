"""Keys that earlier versions kept in files of a home, imported into the store once.

    tokens          one line of JSON for each operator's token      →  tokens.imported
    agent.secret    from which agents' tokens are derived           →  agent.secret.imported

Any number of processes may import at once, and any may die in between: adding what is there changes nothing, and the
file is renamed last. A file that cannot be renamed, such as one of a read-only mount, is imported again at every start,
which brings no revoked token back.
"""

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from bullpen.auth.tokens import SECRET_LENGTH, Scope
from bullpen.errors import ConfigError
from bullpen.ports import StoredToken, Tokens
from bullpen.structured_log import get_logger

TOKENS, SECRET = "tokens", "agent.secret"
IMPORTED = ".imported"

log = get_logger("bullpen.server")


async def import_files(home: Path, tokens: Tokens) -> None:
    """Raise ConfigError for a file of another format: guessing at credentials is worse than stopping."""
    found = await asyncio.to_thread(_read_tokens, home / TOKENS)
    if found is not None:
        await tokens.require()  # even an empty file meant that tokens are required
        for token in found:
            await tokens.add(token)
        await asyncio.to_thread(_set_aside, home / TOKENS)
    secret = await asyncio.to_thread(_read_secret, home / SECRET)
    if secret is not None:
        if await tokens.secret(secret) != secret:
            remedy = "Agents with a token of this secret must get a new one."
            log.warning("secret not imported: the store has another secret", file=home / SECRET, remedy=remedy)
        await asyncio.to_thread(_set_aside, home / SECRET)


def _read_tokens(path: Path) -> list[StoredToken] | None:
    found: list[StoredToken] = []
    try:
        created = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        for text in path.read_text(encoding="utf-8").splitlines():
            if text.strip():
                line = json.loads(text)
                id_, scope = str(line["id"]), Scope(line["scope"]).value
                expires = None if line["expires"] is None else datetime.fromtimestamp(line["expires"], UTC)
                found.append(StoredToken(f"imported-{id_}", id_, scope, str(line["sha256"]), created, expires))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError, OverflowError) as exc:
        raise ConfigError(f"{path}: line {len(found) + 1} is not a token ({type(exc).__name__})") from exc
    return found


def _read_secret(path: Path) -> bytes | None:
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(f"{path}: the agents' secret cannot be read ({exc.strerror})") from exc
    if len(found) < SECRET_LENGTH:
        remedy = "Delete it: Bullpen creates another. Then restart the agents that hold tokens of the old one."
        raise ConfigError(f"{path}: {len(found)} bytes are too few for a secret", remedy=remedy)
    return found


def _set_aside(path: Path) -> None:
    try:
        os.rename(path, path.with_name(path.name + IMPORTED))
    except FileNotFoundError:
        return  # another process was faster
    except OSError as exc:
        log.warning("imported file cannot be renamed; remove it", file=path, error=exc.strerror)
        return
    log.info("file imported into the store", file=path, renamed=f"{path.name}{IMPORTED}")
