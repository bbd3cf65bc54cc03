"""Property tests search the same examples everywhere, however slow the machine: a failure repeats."""

from hypothesis import settings

settings.register_profile("bullpen", derandomize=True, deadline=None)
settings.load_profile("bullpen")
