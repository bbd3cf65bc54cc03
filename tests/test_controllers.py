"""The service's loops: each survives what an engine does, all end on a stop, and silence condemns no worker."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest

from bullpen.background_loop import LONGEST_PAUSE, LONGEST_RUN, Loop
from bullpen.config import ResourceClass, Settings
from bullpen.controllers import Service
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import ConfigError, Outdated, Unavailable
from bullpen.inventory import status
from bullpen.liveness.heartbeat import record_heartbeats
from bullpen.liveness.schema import HeartbeatRequest
from bullpen.model.fleet import FleetAnswer, FleetPlan
from bullpen.model.worker import ACTIVE
from bullpen.pool import debts
from bullpen.pool.setbacks import Setbacks
from bullpen.ports import FailingLoop, Gap, NoInfrastructure, Ports
from bullpen.refresh import reap
from bullpen.refresh.action import Action, Plan


def some_ports(memory: Memory | None = None, seed: int = 0) -> Ports:
    return (memory or Memory()).ports(LoopClock(), SeededChance(seed))


class Duty:
    """Fails as asked, and notes when it was done."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self._outcomes = list(outcomes)
        self.times: list[float] = []

    async def __call__(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self._outcomes and (outcome := self._outcomes.pop(0)) is not None:
            raise outcome


async def run_for(loop: Loop, seconds: float) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    await loop.run(stop)


async def test_a_duty_is_done_again_and_again_and_never_in_step_with_others() -> None:
    duty = Duty()
    await run_for(Loop("debts", 10.0, duty, SeededChance()), 100)
    pauses = [after - before for before, after in zip(duty.times, duty.times[1:], strict=False)]
    assert all(8 <= pause <= 12 for pause in pauses)
    assert len(set(pauses)) > 1


@pytest.mark.parametrize("failure", [Unavailable("the store is away"), RuntimeError("a bug")])
async def test_a_failure_makes_the_next_pause_longer_and_ends_nothing(failure: Exception) -> None:
    duty = Duty(*[failure] * 20)
    loop = Loop("debts", 1.0, duty, SeededChance())
    await run_for(loop, 2000)
    pauses = [after - before for before, after in zip(duty.times, duty.times[1:], strict=False)]
    assert max(pauses) <= LONGEST_PAUSE * 1.2
    assert pauses[10] > 40
    assert pauses[-1] < 2


async def test_a_duty_that_hangs_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    began = asyncio.get_running_loop().time()
    with caplog.at_level(logging.WARNING):
        assert await Loop("warm", 1.0, hang, SeededChance()).run_once() is False
    assert asyncio.get_running_loop().time() - began == LONGEST_RUN
    assert "was cancelled" in caplog.text


async def test_a_loop_is_alive_from_its_first_turn_on_and_not_when_it_stands_still() -> None:
    loop = Loop("sweep", 1.0, Duty(), SeededChance())
    assert not loop.is_alive()
    await loop.run_once()
    assert loop.is_alive()
    await asyncio.sleep(LONGEST_RUN + 2 * LONGEST_PAUSE)
    assert not loop.is_alive()


async def test_the_service_ends_all_its_loops_on_stop() -> None:
    service, stop = Service(some_ports(), Settings()), asyncio.Event()
    asyncio.get_running_loop().call_later(30, stop.set)
    await service.run(stop)
    assert service.is_alive()
    assert asyncio.get_running_loop().time() < 31


@pytest.mark.slow
async def test_a_service_back_after_silence_expires_no_living_worker() -> None:
    """1,000 workers beat every 20 s; for 3 minutes no service receives them, then a fresh one does."""
    memory, settings = Memory(), Settings()
    ports = some_ports(memory)
    tokens = {f"w-{number}": 0 for number in range(1000)}

    async def beat(keys: list[str]) -> None:
        requests = [HeartbeatRequest(key=key, token=tokens[key], lease=60) for key in keys]
        for request, answer in zip(requests, await record_heartbeats(ports, settings, requests), strict=True):
            tokens[request.key] = answer.token  # type: ignore[union-attr]

    async def beats(keys: list[str], seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await beat(keys)
            await asyncio.sleep(20)

    async def serve(seconds: float, seed: int) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await Service(some_ports(memory, seed), settings).run(stop)

    async def come_back() -> None:
        """A third at once, so that no sweeper holds back for a general silence; the others after their longest pause,
        when deadlines and the confirm window have long passed. Only the grace after a gap protects them."""
        all_keys = list(tokens)
        await asyncio.sleep(5)
        await beats(all_keys[:333], 40)
        await beats(all_keys, 60)

    await asyncio.gather(serve(60, 1), beats(list(tokens), 60))
    await asyncio.sleep(180)
    await asyncio.gather(serve(110, 2), come_back())
    assert [one.id for one in await ports.workers.listed(2000) if one.state is not ACTIVE] == []
    assert {one.epoch for one in await ports.workers.listed(2000)} == {1}


async def test_a_worker_that_really_dies_is_found_by_the_service() -> None:
    memory, settings = Memory(), Settings()
    ports = some_ports(memory)
    stop = asyncio.Event()
    serving = asyncio.ensure_future(Service(some_ports(memory, 1), settings).run(stop))
    await record_heartbeats(ports, settings, [HeartbeatRequest(key="w-1", lease=15)])
    await asyncio.sleep(30)
    stop.set()
    await serving
    (worker,) = await ports.workers.listed(1)
    assert worker.state is not ACTIVE


async def test_a_service_of_an_older_program_stops() -> None:
    class Newer(NoInfrastructure):
        async def gaps(self) -> list[Gap]:
            raise Outdated("table pool was made by a newer Bullpen")

    service = Service(replace(some_ports(), infrastructure=Newer()), Settings())
    with pytest.raises(Outdated):
        await service.run(asyncio.Event())


async def test_a_class_that_cannot_be_launched_does_not_keep_others_cold(caplog: pytest.LogCaptureFixture) -> None:
    ports, launched = some_ports(), list[str]()
    classes = {name: ResourceClass(cpu=1, mem=1024, idle_target=1) for name in ("small", "large")}
    launch = ports.compute.create_fleet

    async def create_fleet(plan: FleetPlan) -> FleetAnswer:
        launched.append(plan.resource_class)
        if plan.resource_class == "small":
            raise ConfigError("no type fits")
        return await launch(plan)

    ports.compute.create_fleet = create_fleet  # type: ignore[method-assign]
    service = Service(ports, Settings(classes=classes))
    (loop,) = (loop for loop in service.loops if loop.name == "warm")
    assert not await loop.run_once()
    assert launched == ["small", "large"]
    assert 'controller=warm error="no type fits"' in caplog.text


async def test_the_service_mends_what_the_pool_stands_on() -> None:
    class Ground(NoInfrastructure):
        def __init__(self) -> None:
            self.open = [Gap("make table", "pool", "it does not exist")]

        async def gaps(self) -> list[Gap]:
            return list(self.open)

        async def mend(self, gap: Gap) -> None:
            self.open.remove(gap)

    ground = Ground()
    service = Service(replace(some_ports(), infrastructure=ground), Settings())
    (loop,) = (loop for loop in service.loops if loop.name == "infrastructure")
    assert await loop.run_once()
    assert ground.open == []


async def test_a_loop_that_keeps_failing_is_said_to_and_logged_as_an_error_once_and_then_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = LoopClock()
    began = clock.now()
    loop = Loop("reap", 5.0, Duty(*[Unavailable("i-1 cannot be ended")] * 40), SeededChance())
    await loop.run_once()
    assert loop.failing(clock.now()) is None  # once is no habit
    await run_for(loop, 1000)
    assert loop.failing(clock.now()) == FailingLoop("reap", began, "i-1 cannot be ended")
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2  # after half a minute, and ten minutes later
    assert "controller keeps failing controller=reap" in errors[0].getMessage()
    await run_for(loop, 3000)
    assert loop.failing(clock.now()) is None


async def test_a_debt_that_cannot_be_paid_is_reported_and_the_loop_keeps_its_pace(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(some_ports(), Settings())
    times: list[float] = []

    async def pay_due(*args: object, setbacks: Setbacks, **more: object) -> list[str]:
        times.append(asyncio.get_running_loop().time())
        if "i-1" not in setbacks.waiting():
            setbacks.note("i-1", RecursionError("maximum recursion depth exceeded"))
        return []

    monkeypatch.setattr(debts, "pay_due", pay_due)
    (loop,) = (loop for loop in service.loops if loop.name == "debts")
    await run_for(loop, 120)
    pauses = [after - before for before, after in pairwise(times)]
    assert max(pauses) < 1.5
    (failing,) = service.failing()
    assert (failing.loop, failing.error) == ("debts", "i-1: RecursionError: maximum recursion depth exceeded")


async def test_one_plan_that_fails_keeps_no_other_duty_of_its_loop_from_being_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def decisions(*args: object) -> AsyncIterator[Plan]:
        async def bug() -> None:
            raise RuntimeError("a bug")

        yield Plan((Action("settle provision", "p-1", "its deadline passed"),), bug)

    performed: list[str] = []

    async def plans(*args: object) -> AsyncIterator[Plan]:
        async def perform() -> None:
            performed.append("terminate")

        yield Plan((Action("terminate", "i-1", "its machine is still to be terminated"),), perform)

    monkeypatch.setattr(reap, "decisions", decisions)
    monkeypatch.setattr(reap, "plans", plans)
    (loop,) = (loop for loop in Service(some_ports(), Settings()).loops if loop.name == "reap")
    assert not await loop.run_once()
    assert performed == ["terminate"]


async def test_what_keeps_failing_is_noted_in_the_store_for_others_and_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = some_ports()
    service, stop = Service(ports, Settings(), process="serve on a (7)"), asyncio.Event()
    sick = True

    async def pay_due(*args: object, **more: object) -> list[str]:
        if sick:
            raise Unavailable("no answer")
        return []

    monkeypatch.setattr(debts, "pay_due", pay_due)
    serving = asyncio.ensure_future(service.run(stop))
    await asyncio.sleep(130)
    (failing,) = await ports.health.noted(ports.clock.now())
    assert (failing.process, failing.loop, failing.error) == ("serve on a (7)", "debts", "no answer")
    assert failing in (await status(ports, Settings())).failing
    sick = False
    await asyncio.sleep(100)
    assert await ports.health.noted(ports.clock.now()) == []
    assert [one.process for one in await ports.health.services(ports.clock.now())] == ["serve on a (7)"]
    stop.set()
    await serving
    assert await ports.health.services(ports.clock.now()) == []
