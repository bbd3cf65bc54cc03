"""The version of the CI's runner program, as agents write it into the texts of their signals.

    runner=2.336.0            the version that the machine has: with UD_OK and UD_CLEAN_OK
    refused-runner=2.336.0    the CI refuses it: with UD_REG_FAILED, among words for people

The CI refuses a version for all runners at once, so every machine on offer that has it would fail in the same way.
"""

import re

_VERSION = r"([0-9]+(?:\.[0-9]+){1,3})"
HAS = re.compile(rf"(?<![\w-])runner={_VERSION}\b", re.ASCII)
REFUSED = re.compile(rf"(?<![\w-])refused-runner={_VERSION}\b", re.ASCII)


def runner_version(text: str) -> str | None:
    """The version that a machine has; None if the text does not say."""
    found = HAS.search(text)
    return found[1] if found else None


def refused_version(text: str) -> str | None:
    """The version that the CI refuses; None if the text is about something else."""
    found = REFUSED.search(text)
    return found[1] if found else None
