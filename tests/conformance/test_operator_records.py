"""What every Records promises of pauses and rotations."""

import asyncio

import pytest

from builders import finish_rotation, open_provision, pause, resume, rotate, wait
from bullpen.errors import Conflict
from bullpen.model.pause import Pause
from bullpen.model.transition import Check, Guard
from bullpen.ports import Records

NOTE = 'größer: "quoted", 100 % \\ and a very long ' + "x" * 400


async def test_a_pause_is_read_as_it_was_written(records: Records) -> None:
    assert await records.pauses() == []
    (pool,) = await records.apply(pause(note=NOTE))
    (large,) = await records.apply(pause(resource_class="large"))
    assert await records.pauses() == [pool, large]
    assert (pool.note, pool.operator, pool.resource_class) == (NOTE, "ada", "")
    (resumed,) = await records.apply(resume(pool))
    assert await records.pauses() == [resumed, large]
    assert not resumed.is_on


async def test_what_is_ahead_of_a_provision_has_the_pauses_in_force_beside_those_that_wait(records: Records) -> None:
    assert await records.ahead(10) == ([], [])
    (pool,) = await records.apply(pause())
    (large,) = await records.apply(pause(resource_class="large"))
    (opened,) = await records.apply(open_provision())
    (waiting,) = await records.apply(wait(opened))
    assert await records.ahead(10) == ([waiting], [pool, large])
    assert await records.waiting_provisions(10) == [waiting]
    await records.apply(resume(pool))
    assert await records.ahead(10) == ([waiting], [large])


async def test_of_two_that_pause_at_once_one_lands_and_the_other_sees_it(records: Records) -> None:
    outcomes = await asyncio.gather(*(records.apply(pause(note=f"note {n}")) for n in range(4)), return_exceptions=True)
    (landed,) = [outcome[0] for outcome in outcomes if isinstance(outcome, list)]
    assert [one.found for one in outcomes if isinstance(one, Conflict)] == [landed] * 3


async def test_a_write_may_depend_on_a_pause(records: Records) -> None:
    (paused,) = await records.apply(pause())
    check = Check(Pause, paused.id, (Guard("state", "is", paused.state),))
    await records.apply(pause(resource_class="large"), checks=[check])
    await records.apply(resume(paused))
    with pytest.raises(Conflict):
        await records.apply(pause(resource_class="small"), checks=[check])


async def test_a_rotation_is_read_as_it_was_written(records: Records) -> None:
    assert await records.rotations() == {}
    (asked,) = await records.apply(rotate("i-1", "i-2"))
    assert await records.rotations() == {"small": asked}
    assert asked.members == ("i-1", "i-2")
    (over,) = await records.apply(finish_rotation(asked))
    assert await records.rotations() == {"small": over}
    assert over.members == ()


async def test_a_rotation_of_thousands_of_instances_fits_into_a_record(records: Records) -> None:
    (asked,) = await records.apply(rotate(*(f"i-{number:017x}" for number in range(10_000))))
    assert (await records.rotations())["small"] == asked


async def test_pauses_and_rotations_have_stories(records: Records) -> None:
    (paused,) = await records.apply(pause())
    await records.apply(resume(paused))
    (asked,) = await records.apply(rotate("i-1"))
    await records.apply(finish_rotation(asked))
    stories = await records.stories([paused.id, asked.id])
    assert [line.step for line in stories[paused.id]] == ["pause", "resume"]
    assert [line.step for line in stories[asked.id]] == ["rotate", "finish"]
