"""Order of beats: cases 38 to 43."""

import asyncio
from datetime import timedelta

import pytest

from bullpen.engines.memory import Failure
from bullpen.engines.memory.clock import BEGINNING
from bullpen.errors import Unavailable
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import Binding, HeartbeatRequest
from bullpen.model.worker import ACTIVE, Code, Rejected
from liveness.fixtures import Crew


@pytest.mark.parametrize("token", [0, 1, 3, 99])
async def test_case_38_another_token_is_a_mismatch_that_names_the_one_that_counts(token: int) -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats()
    binding = await _assigned(crew)
    stored = crew.worker()
    assert await crew.beats(token=token, bound=(binding,)) == Rejected(Code.MISMATCH, ACTIVE, 2)
    assert crew.worker() == stored
    assert not crew.job().bound


async def test_case_39_a_beat_whose_answer_was_lost_is_answered_the_same_and_counts_once() -> None:
    crew = Crew()
    await crew.beats()
    binding = await _assigned(crew)
    beat = HeartbeatRequest(key="w", token=1, lease=15, request_id="r1", bound=(binding,))
    crew.ports.records._faults.fail_next("workers.beat", Failure.LOST_ANSWER)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable):
        await record_heartbeat(crew.ports, crew.settings, beat)
    assert not crew.job().bound  # cut off between the beat and its jobs
    answers = [await crew.answered(token=1, request_id="r1", bound=(binding,)) for _ in range(3)]
    assert [one.token for one in answers] == [2, 2, 2]
    assert crew.steps("j").count("bind") == 1


async def test_case_40_a_beat_delivered_twice_does_not_extend_the_lease() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats(token=1, request_id="r1")
    await asyncio.sleep(10)
    await crew.answered(token=1, request_id="r1")
    assert crew.worker().deadline == BEGINNING + timedelta(seconds=15)


async def test_case_41_a_beat_that_arrives_after_the_next_one_is_refused() -> None:
    crew = Crew()
    await crew.beats()
    await crew.beats(token=1, request_id="second")
    await crew.beats(token=2, request_id="third")
    assert await crew.beats(token=1, request_id="second") == Rejected(Code.MISMATCH, ACTIVE, 3)


async def test_case_42_after_a_mismatch_the_jobs_are_sent_again_and_count_once() -> None:
    crew = Crew()
    await crew.beats()
    binding = await _assigned(crew)
    rejection = await crew.beats(token=0, bound=(binding,))
    assert isinstance(rejection, Rejected)
    await crew.answered(token=rejection.token, bound=(binding,))
    await crew.answered(bound=(binding,))
    assert crew.steps("j").count("bind") == 1


async def test_case_43_a_token_of_an_earlier_epoch_is_refused() -> None:
    crew = Crew()
    await crew.beats()
    old = crew.worker().token
    await crew.loses("w")
    await crew.beats()
    assert await crew.beats(token=old) == Rejected(Code.MISMATCH, ACTIVE, 2)


async def _assigned(crew: Crew) -> Binding:
    await crew.submits()
    return await crew.assigns()
