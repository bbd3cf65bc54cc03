"""The registration secret as an agent without `bullpen serve` reads it: what `refresh` wrote last, while it holds."""

from __future__ import annotations

import json
import time
from pathlib import Path

from bullpen.agent.github.registration_token import NoPass, Pass
from bullpen.agent.progress import Record
from bullpen.engines.github.naming import fresh_number, runner_name

NAME = "github"
MISSING = "no valid registration token; run `bullpen refresh`"


class Passes:
    """Makes the passes of one instance: each registration gets a name of its own, also a second one of a round, and
    also if the agent began anew in between: it must not meet what it left behind at GitHub itself."""

    def __init__(self, instance_id: str) -> None:
        self._instance_id = instance_id
        self._last = 0

    def make(self, content: str, expires: float, record: Record) -> Pass:
        """What a secret gives us in the round of the record. Raise NoPass if it has ended or says nothing to us."""
        if expires <= time.time():
            raise NoPass(MISSING)
        self._last = max(fresh_number(time.time()), self._last + 1)
        try:
            found = json.loads(content)
            made = Pass(
                runner=runner_name(str(found["pool"]), self._instance_id, record.round, self._last),
                label=record.run_id,
                url=str(found["url"]),
                group=str(found["group"]),
                token=str(found["registration"]),
                removal=str(found["removal"]),
                oldest=str(found["oldest"]),
            )
        except (ValueError, KeyError, TypeError):
            raise NoPass(MISSING) from None  # not the cause: it quotes what it could not read
        return made


def removal_of(content: str, expires: float) -> str:
    """The token that removes registrations. Raise NoPass as `make` does."""
    try:
        if expires > time.time():
            return str(json.loads(content)["removal"])
    except (ValueError, KeyError, TypeError):
        pass  # it is as good as none
    raise NoPass(MISSING)


def read_file(home: Path) -> tuple[str, float]:
    """The secret of a pool on this machine, and when it ends in seconds since 1970. Raise NoPass if there is none."""
    try:
        found = json.loads((home / "vault" / f"{NAME}.json").read_text(encoding="utf-8"))
        return str(found["content"]), float(found["expires"])
    except OSError as exc:
        raise NoPass(f"{MISSING} ({exc.strerror})") from exc
    except (ValueError, KeyError, TypeError):
        raise NoPass(MISSING) from None  # not the cause: it quotes what it could not read
