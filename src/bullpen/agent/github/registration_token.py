"""What an agent needs to appear at GitHub once: made by whoever holds the credentials, or read from the vault."""

from __future__ import annotations

from dataclasses import dataclass, field


class NoPass(Exception):
    """We cannot register now, and the same again at once would not help; says why, for people."""


@dataclass(frozen=True, slots=True)
class Pass:
    """For one registration. Its secrets are in no repr, and so in no log."""

    runner: str  # the name that GitHub will know us by
    label: str  # the only one: what the run's jobs ask for
    url: str  # the repository or organisation
    group: str = ""  # runner group; empty: the default one
    token: str = field(default="", repr=False)  # to register with
    removal: str = field(default="", repr=False)  # to remove the registration with; empty: the service removes it
    jit: str = field(default="", repr=False)  # the whole registration, already made: then there is no token
    oldest: str = ""  # the oldest version of the runner that GitHub goes on accepting; empty: not known
