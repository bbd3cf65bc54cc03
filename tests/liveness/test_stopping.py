"""A worker that stops normally says so: cleaned up at once, its jobs given to others at once, and nothing twice."""

import asyncio
from typing import Any

import pytest

from bullpen.liveness.schema import WorkerMetadata
from bullpen.liveness.stopping import StoppedWorker, stop_worker
from bullpen.model.job import QUEUED, RUNNING
from bullpen.model.worker import ABSENT, ACTIVE, CLEANED_UP, Code, Rejected
from bullpen.ports import Ports
from liveness.fixtures import Crew, passes


async def stops(crew: Crew, **fields: Any) -> StoppedWorker | Rejected:
    worker = crew.memory.tables.workers.get("w")
    given = {"token": worker.token if worker else 1, "epoch": worker.epoch if worker else 1, **fields}
    return await stop_worker(crew.ports, crew.settings, "w", **given)


async def test_a_worker_that_stops_is_cleaned_up_at_once_and_its_jobs_are_queued_again() -> None:
    crew = Crew()
    await crew.beats(metadata=WorkerMetadata(pid=1))
    await crew.works("j1")
    await crew.works("j2", side_effects=True)
    stopped = await stops(crew)
    assert isinstance(stopped, StoppedWorker)
    assert stopped.given_back == ("j1", "j2")
    assert (stopped.worker.state, stopped.worker.owes_reschedule) == (CLEANED_UP, False)
    assert crew.worker() == stopped.worker
    assert [crew.job(id).state for id in ("j1", "j2")] == [QUEUED, QUEUED]
    assert crew.steps("w") == ["register", "stop", "settle_cleaned_up"]
    assert await crew.ports.workers.cards(["w"]) == {}
    assert await crew.ports.workers.listed(10) == []


async def test_a_stopped_worker_is_refused_and_never_declared_lost() -> None:
    crew = Crew()
    await crew.beats()
    token = crew.worker().token
    await stops(crew)
    assert await crew.beats(token=token) == Rejected(Code.CLEANED_UP, CLEANED_UP, token)
    done = await passes(crew.liveness(), 60)
    assert not any(one.sweep.suspects or one.sweep.lost for one in done)


async def test_the_same_stop_again_is_answered_again() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    first = await stops(crew)
    again = await stops(crew)
    assert isinstance(first, StoppedWorker)
    assert again == StoppedWorker(first.worker, ())
    assert crew.job().losses == 1


@pytest.mark.parametrize("wrong", [{"token": 0}, {"token": 7}, {"epoch": 2}])
async def test_a_stop_with_another_token_or_epoch_changes_nothing(wrong: dict[str, int]) -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    before = crew.worker()
    assert await stops(crew, **wrong) == Rejected(Code.MISMATCH, ACTIVE, before.token)
    assert crew.worker() == before
    assert crew.job().state is RUNNING


async def test_a_late_stop_of_an_earlier_epoch_changes_nothing() -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()
    late = {"token": crew.worker().token, "epoch": 1}
    await crew.loses("w")
    await crew.beats()
    assert await stops(crew, **late) == Rejected(Code.MISMATCH, ACTIVE, crew.worker().token)


async def test_a_tombstone_answers_a_stop_with_another_token_that_it_is_over() -> None:
    crew = Crew()
    await crew.beats()
    await stops(crew)
    assert await stops(crew, token=7) == Rejected(Code.CLEANED_UP, CLEANED_UP, 1)


async def test_a_stop_of_an_unknown_worker_is_refused() -> None:
    assert await stops(Crew()) == Rejected(Code.UNKNOWN, ABSENT, 0)


async def test_a_lost_worker_may_say_that_it_has_stopped() -> None:
    """Its job with side effects waited for that: what ran it runs no more."""
    crew = Crew()
    await crew.beats()
    await crew.works("j", side_effects=True)
    await crew.loses("w")
    await passes(crew.liveness(), 2)
    assert crew.job().state is RUNNING
    stopped = await stops(crew)
    assert isinstance(stopped, StoppedWorker)
    assert stopped.given_back == ("j",)
    assert crew.job().state is QUEUED


async def test_a_beat_and_a_stop_at_once_leave_the_worker_active_or_cleaned_up_and_no_job_behind() -> None:
    for beats_first in (True, False):
        crew = Crew()
        await crew.beats()
        await crew.works()
        token = crew.worker().token
        calls = [crew.beats(token=token), stops(crew, token=token)]
        await asyncio.gather(*(calls if beats_first else reversed(calls)))
        if crew.worker().state is ACTIVE:
            assert crew.job().state is RUNNING
        else:
            assert (crew.worker().state, crew.job().state) == (CLEANED_UP, QUEUED)


async def test_a_process_killed_after_the_stop_leaves_a_debt_that_every_sweeper_pays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crew = Crew()
    await crew.beats()
    await crew.works()

    async def killed(*_: object) -> list[object]:
        raise ConnectionError("killed")

    ports: Ports = crew.process()
    monkeypatch.setattr(ports.jobs, "held", killed)
    worker = crew.worker()
    with pytest.raises(ConnectionError):
        await stop_worker(ports, crew.settings, "w", token=worker.token, epoch=worker.epoch)
    assert (crew.worker().state, crew.worker().owes_reschedule) == (CLEANED_UP, True)
    await passes(crew.liveness(), 2)
    assert crew.job().state is QUEUED
    assert not crew.worker().owes_reschedule
