"""What followers say: what they did, and what an operator must know."""

import asyncio
from dataclasses import dataclass, field

AGAIN = 3600.0  # seconds until the same alarm is worth another line: a look comes every minute


@dataclass(slots=True)
class Following:
    """`alarms` are sentences for an operator: somebody has to do something, or to know that nobody will."""

    done: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


class Voice:
    """Collects what is said until somebody listens."""

    def __init__(self) -> None:
        self._said = Following()
        self._alarmed: dict[str, float] = {}
        """Alarms of the last while, and when they were given."""

    def tell(self, line: str) -> None:
        self._said.done.append(line)

    def alarm(self, line: str) -> None:
        """The same sentence again says nothing new, for a while."""
        time = asyncio.get_running_loop().time()
        self._alarmed = {said: at for said, at in self._alarmed.items() if at > time - AGAIN}
        if line not in self._alarmed:
            self._alarmed[line] = time
            self._said.alarms.append(line)

    def said(self) -> Following:
        """Everything since the last call."""
        said, self._said = self._said, Following()
        return said
