"""Planted bugs: each takes one condition out of the code, and the exploration that proves the promise must notice.

Every check passes on the code as it is; with its bug planted it must not.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from histories import SETTINGS, Actor, Main, fills_pool, history, provisioning, provisions, refreshing, releasing

from bullpen import debts, handover
from bullpen.config import ResourceClass, Settings
from bullpen.engines.memory import tables
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model import provision as provision_steps
from bullpen.model.instance import IDLE, Instance
from bullpen.model.transition import Guard, Transition
from bullpen.ports import Ports
from bullpen.provision import Outcome
from bullpen.provision.pickup import Pickup
from bullpen.provision.selection import ClaimWorker
from bullpen.provision.settlement import Settlement
from bullpen.sim.agent import Temper
from bullpen.sim.world import World

Broken = list[str]
Check = Callable[[], Broken]


# ---- checks: short explorations, each for one family of promises


def killed(main: Main, want: dict[str, int], **stage: Any) -> Check:
    """Killed at every second callback."""

    def check() -> Broken:
        for step in range(1, 1000, 2):
            victim = Actor("victim", main, die_at=step)
            if broken := history([victim], want, **stage):
                return [f"killed at {step}", *broken]
            if not victim.process.dead:
                return []
        raise AssertionError("it never ends")

    return check


def raced(first: Main, second: Main, want: dict[str, int], *, delay: float = 0.0, **stage: Any) -> Check:
    def check() -> Broken:
        for seed in range(1, 80):
            actors = [Actor("first", first), Actor("second", second, begins_at=delay * (seed % 4))]
            if broken := history(actors, want, seed=seed, **stage):
                return [f"seed {seed}", *broken]
        return []

    return check


def played(main: Main, want: dict[str, int] | None = None, **stage: Any) -> Check:
    return lambda: history([Actor("only", main)], want or {}, **stage)
