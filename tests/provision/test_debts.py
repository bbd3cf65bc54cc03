"""Debts that cannot be paid yet do not hold up those that can."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from bullpen.errors import Unavailable
from bullpen.model.instance import IDLE
from bullpen.model.provision import Provision
from bullpen.pool import debts, lifecycle
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import Compute
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from bullpen.structured_log import LogEvent, happened
from fixtures import a_world, ids, provisioned, records, released


async def cut_off(world: World, run_id: str) -> None:
    """Release a run with a process that dies once everything is given back."""
    process, _ = world.start("releaser", lambda ports: released(world, run_id, ports))
    await asyncio.sleep(0.05)
    process.kill()


async def test_an_instance_that_attested_is_offered_although_many_before_it_still_clean() -> None:
    async with a_world(temper=lambda n: Temper(cleans_in=1e6 if n < 50 else 0.1)) as world:
        await provisioned(world, "slow", 50)
        clean = await provisioned(world, "quick", 2)
        await cut_off(world, "slow")
        await asyncio.sleep(1)
        await cut_off(world, "quick")
        await asyncio.sleep(world.settings.timings.takeover + 1)
        paid = await debts.pay_due(world.ports(), world.settings, 20, by="a test")
        assert len(paid) == 2
        assert [one.id for one in records(world, IDLE) if one.is_claimable] == ids(clean)


async def test_an_instance_that_attested_and_then_died_is_not_offered() -> None:
    async with a_world() as world:
        (dead,) = ids(await provisioned(world, "run", 1))
        await cut_off(world, "run")
        await asyncio.sleep(1)
        world.agents[dead].pause()
        await asyncio.sleep(30)
        assert await debts.pay_due(world.ports(), world.settings, 20, by="a test") == []
        assert not any(one.attested for one in records(world, IDLE))


# ------------------------------------------------------------------------------------------ debts that cannot be paid


def ended(id: str) -> LogEvent:
    return happened("debt paid", instance=id, outcome="terminated")


class Sick:
    """A compute engine that fails whenever it is asked to end one of some machines."""

    def __init__(self, compute: Compute, sick: Sequence[str], failure: Exception) -> None:
        self._compute = compute
        self.sick = list(sick)
        self.failure = failure
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compute, name)

    async def terminate(self, ids: Sequence[str]) -> list[str]:
        self.asked += 1
        if set(ids) & set(self.sick):
            raise type(self.failure)(*self.failure.args)
        return await self._compute.terminate(ids)


async def owing_their_end(world: World, count: int) -> list[str]:
    """Instances whose end is written down and owed, in order of id."""
    found = ids(await provisioned(world, "run", count))
    ports = world.ports()
    now = ports.clock.now()
    standing = (await ports.records.instances(found)).values()
    await ports.records.apply_each([lifecycle.end(one, now, "a test", "a test") for one in standing])
    return sorted(found)


FAILURES = [RecursionError("maximum recursion depth exceeded"), OSError(28, "No space left"), Unavailable("no answer")]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
async def test_a_debt_that_cannot_be_paid_does_not_stop_the_others(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_world() as world:
        sick, *others = await owing_their_end(world, 5)
        ports = replace(world.ports(), compute=Sick(world.ports().compute, [sick], failure))
        setbacks = Setbacks()
        paid = await debts.pay_due(ports, world.settings, 20, by="a test", setbacks=setbacks)
        assert sorted(paid, key=str) == sorted(map(ended, others), key=str)
        assert list(setbacks.reasons()) == [sick]
        assert setbacks.reasons()[sick].endswith(str(failure))
        assert sick in caplog.text


async def test_a_debt_that_cannot_be_paid_is_tried_again_ever_more_rarely_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_world() as world:
        (sick,) = await owing_their_end(world, 1)
        compute = Sick(world.ports().compute, [sick], OSError(5, "Input/output error"))
        ports, setbacks = replace(world.ports(), compute=compute), Setbacks()
        for _ in range(300):
            await debts.pay_due(ports, world.settings, 20, by="a test", setbacks=setbacks)
            await asyncio.sleep(1)
        assert compute.asked // 2 == 10  # once with the others, once alone; after 1, 2, 4, … 60, 60 seconds
        assert len(caplog.records) == 1
        compute.sick.clear()
        await asyncio.sleep(60)
        paid = await debts.pay_due(ports, world.settings, 20, by="a test", setbacks=setbacks)
        assert (paid, setbacks.reasons()) == ([ended(sick)], {})


async def test_many_debts_that_cannot_be_paid_do_not_hide_one_that_can() -> None:
    async with a_world() as world:
        *sick, well = await owing_their_end(world, 9)
        compute = Sick(world.ports().compute, sick, OSError(5, "Input/output error"))
        ports, setbacks = replace(world.ports(), compute=compute), Setbacks()
        paid = []
        for _ in range(9):
            paid += await debts.pay_due(ports, world.settings, 1, by="a test", setbacks=setbacks)
        assert paid == [ended(well)]


async def test_a_service_that_does_not_answer_is_not_asked_for_each_of_many_debts() -> None:
    async with a_world() as world:
        sick = await owing_their_end(world, 30)
        compute = Sick(world.ports().compute, sick, Unavailable("no answer"))
        ports, setbacks = replace(world.ports(), compute=compute), Setbacks()
        await debts.pay_due(ports, world.settings, 100, by="a test", setbacks=setbacks)
        assert compute.asked == 1 + debts.GIVE_UP_AFTER


async def test_a_provision_that_cannot_be_settled_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_world(temper=lambda n: Temper(boots_in=5.0)) as world:
        for run_id in ("first", "second"):
            process, _ = world.start("provision", lambda ports, run_id=run_id: provisioned(world, run_id, 1, ports))  # type: ignore[misc]
            await asyncio.sleep(1)
            process.kill()
        sick, well = sorted(world.memory.tables.provisions)
        await asyncio.sleep(world.settings.timings.provision + 1)
        real = lifecycle.carry_out

        async def carry_out(ports: Any, settings: Any, decided: Provision, *args: Any, **more: Any) -> Any:
            if decided.id == sick:
                raise RuntimeError("a bug")
            return await real(ports, settings, decided, *args, **more)

        monkeypatch.setattr(lifecycle, "carry_out", carry_out)
        setbacks = Setbacks()
        (one, *_) = await debts.pay_due(world.ports(), world.settings, 20, by="a test", setbacks=setbacks)
        assert one == happened("debt paid", provision=well, outcome="aborted", instances=1)
        assert setbacks.reasons() == {sick: "RuntimeError: a bug"}
