"""The names of Bullpen's runners at GitHub: `<pool>.<instance id>.<round>`, and `.<n>` where one round registers often.

A fresh name for every registration: it meets no session of the one before, replaces no ghost, and a job's runner name
shows under which claim it ran. Agents name themselves by the same rule, so this needs nothing but Python.
"""

import re

LONGEST = 64
"""Characters that GitHub allows."""

_ROUND = 8
"""Characters of the round: enough that no two rounds of one instance share them."""


_NUMBERS = 999_999
"""One a second: no two of a round are equal, for none lasts eleven days."""


def fresh_number(seconds: float) -> int:
    """A number for a registration made at this time, in seconds since 1970: unique within its round."""
    return 1 + int(seconds) % _NUMBERS


def runner_name(pool: str, instance_id: str, round: str, n: int = 0) -> str:
    """The name of a registration of an instance in a round; `n` distinguishes several of one round.

    Where a long pool's name leaves too little room, the round gives way: pool and instance are what it is found by.
    """
    head, tail = f"{pool}.{instance_id}.", f".{n}" if n else ""
    room = max(1, LONGEST - len(head) - len(tail))
    return f"{head}{round[: min(_ROUND, room)]}{tail}"


def instance_of(pool: str, runner: str) -> str | None:
    """The instance that a runner of this name belongs to; None if it is none of the pool's."""
    found = re.fullmatch(rf"{re.escape(pool)}\.(i-[A-Za-z0-9]+)\.[^.]{{1,{_ROUND}}}(?:\.[0-9]+)?", runner)
    return found[1] if found else None
