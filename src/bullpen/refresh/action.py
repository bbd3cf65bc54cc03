"""An action of refresh: what is done to whom and why; and a plan, which a dry run shows and a real one performs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    what: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Actions that are performed together."""

    actions: tuple[Action, ...]
    perform: Callable[[], Awaitable[object]]
