"""A launch that fails, or whose process dies or stands still, holds up the next one for a moment only, and no machine
of it is left without a record."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from bullpen.engines.memory import Failure
from bullpen.errors import BullpenError, Unavailable
from bullpen.model import provision as provisions
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.instance import LIVE
from bullpen.model.times import later
from bullpen.ports import Ports
from bullpen.refresh import launch
from bullpen.refresh.action import GIVE_UP_AFTER, Hindered, Plan, PlanReport, PlanRunner
from bullpen.sim.agent import Temper
from bullpen.sim.process import Process
from bullpen.sim.world import World
from fixtures import faults, machines, records, refreshed
from scale_sets.fixtures import a_set_world, push, serve, session, until_done
from scale_sets.test_launches import a_lack, warmed

CREATE_FLEET = "compute.create_fleet"
TRIED = 30.0  # seconds: four requests and the pauses between them
Asked = Callable[[FleetPlan], Awaitable[FleetAnswer]]


class ComputeWithAnotherFleet:
    """The compute engine, with another way to request a fleet."""

    def __init__(self, inner: Any, create_fleet: Asked) -> None:
        self._inner, self.create_fleet = inner, create_fleet

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def asking(ports: Ports, create_fleet: Asked) -> Ports:
    compute: Any = ComputeWithAnotherFleet(ports.compute, create_fleet)
    return replace(ports, compute=compute)


def without_record(world: World) -> list[str]:
    known = {one.id for one in records(world)}
    return [id for id in machines(world) if id not in known]


@pytest.mark.parametrize("failure", Failure)
async def test_a_job_does_not_wait_for_a_launch_that_got_no_answer(failure: Failure) -> None:
    def failing(ports: Ports) -> Ports:
        faults(ports).fail_next(CREATE_FLEET, *[failure] * 4)
        return ports

    async with a_set_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        serve(world, between=failing)
        assert await until_done(world, push(world, lasts=10.0)) < TRIED + 40.0 + 30.0


async def test_status_says_that_a_launch_failed() -> None:
    async def away(plan: FleetPlan) -> FleetAnswer:
        raise Unavailable("EC2 does not answer")

    async with a_set_world() as world:
        serve(world, between=lambda ports: asking(ports, away))
        push(world)
        await asyncio.sleep(60)
        (job,) = session(world).waiting
        assert job.why == "the last launch failed: EC2 does not answer; a fleet may still have launched"


async def test_a_launch_whose_machines_could_not_be_registered_is_followed_by_another_at_once() -> None:
    async with a_set_world() as world:
        ports = world.ports(rates=None)

        async def launched(plan: FleetPlan) -> FleetAnswer:
            answer = await ports.compute.create_fleet(plan)
            faults(ports).fail_next("records.apply", Failure.LOST_REQUEST)
            return answer

        await a_lack(world, 1)
        with pytest.raises(Hindered):
            await warmed(world, asking(ports, launched))
        assert machines(world) == []
        assert await warmed(world) == ["create 1 × small"]


@pytest.mark.parametrize("has_launched", [False, True])
async def test_a_job_waits_for_a_killed_launch_only_as_long_as_its_fleet_may_take(has_launched: bool) -> None:
    """With the next launch and its boot, that is less than GitHub's five minutes."""
    async with a_set_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        serving: dict[str, Process] = {}

        def dying(name: str) -> Callable[[Ports], Ports]:
            def between(ports: Ports) -> Ports:
                async def create_fleet(plan: FleetPlan) -> FleetAnswer:
                    if len(serving) == 1:
                        return await ports.compute.create_fleet(plan)
                    if has_launched:
                        await ports.compute.create_fleet(plan)
                    serving.pop(name).kill()
                    return await asyncio.Future()

                return asking(ports, create_fleet)

            return between

        serving |= {name: serve(world, name, between=dying(name)) for name in ("web-1", "web-2")}
        run = push(world, lasts=10.0)
        assert await until_done(world, run) < launch.ABANDONED + launch.UNANSWERED + 40.0 + 30.0
        assert len(serving) == 1
        assert not any(job.lapses for job in session(world).waiting)
        await asyncio.sleep(300)
        assert without_record(world) == []


async def test_a_launch_has_more_time_for_each_fleet_that_it_has_planned() -> None:
    async with a_set_world() as world:
        ports = world.ports(rates=None)
        await a_lack(world, 2)
        at = ports.clock.now()
        needs, deadline = world.settings.requirements("small"), later(at, world.settings.timings.provision)
        asked = provisions.absent("p-0", "", 2, needs, deadline, 0.0)
        (one,) = await ports.records.apply(provisions.open_(asked, provisions.Opened(at=at, by="killed", why="warm")))
        for token in ("t-1", "t-2"):
            planned = provisions.FleetPlanned(at=at, by="killed", client_token=token, count=1)
            (one,) = await ports.records.apply(provisions.plan_fleet(one, planned))
        await asyncio.sleep(launch.ABANDONED + launch.UNANSWERED)
        assert await warmed(world) == []
        await asyncio.sleep(launch.UNANSWERED)
        assert await warmed(world) == ["create 2 × small"]


async def test_a_process_whose_launch_was_taken_for_abandoned_ends_its_machines() -> None:
    async with a_set_world() as world:
        ports = world.ports(rates=None)

        async def slow(plan: FleetPlan) -> FleetAnswer:
            await asyncio.sleep(launch.ABANDONED + launch.UNANSWERED + 1)
            return await ports.compute.create_fleet(plan)

        await a_lack(world, 1)
        going_on = asyncio.create_task(warmed(world, asking(ports, slow)))
        await asyncio.sleep(launch.ABANDONED + launch.UNANSWERED)
        assert await warmed(world) == ["create 1 × small"]
        (launched,) = machines(world)
        assert await going_on == ["cannot create 1 × small"]
        assert machines(world) == [launched]


async def test_machines_of_a_killed_launch_are_ended_once_it_is_aborted() -> None:
    """Their process died between the answer of the compute engine and their registration."""
    async with a_set_world() as world:

        async def dies_before_registering(plan: FleetPlan) -> FleetAnswer:
            await ports.compute.create_fleet(plan)
            killed.kill()
            return await asyncio.Future()

        await a_lack(world, 2)
        ports = world.ports(rates=None)
        killed, _ = world.start("web-1", lambda ports: warmed(world, asking(ports, dies_before_registering)))
        await killed.ended()
        lost = machines(world)
        assert len(lost) == 2
        await asyncio.sleep(launch.ABANDONED + launch.UNANSWERED)
        assert await warmed(world) == ["create 2 × small"]
        for _ in range(2):  # a list may lag
            await refreshed(world)
            await asyncio.sleep(world.settings.timings.orphan)
        await refreshed(world)
        assert set(lost).isdisjoint(machines(world))
        assert without_record(world) == []


async def test_launches_that_get_no_answer_count_towards_giving_up() -> None:
    async def perform() -> PlanReport:
        return PlanReport(refusal=Unavailable("EC2 does not answer"))

    runner, plan = PlanRunner(), Plan((), perform, is_certain=False)
    for _ in range(GIVE_UP_AFTER - 1):
        await runner.perform(plan)
    with pytest.raises(Unavailable):
        await runner.perform(plan)


@pytest.mark.parametrize("failure", [Failure.LOST_REQUEST, Failure.LOST_ANSWER])
async def test_whichever_request_of_a_launch_fails_the_next_launch_need_not_wait(failure: Failure) -> None:
    failing, made = 0, 0
    while made >= failing:
        failing, made = failing + 1, 0
        async with a_set_world() as world:
            await a_lack(world, 2)
            ports = world.ports(rates=None)

            def one_fails(kind: str, failing: int = failing) -> Failure | None:
                nonlocal made
                made += 1
                return failure if made == failing else None

            faults(ports)._failure = one_fails  # type: ignore[method-assign]
            with suppress(BullpenError):
                await warmed(world, ports)
            assert (await launch.under_way(world.ports(rates=None), world.settings, "small")).total() == 0
            await warmed(world)
            assert len(records(world, *LIVE)) == 2, f"request {failing}"
    assert failing > 10, "the launch is too short"
