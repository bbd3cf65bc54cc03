"""Lanes: when each instance of a provision reached each stage, for the report of the call. Nothing decides by them.

picked ─▶ claimed ─▶ seen ──────────▶ registered     a runner of the pool
          launched ─▶ booted ───────▶ registered     a new machine
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

from bullpen.model.provision import Origin
from bullpen.model.report import Lane
from bullpen.provision.outcome import Discarded, Member


class LaneStage(StrEnum):
    """The fields of a lane that are times."""

    PICKED = "picked"
    CLAIMED = "claimed"
    SEEN = "seen"
    LAUNCHED = "launched"
    BOOTED = "booted"
    REGISTERED = "registered"


class LaneBook:
    """Of one attempt. Times are the event loop's."""

    def __init__(self) -> None:
        self.lanes: dict[str, dict[LaneStage, float]] = {}

    def reach(self, instance_id: str, stage: LaneStage) -> None:
        """An instance has reached a stage just now; the first time counts."""
        self.lanes.setdefault(instance_id, {}).setdefault(stage, asyncio.get_running_loop().time())


def lanes_of(
    books: Iterable[LaneBook], asked: float, members: Iterable[Member], discarded: Iterable[Discarded]
) -> tuple[Lane, ...]:
    """The lanes of a call that was asked at this time of the event loop, in the order in which they began."""
    kept = {member.instance.id for member in members}
    left = {one.instance_id: one for one in discarded}
    found: list[Lane] = []
    for book in books:
        for id, times in book.lanes.items():
            origin = Origin.CREATED if LaneStage.LAUNCHED in times else Origin.SELECTED
            since: dict[str, Any] = {stage.value: round(at - asked, 3) for stage, at in times.items()}
            lane = Lane(id, origin, kept=id in kept, **since)
            if id not in kept and id in left:
                lane = replace(lane, reason=left[id].reason, fate=left[id].outcome.value)
            elif id not in kept and LaneStage.CLAIMED not in times and origin is Origin.SELECTED:
                lane = replace(lane, reason="another run was first, or its offer was stale")
            found.append(lane)
    return tuple(found)
