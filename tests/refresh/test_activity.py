"""What refresh does is in the activity of the pool, also where it breaks off."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import bullpen.refresh as module
from bullpen.config import ResourceClass, Settings
from bullpen.errors import Unavailable
from bullpen.model.activity_note import ActionNote
from bullpen.refresh import refresh
from bullpen.refresh.action import Action, Plan, alarm
from bullpen.sim.world import World
from fixtures import a_world

SETTINGS = Settings(classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=2)})


def notes(world: World) -> list[ActionNote]:
    return world.memory.ledger.notes


async def test_every_action_of_a_refresh_is_noted_and_none_of_a_dry_run() -> None:
    async with a_world(settings=SETTINGS) as world:
        foreseen = await refresh(world.ports(rates=None), SETTINGS, dry_run=True)
        assert foreseen
        assert notes(world) == []
        done = await refresh(world.ports(rates=None), SETTINGS)
        assert [(one.did, one.subject, one.reason) for one in notes(world)] == [
            (one.what, one.subject, one.reason) for one in done
        ]
        assert {one.by for one in notes(world)} == {"refresh"}


async def test_what_a_refresh_did_before_it_broke_off_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def plans(*_: Any) -> AsyncIterator[Plan]:
        yield alarm(Action("terminate", "i-1", "past its threshold"))
        raise Unavailable("the CI is away")

    monkeypatch.setattr(module, "_plans", plans)
    async with a_world(settings=SETTINGS) as world:
        with pytest.raises(Unavailable):
            await refresh(world.ports(rates=None), SETTINGS, dry_run=True)
        assert notes(world) == []
        with pytest.raises(Unavailable):
            await refresh(world.ports(rates=None), SETTINGS)
        assert [(one.did, one.subject) for one in notes(world)] == [("terminate", "i-1")]
