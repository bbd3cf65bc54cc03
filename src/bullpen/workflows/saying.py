"""What followers say: what they did, and what an operator must know."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Following:
    """`alarms` are sentences for an operator: somebody has to do something, or to know that nobody will."""

    done: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)


class Voice:
    """Collects what is said until somebody listens."""

    def __init__(self) -> None:
        self._said = Following()

    def tell(self, line: str) -> None:
        self._said.done.append(line)

    def alarm(self, line: str) -> None:
        """The same sentence twice before anybody listens is one."""
        if line not in self._said.alarms:
            self._said.alarms.append(line)

    def said(self) -> Following:
        """Everything since the last call."""
        said, self._said = self._said, Following()
        return said
