"""The registration secret as an agent without `bullpen serve` reads it: what `refresh` wrote last, while it holds."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from bullpen.agent.progress import InstanceRecord
from bullpen.agent.store.base import NoCredentials, RunnerCredentials
from bullpen.engines.github.naming import fresh_number, runner_name

NAME = "github"
MISSING = "no valid registration token; run `bullpen refresh`"


class CredentialIssuer:
    """Makes the credentials of one instance. Each registration gets a name of its own, also a second one in a round and
    after a restart of the agent: it must not collide with a registration that the agent itself left at GitHub."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id
        self._last = 0

    def issue(self, content: str, expires: float, record: InstanceRecord) -> RunnerCredentials:
        """What the stored secret gives for the record's round. Raise NoCredentials if it expired or cannot be read."""
        pool, url, group, token, removal, oldest = _texts(
            content, expires, "pool", "url", "group", "registration", "removal", "oldest"
        )
        self._last = max(fresh_number(time.time()), self._last + 1)
        name = runner_name(pool, self._instance_id, record.round, self._last)
        return RunnerCredentials(name, record.run_id, url, group, token, removal, oldest=oldest)


def removal_of(content: str, expires: float) -> str:
    """The token that removes registrations. Raise NoCredentials as `issue` does."""
    return _texts(content, expires, "removal")[0]


def _texts(content: str, expires: float, *names: str) -> list[str]:
    with suppress(ValueError, KeyError, TypeError):
        if expires > time.time():
            found = json.loads(content)
            return [str(found[name]) for name in names]
    raise NoCredentials(MISSING)  # without the cause: it quotes what it could not read


def read_file(home: Path) -> tuple[str, float]:
    """The secret of a pool on this machine, and when it expires, in seconds since 1970. Raise NoCredentials."""
    try:
        found = json.loads((home / "vault" / f"{NAME}.json").read_text(encoding="utf-8"))
        return str(found["content"]), float(found["expires"])
    except OSError as exc:
        raise NoCredentials(f"{MISSING} ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError):
        raise NoCredentials(MISSING) from None  # not the cause: it quotes what it could not read
