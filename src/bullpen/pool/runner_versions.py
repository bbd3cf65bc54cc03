"""Versions of the CI's runner program on the machines of the pool, as agents report them.

A machine that was launched a short while ago shows which version a new one would have. If the CI refuses that one too,
replacing machines does not help: an operator has to provide a newer runner.
"""

from datetime import datetime

from bullpen.config import Settings
from bullpen.model.signal import Pulse
from bullpen.model.signal_text import runner_version
from bullpen.model.times import later
from bullpen.ports import Sighting

YOUNG = 3600.0
"""Seconds after its launch in which a machine shows which version a new one would have. So it is replaced hourly at
most."""


def version_of(pulse: Pulse) -> str:
    """The version of the runner, from the last signal; empty if that does not name it."""
    if pulse.signal is None or pulse.signal.kind.is_failure:
        return ""
    return runner_version(pulse.signal.text) or ""


def is_young(seen: Sighting | None, now: datetime) -> bool:
    return seen is not None and later(seen.launched_at, YOUNG) > now


def advice(settings: Settings) -> str:
    """What an operator should do if new machines have a version that the CI refuses."""
    source = "github.runner-url" if settings.github.runner_url else "the image or github.runner-directory"
    return f"new machines have it too: put a newer one into {source}"
