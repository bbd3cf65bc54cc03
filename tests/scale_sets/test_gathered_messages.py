"""Messages gather while no process polls: one may tell of a job's assignment, of its start and of its end."""

import asyncio

import pytest

from bullpen.ports import JobMessage, JobMessageKind
from bullpen.scale_sets.job_board import leaves_waiting
from scale_sets.fixtures import a_set_world, members, push, serve, session, settings_of, until_done

ASSIGNED, STARTED, COMPLETED = JobMessageKind.ASSIGNED, JobMessageKind.STARTED, JobMessageKind.COMPLETED


@pytest.mark.parametrize(
    ("entries", "waits"),
    [
        ([(ASSIGNED, "one")], True),
        ([(ASSIGNED, "one"), (STARTED, "one"), (COMPLETED, "one")], False),
        ([(ASSIGNED, "one"), (COMPLETED, "one")], False),
        ([(ASSIGNED, "one"), (STARTED, "one"), (ASSIGNED, "two")], True),
        ([(STARTED, "one"), (COMPLETED, "two")], False),
    ],
    ids=["assigned", "ran", "cancelled", "one of two ran", "assigned before"],
)
def test_only_a_job_that_has_not_moved_on_in_the_same_message_waits(
    entries: list[tuple[JobMessageKind, str]], waits: bool
) -> None:
    assert leaves_waiting([JobMessage(kind, job_id=id) for kind, id in entries]) is waits


async def test_a_job_that_ran_while_no_process_listened_is_not_taken_for_one_that_waits() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        holder = serve(world)
        await asyncio.sleep(60)
        (before,) = members(world)
        holder.kill()
        await until_done(world, push(world, lasts=5.0))
        serve(world, "web-2")
        await asyncio.sleep(40)
        assert session(world).holder == "web-2"
        assert session(world).message > 0
        await asyncio.sleep(80)
        assert [(one.id, one.round) for one in members(world)] == [(before.id, before.round)], "a ghost was suspected"
