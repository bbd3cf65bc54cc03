"""Machines of lost workers: which are kept, which are ended, what waits for that; jobs without any runner left."""

import asyncio
from dataclasses import replace

from builders import expire
from bullpen.engines.memory import Failure, Rates
from bullpen.model.instance import RUNNING, TERMINATED
from bullpen.model.worker import CLEANED_UP, WorkerFate
from liveness.fixtures import Crew, passes, requeued


async def on_a_machine(crew: Crew, *, side_effects: bool = False) -> None:
    await crew.machine("i-1")
    await crew.beats(instance_id="i-1")
    await crew.works(side_effects=side_effects)


async def test_a_mute_worker_keeps_its_machine_and_may_come_back() -> None:
    crew = Crew()
    await on_a_machine(crew)
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    assert crew.worker().fate is WorkerFate.KEEP
    assert crew.memory.tables.instances["i-1"].state is RUNNING
    assert (await crew.answered()).resurrected


async def test_only_workers_of_instances_that_the_pool_has_not_ended_are_lost_unexpectedly() -> None:
    """One instance is ended by the pool, the machine of one vanishes, the agent of one falls silent."""
    crew = Crew()
    keys = ("i-1", "i-2", "i-3")
    for id in keys:
        await crew.machine(id)
        await crew.beats(id, instance_id=id)
    await crew.ports.records.apply(expire(crew.memory.tables.instances["i-1"]))
    crew.memory.yard.sightings["i-2"] = replace(crew.memory.yard.sightings["i-2"], alive=False)
    done = await passes(crew.liveness(), 60)
    assert {key for one in done for key in one.sweep.lost} == set(keys)
    assert sum(one.sweep.unexpected for one in done) == 2


async def test_a_job_with_side_effects_waits_until_its_machine_is_gone() -> None:
    crew = Crew()
    await on_a_machine(crew, side_effects=True)
    await crew.loses("w")
    ports = crew.process(rates=Rates(slow_end=1.0))
    liveness = crew.liveness(ports)
    first = (await passes(liveness, 1))[0].rescheduling
    assert (first.requeued, first.waiting) == ([], ["j"])
    assert "i-1" not in crew.memory.yard.machines  # ending, but the answer was not certain
    assert requeued(await passes(liveness, 3)) == ["j"]
    assert crew.memory.tables.instances["i-1"].state is TERMINATED
    assert crew.worker().fate is WorkerFate.RETIRE


async def test_a_job_with_side_effects_is_never_requeued_while_its_machine_lives() -> None:
    crew = Crew()
    await on_a_machine(crew, side_effects=True)
    await crew.loses("w")
    ports = crew.process()
    liveness = crew.liveness(ports)
    ports.records._faults.fail_next("compute.terminate", *[Failure.LOST_REQUEST] * 3)  # type: ignore[attr-defined]
    for _ in range(12):
        await passes(liveness, 1)
        assert crew.job().state == "running" or "i-1" not in crew.memory.yard.machines
    assert crew.job().state == "queued"


async def test_the_end_of_a_machine_known_to_be_gone_is_written_down_for_the_pool() -> None:
    crew = Crew()
    await on_a_machine(crew)
    crew.memory.yard.end("i-1")
    await crew.loses("w")
    await passes(crew.liveness(), 1)
    instance = crew.memory.tables.instances["i-1"]
    assert (instance.state, instance.owes) == (TERMINATED, None)
    assert crew.job().state == "queued"


async def test_without_a_machine_of_the_pool_side_effects_wait_until_the_worker_is_cleaned_up() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats()
    await crew.works(side_effects=True)
    await crew.loses("w")
    assert requeued(await passes(liveness, 40)) == []
    await asyncio.sleep(3600)
    assert requeued(await passes(liveness, 40)) == ["j"]
    assert crew.worker().state is CLEANED_UP


async def test_jobs_that_wait_for_a_machine_do_not_hide_those_that_need_not() -> None:
    crew = Crew()
    await crew.beats(lease=60)
    for number in range(600):
        await crew.submits(f"a{number:03}", side_effects=True)
        await crew.assigns(f"a{number:03}")
    await crew.works("z")
    await crew.loses("w")
    assert requeued(await passes(crew.liveness(), 1)) == ["z"]


async def test_one_machine_that_does_not_end_holds_up_no_other_worker() -> None:
    crew = Crew()
    await on_a_machine(crew, side_effects=True)
    await crew.beats("other")
    await crew.works("j2", "other")
    await crew.loses("w", "other")
    ports = crew.process()
    ports.records._faults.fail_next("compute.terminate", *[Failure.LOST_REQUEST] * 100)  # type: ignore[attr-defined]
    done = await passes(crew.liveness(ports), 2)
    assert requeued(done) == ["j2"]
    assert crew.job("j").state == "running"


async def test_a_machine_is_ended_before_a_job_with_side_effects_that_no_worker_took_up_goes_on() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.machine("i-1")
    await crew.beats(instance_id="i-1")
    await crew.submits(side_effects=True)
    await crew.assigns()
    for _ in range(125):
        await crew.beats()
        await passes(liveness, 1)
    assert crew.job().state == "queued"
    assert "i-1" not in crew.memory.yard.machines


# ---- no runner left


async def test_jobs_of_a_run_without_runners_fail_with_the_reason_after_the_wait() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.submits()
    await passes(liveness, 120)
    assert crew.job().state == "queued"
    await passes(liveness, 8)
    reason = "its run has no runner, and none came within 120 s"
    assert (crew.job().result, crew.job().reason) == ("failed", reason)


async def test_a_run_whose_runner_beats_is_not_without_runners() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.machine("i-1")
    await crew.submits()
    for _ in range(150):
        await crew.beats(instance_id="i-1")
        await passes(liveness, 1)
    assert crew.job().state == "queued"
    await passes(liveness, 250)  # mute from here on, though its record runs
    assert crew.job().result == "failed"


async def test_a_runner_in_between_restarts_the_wait() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.submits()
    await passes(liveness, 100)
    await crew.machine("i-1")
    await crew.beats(instance_id="i-1")
    await passes(liveness, 1)
    crew.memory.yard.end("i-1")
    await passes(liveness, 100)
    assert crew.job().state == "queued"
