"""Many cases of one promise: `make quick` meets a few of them, `make test` all."""

from collections.abc import Sequence
from typing import Any

import pytest


def mostly_slow(cases: Sequence[Any], quick: int) -> list[Any]:
    """The cases for `parametrize`, in their order. So many of them, evenly spread, are quick; the others are `slow`."""
    step = -(-len(cases) // quick)
    return [one if n % step == 0 else pytest.param(one, marks=pytest.mark.slow) for n, one in enumerate(cases)]
