"""The pool follows the schedule of a class: a week of virtual time, with and without a change of the clock."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bullpen.config import Liveness, ResourceClass, ScheduleEntry, Settings, Timings
from bullpen.model.instance import IDLE, TERMINATED
from bullpen.provision.caps import surplus
from bullpen.refresh import Action
from bullpen.sim.loop import VirtualLoop
from bullpen.sim.world import World
from fixtures import a_world, provisioned, records, refreshed, with_pool

BERLIN = "Europe/Berlin"
IDLE_FOR = 1200.0
TURN = timedelta(minutes=5)
SCHEDULE = (
    ScheduleEntry(4, "weekdays", "08:00-18:00", BERLIN),
    ScheduleEntry(2, "sat", "22:00-06:00", BERLIN),  # over midnight, and on one Sunday over a change of the clock
    ScheduleEntry(0, "sun", "06:00-24:00", BERLIN),
)
SETTINGS = Settings(
    liveness=Liveness(tracking=False),  # with few heartbeats: a week has a great many
    timings=Timings(heartbeat=900, lease=2400, alive=2400, idle=IDLE_FOR),
    classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=1, schedule=SCHEDULE)},
)


def on_offer(world: World) -> int:
    return sum(one.is_claimable for one in records(world, IDLE))


async def turned(world: World) -> list[Action]:
    """What is launched is on offer a moment later."""
    actions = await refreshed(world)
    await asyncio.sleep(30)
    return [*actions, *await refreshed(world)]


async def sleep_until(world: World, when: datetime) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.time_limit = 366 * 86400.0
    await asyncio.sleep((when - world.clock.now()).total_seconds())


@pytest.mark.parametrize(
    ("monday", "hours"),
    [
        pytest.param(datetime(2030, 1, 7, tzinfo=UTC), 168, id="an ordinary week"),
        pytest.param(datetime(2030, 3, 25, tzinfo=UTC), 167, id="a week that ends with a day of 23 hours"),
        pytest.param(datetime(2030, 10, 21, tzinfo=UTC), 169, id="a week that ends with a day of 25 hours"),
    ],
)
@pytest.mark.slow
async def test_the_pool_follows_its_schedule_for_a_week(monday: datetime, hours: int) -> None:
    own_class = SETTINGS.classes["small"]
    zone = own_class.entries[0].zone
    begin = monday.replace(tzinfo=zone).astimezone(UTC)
    assert (monday + timedelta(days=7)).replace(tzinfo=zone).astimezone(UTC) - begin == timedelta(hours=hours)
    async with a_world(settings=SETTINGS) as world:
        await sleep_until(world, begin)
        recent: list[int] = []  # targets of the time that an idle instance lasts, the newest last
        ended: list[Action] = []
        for turn in range(hours * 12):
            now = begin + turn * TURN
            await sleep_until(world, now)
            target = own_class.target_at(now)
            recent = [*recent, target][-int(IDLE_FOR / TURN.total_seconds()) - 2 :]
            before = {one.id: one for one in records(world, IDLE)}
            actions = await turned(world)
            ended += [one for one in actions if one.what == "terminate"]
            for one in records(world, TERMINATED):
                if one.id in before:  # a target that falls ends no instance before its time
                    assert before[one.id].threshold <= world.clock.now()
            assert target <= on_offer(world) <= max(recent), now
        # On each evening from Monday to Friday 3, and on Sunday morning 2.
        assert len({one.subject for one in ended}) == 5 * 3 + 2


async def test_a_target_that_falls_keeps_what_is_idle_until_its_threshold() -> None:
    async with a_world(settings=SETTINGS) as world:
        evening = datetime(2030, 1, 7, 16, 58, tzinfo=UTC)
        await sleep_until(world, evening)
        await turned(world)
        assert on_offer(world) == 4
        await asyncio.sleep(300)
        assert await refreshed(world) == []
        assert on_offer(world) == 4
        await asyncio.sleep(IDLE_FOR / 2)
        assert [one.what for one in await refreshed(world)] == ["keep"]
        assert on_offer(world) == 4
        await asyncio.sleep(IDLE_FOR / 2)
        await refreshed(world)
        assert on_offer(world) == 1


async def test_a_launch_for_a_schedule_names_its_entry() -> None:
    async with a_world(settings=SETTINGS) as world:
        await sleep_until(world, datetime(2030, 1, 7, 12, tzinfo=UTC))
        actions = await refreshed(world, dry_run=True)
        assert "the idle target is 4 (weekdays 08:00-18:00 Europe/Berlin)" in [one.reason for one in actions]


async def test_what_the_schedule_needs_now_is_not_evicted_and_what_it_needs_no_more_is() -> None:
    async with a_world(settings=SETTINGS) as world:
        await with_pool(world, 3)
        live = records(world, IDLE)
        by_day, by_night = datetime(2030, 1, 7, 12, tzinfo=UTC), datetime(2030, 1, 7, 20, tzinfo=UTC)
        assert surplus(SETTINGS, live, by_day) == []
        assert len(surplus(SETTINGS, live, by_night)) == 2
        assert (await provisioned(world, "run", 1)).succeeded
