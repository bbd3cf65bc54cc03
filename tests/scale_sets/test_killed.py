"""The holder of a set is killed at every callback of its listener and supplier: a stand-by serves every job once."""

import asyncio

import pytest

from bullpen.model.instance import IDLE, LIVE
from bullpen.ports import Conclusion, Ports
from bullpen.refresh import refresh
from bullpen.scale_sets import supply
from bullpen.scale_sets.controller import ScaleSetController
from bullpen.sim import invariants
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from fixtures import records, with_pool
from scale_sets.fixtures import a_set_world, hub_of, push, session, set_of, settings_of, until_done
from scale_sets.watched import WatchedRuns

PARTS = 4
LASTS = 4.0  # seconds of a job
LINGER = 3.0
LIVES = 20.0  # seconds of the first holder: jobs arrive and end, and the surplus is withdrawn
SERVED = 60.0  # seconds: GitHub keeps the place of a session that no record knows for 50
EVERY = 2.0  # seconds between two passes of `serve` over its sets


async def holds(world: World, ports: Ports, name: str = "web-1") -> None:
    """Listener and supplier as `serve` runs them, without its other controllers."""
    controller = ScaleSetController(ports, world.settings, name)
    while True:
        await controller.run_once()
        await asyncio.sleep(EVERY)


async def stands_by(world: World, ports: Ports) -> None:
    """The same, beside passes that launch machines and put clean ones on offer."""
    holding = asyncio.create_task(holds(world, ports, "web-2"))
    while not holding.done():
        await refresh(ports, world.settings)
        await asyncio.sleep(2 * EVERY)
    await holding


async def until_rest(world: World) -> None:
    """Wait until the stand-by holds the set, and nothing is claimed, engaged or registered any more."""
    ends = asyncio.get_running_loop().time() + 200.0
    while (left := leftovers(world)) or session(world).holder != "web-2":
        assert asyncio.get_running_loop().time() < ends, f"{session(world).holder} holds the set; left: {left}"
        await asyncio.sleep(2)


def leftovers(world: World) -> list[str]:
    engaged = [one.id for one in records(world, *LIVE) if one.run_id]
    unclean = [one.id for one in records(world, IDLE) if not one.attested]
    return [*engaged, *unclean, *set_of(world).runners]


async def history(world: World, die_at: int) -> set[str]:
    """A set without members gets two jobs, and then a third, while its holder dies; returns the steps that the holder
    took, if it survives."""
    watched = WatchedRuns(world)
    victim, _ = world.start("web-1", lambda ports: holds(world, ports))
    victim.die_at = die_at
    world.agents["web-1"] = victim  # ends with the world
    await asyncio.sleep(1)
    world.agents["web-2"], _ = world.start("web-2", lambda ports: stands_by(world, ports))
    runs = [push(world, jobs=2, lasts=LASTS)]
    await asyncio.sleep(2)
    runs.append(push(world, lasts=LASTS))
    await asyncio.sleep(LIVES - 3)
    stories = world.memory.tables.stories.values()
    taken = set() if victim.dead else {line.step for story in stories for line in story if line.by == "web-1"}
    victim.kill()
    await until_done(world, *runs, within=SERVED)
    await until_rest(world)
    jobs = [job for run in runs for job in hub_of(world).runs[run].jobs]
    assert {job.conclusion for job in jobs} == {Conclusion.SUCCESS}
    assert (len(watched.began), set(watched.began.values())) == (3, {1}), watched.began
    assert watched.ended_under_a_job == []
    assert watched.acknowledged, "no message was acknowledged"
    assert watched.forgotten == [], "acknowledged before it was recorded"
    assert invariants.at_rest(world.memory, {}) == []
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_holder_that_is_killed_at_any_callback_leaves_no_job_claim_or_registration(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "PROBED", 10.0)  # otherwise one member of each session waits for five minutes

    async def killed_at(step: int) -> set[str]:
        async with a_set_world(settings_of(linger=LINGER)) as world:
            await with_pool(world, 1, trust_domain="acme/widgets")  # the other machine is launched
            try:
                return await history(world, step)
            except AssertionError as exc:
                raise AssertionError(f"killed at callback {step}: {exc}") from exc

    step = part + 1
    while not (taken := virtual_run(killed_at(step), allow_left_behind=True)):
        step += PARTS
    assert taken >= {"take", "claim", "engage", "release"}, "the history is too short"
