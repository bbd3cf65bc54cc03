"""The text of a signal: first a fact that programs read, if there is one, then words for people.

    runner=2.336.0                          the machine has this version of the CI's runner program
    refused-runner=2.336.0: GitHub refuses… the CI refuses this version
    busy: job build of acme/widgets…        the agent cannot deregister its runner, because a job runs on it

A text that does not begin with a fact is words only, whatever they are. Agents write this form and the control plane
reads it, and only this module knows it. The fact is part of the text and not a field of its own, because a server
refuses a signal with a field that it does not know: an agent may be of a later version than its server.

The CI refuses a version for all runners at once, so every machine on offer that has it would fail in the same way.
"""

import re
from enum import StrEnum

from bullpen.lazy_dataclass import dataclass


class Fact(StrEnum):
    """What a text may begin with."""

    RUNNER = "runner"  # with UD_OK and UD_CLEAN_OK; its value is a version
    REFUSED_RUNNER = "refused-runner"  # with UD_REG_FAILED; its value is a version
    BUSY = "busy"  # with UD_REMOVE_REG_FAILED; it has no value


_VERSION = r"[0-9]+(?:\.[0-9]+){1,3}"
_WITH_VERSION = re.compile(
    rf"(?P<fact>{Fact.RUNNER}|{Fact.REFUSED_RUNNER})=(?P<value>{_VERSION})(?:: (?P<words>.*))?",
    re.ASCII | re.DOTALL,
)
_BUSY = re.compile(rf"(?P<fact>{Fact.BUSY}):(?P<value>) ?(?P<words>.*)", re.ASCII | re.DOTALL)
_OF_0_1 = re.compile(
    rf"(?P<words>.*GitHub refuses runner version {_VERSION}: use a newer one);"
    rf" {Fact.REFUSED_RUNNER}=(?P<value>{_VERSION})\b",
    re.ASCII | re.DOTALL,
)
"""How agents of version 0.1 report a refused version: behind the words. To be removed with 0.3."""


@dataclass(frozen=True, slots=True)
class SignalText:
    """`value` is empty for a fact without one."""

    words: str = ""
    fact: Fact | None = None
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> "SignalText":
        """The parts of a signal's text."""
        if found := _WITH_VERSION.fullmatch(text) or _BUSY.fullmatch(text):
            return cls(found["words"] or "", Fact(found["fact"]), found["value"])
        if found := _OF_0_1.match(text):
            return cls(found["words"], Fact.REFUSED_RUNNER, found["value"])
        return cls(text)

    def __str__(self) -> str:
        if self.fact is None:
            return self.words
        head = f"{self.fact}={self.value}" if self.value else f"{self.fact}:"
        if not self.words:
            return head
        return f"{head}: {self.words}" if self.value else f"{head} {self.words}"


def busy(words: str) -> str:
    """The text of an agent that cannot deregister its runner, because a job runs on it."""
    return str(SignalText(words, Fact.BUSY))


def has_runner(version: str) -> str:
    """The text of an agent whose machine has this version of the CI's runner program; empty if it is not known."""
    return str(SignalText("", Fact.RUNNER, version)) if version else ""


def refuses_runner(version: str, words: str) -> str:
    """The text of an agent whose version of the runner program the CI refuses."""
    return str(SignalText(words, Fact.REFUSED_RUNNER, version))


def runner_version(text: str) -> str | None:
    """The version that a machine has; None if the text does not say."""
    said = SignalText.parse(text)
    return said.value if said.fact is Fact.RUNNER else None


def refused_version(text: str) -> str | None:
    """The version that the CI refuses; None if the text is about something else."""
    said = SignalText.parse(text)
    return said.value if said.fact is Fact.REFUSED_RUNNER else None
