"""What goes wrong on the way: failing, late and lost answers, as a test asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass
class Rule:
    pattern: str
    times: int | None
    status: int = 0
    message: str = ""
    seconds: float = 0.0
    is_lost: bool = False


class GithubFaults:
    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def fail(self, pattern: str, status: int, times: int | None, message: str) -> None:
        self.rules.append(Rule(pattern, times, status=status, message=message))

    def lose(self, pattern: str, times: int | None) -> None:
        self.rules.append(Rule(pattern, times, is_lost=True))

    def slow(self, pattern: str, seconds: float, times: int | None) -> None:
        self.rules.append(Rule(pattern, times, seconds=seconds))

    def of(self, called: str) -> list[Rule]:
        """Those that apply to this call; each is used up by one."""
        found = [rule for rule in list(self.rules) if rule.times != 0 and fnmatchcase(called, rule.pattern)]
        for rule in found:
            if rule.times is not None:
                rule.times -= 1
        return found
