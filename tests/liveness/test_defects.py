"""Defects that earlier designs of this kind had: each is a promise here."""

import asyncio

import pytest

from bullpen.engines.memory import Failure
from bullpen.errors import Conflict, Unavailable
from bullpen.jobs.queries import policy_of
from bullpen.model import job_policy
from bullpen.model.worker import ABSENT, ACTIVE, INACTIVE, Code, Rejected
from liveness.fixtures import Crew, passes, requeued


async def test_no_job_is_moved_before_the_loss_of_its_worker_is_written() -> None:
    crew = Crew()
    ports = crew.process()
    liveness = crew.liveness(ports)
    await crew.beats()
    await crew.works()
    await asyncio.sleep(15)
    await passes(liveness, 8)
    ports.records._faults.fail_next("records.apply", Failure.LOST_REQUEST)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable):
        await liveness.run_once()
    assert (crew.worker().state, crew.job().worker) == (ACTIVE, "w")


async def test_a_late_reschedule_does_not_reset_a_job_that_runs_on_a_healthy_worker() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    await crew.works()
    now = crew.ports.clock.now()
    late = job_policy.give_back(crew.job(), policy_of(crew.settings), now, by="a test", why="late")
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    await crew.assigns("j", "other")
    with pytest.raises(Conflict):
        await crew.ports.records.apply(late)
    assert crew.job().worker == "other"


async def test_no_number_of_failures_makes_a_job_forgotten() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    await crew.loses("w")
    ports = crew.process()
    ports.records._faults.fail_next("records.apply", *[Failure.LOST_REQUEST] * 7)  # type: ignore[attr-defined]
    assert requeued(await passes(crew.liveness(ports), 120)) == ["j"]


async def test_a_job_that_was_running_really_goes_back_to_the_queue() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats("other")
    await crew.works()
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    assert [job.id for job in await crew.ports.jobs.queued("run-1", crew.ports.clock.now(), 10)] == ["j"]
    assert (await crew.assigns("j", "other")).fence == 2


async def test_the_second_beat_is_answered_as_fully_as_the_first() -> None:
    crew = Crew()
    first = await crew.answered()
    second = await crew.answered()
    assert (second.token, second.epoch, second.granted_lease, second.state) == (2, 1, first.granted_lease, ACTIVE)
    assert second.next_in > 0


async def test_a_late_beat_does_not_make_a_purged_key_a_fresh_worker() -> None:
    crew = Crew()
    await crew.beats()
    token = crew.worker().token
    crew.memory.tables.remove(crew.worker())
    assert await crew.beats(token=token) == Rejected(Code.UNKNOWN, ABSENT, 0)


async def test_a_worker_lost_again_is_not_cleaned_up_at_the_time_of_its_first_loss() -> None:
    crew = Crew()
    liveness = crew.liveness()
    await crew.beats()
    await crew.loses("w")
    await asyncio.sleep(1800)
    await crew.beats()
    await crew.loses("w")
    await asyncio.sleep(2400)
    await passes(liveness, 2)
    assert crew.worker().state is INACTIVE


async def test_a_beat_costs_the_same_however_many_jobs_the_worker_has() -> None:
    crew = Crew()
    await crew.beats()
    for number in range(100):
        await crew.works(f"j{number}")
    crew.requests().clear()
    await crew.beats()
    assert crew.requests() == {"workers.beat": 1}
