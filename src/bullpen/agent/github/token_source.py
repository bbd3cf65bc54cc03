"""The registration secret as an agent without `bullpen serve` reads it: what `refresh` wrote last, while it holds."""

from __future__ import annotations

import json
import time
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
        if expires <= time.time():
            raise NoCredentials(MISSING)
        self._last = max(fresh_number(time.time()), self._last + 1)
        try:
            found = json.loads(content)
            made = RunnerCredentials(
                runner=runner_name(str(found["pool"]), self._instance_id, record.round, self._last),
                label=record.run_id,
                url=str(found["url"]),
                group=str(found["group"]),
                token=str(found["registration"]),
                removal=str(found["removal"]),
                oldest=str(found["oldest"]),
            )
        except (ValueError, KeyError, TypeError):
            raise NoCredentials(MISSING) from None  # not the cause: it quotes what it could not read
        return made


def removal_of(content: str, expires: float) -> str:
    """The token that removes registrations. Raise NoCredentials as `issue` does."""
    try:
        if expires > time.time():
            return str(json.loads(content)["removal"])
    except (ValueError, KeyError, TypeError):
        pass  # it is as good as none
    raise NoCredentials(MISSING)


def read_file(home: Path) -> tuple[str, float]:
    """The secret of a pool on this machine, and when it expires, in seconds since 1970. Raise NoCredentials."""
    try:
        found = json.loads((home / "vault" / f"{NAME}.json").read_text(encoding="utf-8"))
        return str(found["content"]), float(found["expires"])
    except OSError as exc:
        raise NoCredentials(f"{MISSING} ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError):
        raise NoCredentials(MISSING) from None  # not the cause: it quotes what it could not read
