"""`serve` on an emulator of the service that is not ours: it hears of every job and serves it, whatever fails there."""

from collections.abc import Callable

import pytest

from fakes.scale_sets.emulator import Emulator
from scale_sets.emulated import an_emulated_world

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]


def queue_token_ends(emulator: Emulator, set_id: int) -> None:
    emulator.end_queue_token(set_id)


def jwts_are_revoked(emulator: Emulator, set_id: int) -> None:
    emulator.revoke_jwts()


def session_is_dropped(emulator: Emulator, set_id: int) -> None:
    emulator.drop_session(set_id)


def session_and_all_tokens_end(emulator: Emulator, set_id: int) -> None:
    emulator.revoke_jwts()
    emulator.drop_session(set_id)


def polls_fail(emulator: Emulator, set_id: int) -> None:
    emulator.fail("getMessage", 503, times=3)


def everything_fails(emulator: Emulator, set_id: int) -> None:
    for endpoint in ("getMessage", "deleteMessage", "acquireJobs", "sessions", "scaleSets", "generateJitConfig"):
        emulator.fail(endpoint, 503)


def no_session_opens_at_once(emulator: Emulator, set_id: int) -> None:
    emulator.fail("sessions", 503, times=4)
    emulator.drop_session(set_id)


def too_many_requests(emulator: Emulator, set_id: int) -> None:
    emulator.fail("getMessage", 429, retry_after=1)


async def test_60_jobs_are_heard_and_served(emulator: Emulator) -> None:
    """More than one message has, and more than the set may have runners."""
    async with an_emulated_world(emulator, idle_target=10, max=10) as world:
        jobs = world.queue(60)
        await world.until(lambda: world.knows(10, 0), "the set has acquired as many as it may have runners")
        await world.until_done(jobs)
        assert all(one["result"] == "succeeded" for one in emulator.state()["jobs"])


@pytest.mark.parametrize(
    "fault",
    [
        queue_token_ends,
        jwts_are_revoked,
        session_is_dropped,
        session_and_all_tokens_end,
        polls_fail,
        everything_fails,
        no_session_opens_at_once,
        too_many_requests,
    ],
    ids=lambda fault: fault.__name__.replace("_", " "),
)
async def test_jobs_before_and_after_a_fault_are_served(
    emulator: Emulator, fault: Callable[[Emulator, int], None]
) -> None:
    async with an_emulated_world(emulator, idle_target=3, max=3) as world:
        await world.until_done(world.queue(2))
        before = world.queue(3)
        fault(emulator, world.set_id)
        await world.until_done([*before, *world.queue(2)])
        (session,) = emulator.state()["sessions"]
        assert session["ownerName"] == "web-1"


async def test_a_set_that_is_deleted_is_made_again_and_served(emulator: Emulator) -> None:
    async with an_emulated_world(emulator, idle_target=3, max=3, min=1) as world:
        await world.until_done(world.queue(2))
        deleted = world.set_id
        await world.sets.delete(deleted)
        await world.until(lambda: world.set_id not in (0, deleted) and world.demand is not None, "it is made again")
        await world.until_done(world.queue(3))
        (made,) = emulator.state()["scaleSets"]
        assert made["id"] == world.set_id
