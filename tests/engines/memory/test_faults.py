"""What can go wrong on the way to the memory engines, and that it goes wrong as described."""

import asyncio

import pytest

from builders import a_plan, claim, later, messages, needs, on_offer, register
from bullpen.engines.memory import Failure, Faults, Memory, Rates, Yard
from bullpen.engines.memory.records import MemoryRecords
from bullpen.errors import Conflict, InsufficientCapacity, Throttled, Unavailable
from bullpen.model.fleet import FleetPlan, LaunchedMachine
from bullpen.model.instance import CLAIMED
from bullpen.sim.loop import VirtualLoop
from bullpen.sim.process import Process
from conformance.landing import land

ALWAYS = 1.0


async def test_a_lost_request_changes_nothing() -> None:
    memory, faults = Memory(), Faults(rates=Rates(lost_request=ALWAYS))
    with pytest.raises(Unavailable):
        await memory.ports(faults=faults).records.apply(register())
    assert memory.tables.instances == {}


async def test_a_lost_answer_hides_what_has_happened_and_the_retry_finds_it() -> None:
    memory, faults = Memory(), Faults()
    records = memory.ports(faults=faults).records
    offered = await land(records, on_offer())
    change = claim(offered)
    faults.fail_next("records.apply", Failure.LOST_ANSWER)
    with pytest.raises(Unavailable):
        await records.apply(change)
    assert memory.tables.instances["i-1"].state is CLAIMED
    assert await records.apply(change) == [change.after]


async def test_the_answer_of_a_conflict_can_be_lost_too() -> None:
    memory, faults = Memory(), Faults()
    records = memory.ports(faults=faults).records
    await records.apply(register())
    faults.fail_next("records.apply", Failure.LOST_ANSWER)
    with pytest.raises(Unavailable):
        await records.apply(register())


async def test_throttled_says_when_to_come_back_and_changes_nothing() -> None:
    memory, faults = Memory(), Faults(rates=Rates(throttled=ALWAYS))
    with pytest.raises(Throttled) as refused:
        await memory.ports(faults=faults).records.apply(register())
    assert refused.value.retry_after > 0
    assert memory.tables.instances == {}


async def test_of_each_on_its_own_those_that_landed_stay_when_one_is_lost() -> None:
    memory, faults = Memory(), Faults()
    faults.fail_next("records.apply", Failure.LOST_REQUEST)
    with pytest.raises(Unavailable):
        await memory.ports(faults=faults).records.apply_each([register(f"i-{n}") for n in range(3)])
    assert sorted(memory.tables.instances) == ["i-1", "i-2"]


async def test_faults_are_on_the_way_of_one_process_only() -> None:
    memory = Memory()
    cut_off = memory.ports(faults=Faults(rates=Rates(lost_request=ALWAYS)))
    with pytest.raises(Unavailable):
        await cut_off.records.count()
    assert await memory.ports().records.count() == {}


async def test_the_same_seed_gives_the_same_faults() -> None:
    async def history(seed: int) -> list[bool]:
        records = Memory().ports(faults=Faults(seed, Rates(lost_request=0.5))).records
        outcomes = await asyncio.gather(*(records.count() for _ in range(50)), return_exceptions=True)
        return [isinstance(outcome, Unavailable) for outcome in outcomes]

    assert await history(1) == await history(1)
    assert await history(1) != await history(2)


async def test_a_call_takes_its_latency_twice() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    await Memory().ports(faults=Faults(rates=Rates(latency=(0.025, 0.025)))).records.count()
    assert loop.time() - started == pytest.approx(0.05)


async def test_requests_are_counted_by_kind() -> None:
    faults = Faults()
    ports = Memory().ports(faults=faults)
    await ports.records.apply_each([register(f"i-{n}") for n in range(3)])
    await ports.signals.read(["i-1", "i-2"])
    assert faults.requests == {"records.apply": 3, "signals.read": 1}


async def test_tickets_get_lost_doubled_and_hidden_by_a_false_empty() -> None:
    memory = Memory()
    await memory.ports(faults=Faults(rates=Rates(lost_ticket=ALWAYS))).queue.send("small", messages(["a"]))
    assert await memory.ports().queue.count("small") == 0
    await memory.ports(faults=Faults(rates=Rates(duplicate=ALWAYS))).queue.send("small", messages(["b"]))
    assert await memory.ports(faults=Faults(rates=Rates(false_empty=ALWAYS))).queue.take("small", 10) == []
    assert await memory.ports().queue.take("small", 10) == ["b", "b"]


async def test_a_queue_in_disorder_still_gives_each_message_once() -> None:
    queue = Memory().ports(faults=Faults(seed=1, rates=Rates(disorder=ALWAYS))).queue
    await queue.send("small", messages([str(n) for n in range(20)]))
    taken = await queue.take("small", 20)
    assert taken != sorted(taken, key=int) == [str(n) for n in range(20)]


async def test_a_short_fleet_succeeds_with_fewer_and_says_why() -> None:
    memory = Memory()
    answer = await memory.ports(faults=Faults(rates=Rates(short_fleet=ALWAYS))).compute.create_fleet(a_plan(count=5))
    assert len(answer.machines) < 5
    assert answer.errors
    assert len(memory.yard.machines) == len(answer.machines)


async def test_a_refused_fleet_launches_nothing() -> None:
    memory = Memory()
    with pytest.raises(InsufficientCapacity):
        await memory.ports(faults=Faults(rates=Rates(refused_fleet=ALWAYS))).compute.create_fleet(a_plan())
    assert memory.yard.machines == {}


async def test_a_fleet_whose_answer_was_lost_is_launched_once() -> None:
    memory, faults = Memory(), Faults()
    compute, plan = memory.ports(faults=faults).compute, a_plan(count=2)
    faults.fail_next("compute.create_fleet", Failure.LOST_ANSWER)
    with pytest.raises(Unavailable):
        await compute.create_fleet(plan)
    assert {machine.id for machine in (await compute.create_fleet(plan)).machines} == memory.yard.machines.keys()


async def test_a_slow_end_is_certain_when_asked_again() -> None:
    compute = Memory().ports(faults=Faults(rates=Rates(slow_end=ALWAYS))).compute
    (machine,) = (await compute.create_fleet(a_plan())).machines
    assert await compute.terminate([machine.id]) == []
    assert await compute.terminate([machine.id]) == [machine.id]


async def test_the_deaf_wait_in_full() -> None:
    ports = Memory().ports(faults=Faults(rates=Rates(deaf=ALWAYS)))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(ports.signals.wait(7), ports.records.apply(register()))
    assert loop.time() - started == 7


async def test_an_index_that_lags_shows_the_past_while_reads_by_id_show_the_truth() -> None:
    memory = Memory(index_lag=2.0)
    records = memory.ports().records
    offered = await land(records, on_offer(threshold=later(420)))
    assert await records.claimable(needs(), later(0), 10) == []
    await asyncio.sleep(2)
    (claimed,) = await records.apply(claim(offered))
    assert await records.claimable(needs(), later(2), 10) == [offered]
    assert await records.run_instances("run-1") == []
    assert (await records.instances(["i-1"]))["i-1"] == claimed
    with pytest.raises(Conflict):
        await records.apply(claim(offered, "run-2"))
    await asyncio.sleep(2)
    assert await records.claimable(needs(), later(4), 10) == []
    assert await records.run_instances("run-1") == [claimed]


async def test_the_callbacks_of_the_yard_get_every_launch_and_every_end() -> None:
    told: list[str] = []

    def launched(machine: LaunchedMachine, plan: FleetPlan) -> None:
        told.append(f"{machine.id} for {plan.run_id}")

    memory = Memory(yard=Yard(on_launch=launched, on_end=told.append))
    compute = memory.ports().compute
    (machine,) = (await compute.create_fleet(a_plan(run_id="run-7"))).machines
    await compute.terminate([machine.id])
    await compute.terminate([machine.id])
    assert told == [f"{machine.id} for run-7", machine.id]


async def test_an_agent_is_woken_by_its_own_record_only() -> None:
    memory = Memory()
    records = memory.ports().records
    assert isinstance(records, MemoryRecords)
    ours, theirs = records.listener("i-1"), records.listener("i-2")
    await records.apply(register("i-1"))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await ours.wait(60)
    assert loop.time() == started
    await theirs.wait(60)
    assert loop.time() == started + 60


def test_a_process_may_be_killed_before_its_write_landed_and_after_it_without_the_answer() -> None:
    seen = set()
    for step in range(1, 10):
        loop, memory, process = VirtualLoop(), Memory(), Process("writer")
        answered: list[object] = []

        async def write(memory: Memory = memory, answered: list[object] = answered) -> None:
            answered.append(await memory.ports().records.apply(register()))

        process.die_at = step
        loop.spawn(process, write())
        loop.run_until_complete(process.ended())
        loop.close()
        seen.add(("i-1" in memory.tables.instances, bool(answered)))
    assert seen == {(False, False), (True, False), (True, True)}
