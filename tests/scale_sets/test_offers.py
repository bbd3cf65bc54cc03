"""A set acquires the jobs that are offered to it while it is ready, and no more than it can serve."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from bullpen.errors import BullpenError, PermissionDenied, Refused, SessionGone, Unavailable
from bullpen.model.scale_set import READY, RETIRING, State
from bullpen.ports import JobMessage, JobMessageKind, SetMessage, SetStatistics
from bullpen.scale_sets.listener import LONGEST_BACKOFF, SetListener
from bullpen.scale_sets.offers import COUNTED_AFTER, MOST_CALLS, MOST_OPEN, MOST_REFUSED, JobOffers
from scale_sets.fixtures import SET, a_set_world, session, settings_of
from scale_sets.test_listener import Spy, taken
from set_builders import a_ready_set, rules

MAX = 3
AVAILABLE, ASSIGNED, COMPLETED, UNKNOWN = (
    JobMessageKind.AVAILABLE,
    JobMessageKind.ASSIGNED,
    JobMessageKind.COMPLETED,
    JobMessageKind.UNKNOWN,
)


def offered(*requests: int, kind: JobMessageKind = AVAILABLE) -> tuple[JobMessage, ...]:
    return tuple(JobMessage(kind, job_id=f"job-{one}", request=one) for one in requests)


def affordable(offers: JobOffers, assigned: int = 0, acquired: int = 0, time: float = 0.0, max: int = MAX) -> list[int]:
    return offers.affordable(a_ready_set(rules=rules(max=max)), SetStatistics(assigned, 0, acquired=acquired), time)


@pytest.mark.parametrize(
    ("assigned", "acquired", "requests"),
    [(0, 0, [1, 2, 3]), (2, 0, [1]), (0, 2, [1]), (2, 2, [1]), (3, 3, []), (9, 0, [])],
)
def test_the_oldest_offers_are_acquired_as_far_as_max_allows(assigned: int, acquired: int, requests: list[int]) -> None:
    offers = JobOffers()
    offers.hear(offered(1, 2, 3, 4, 5))
    assert affordable(offers, assigned, acquired) == requests


def test_an_offer_is_asked_for_once_however_often_its_message_comes() -> None:
    offers = JobOffers()
    for _ in range(2):
        offers.hear(offered(1, 2))
    assert affordable(offers) == [1, 2]
    offers.close([1], [], 0.0)
    assert affordable(offers) == [2]


@pytest.mark.parametrize(("kind", "left"), [(ASSIGNED, []), (COMPLETED, []), (UNKNOWN, [7])])
def test_a_job_that_was_assigned_or_cancelled_is_on_offer_no_more(kind: JobMessageKind, left: list[int]) -> None:
    offers = JobOffers()
    offers.hear(offered(7))
    offers.hear(offered(7, kind=kind))
    assert affordable(offers) == left


def test_what_was_acquired_takes_up_room_until_the_counts_include_it() -> None:
    offers = JobOffers()
    offers.hear(offered(1, 2, 3, 4))
    offers.close([1, 2], [1, 2], 10.0)
    assert affordable(offers, time=10.0) == [3]
    offers.hear(offered(1, kind=ASSIGNED))
    assert affordable(offers, assigned=1, time=11.0) == [3]
    assert affordable(offers, assigned=1, time=10.0 + COUNTED_AFTER) == [3, 4]


def test_an_offer_whose_message_comes_again_keeps_its_place_once_it_is_acquired() -> None:
    """Its message comes again if the record could not be written."""
    offers = JobOffers()
    offers.hear(offered(1, 2))
    offers.close([1], [1], 0.0)
    offers.hear(offered(1, 2))
    assert affordable(offers, max=1) == []
    assert affordable(offers, max=3) == [2]


def test_after_a_failure_offers_are_asked_for_one_by_one_and_then_for_twice_as_many_each_time() -> None:
    offers = JobOffers()
    offers.hear(offered(*range(1, 10)))
    offers.put_back([1, 2, 3])
    asked = []
    while requests := affordable(offers, max=9):
        offers.close(requests, [], 0.0)
        asked.append(requests)
    assert asked == [[4], [5, 6], [7, 8, 9, 1], [2, 3]]


def test_of_a_great_many_offers_the_oldest_are_forgotten() -> None:
    offers = JobOffers()
    offers.hear(offered(*range(1, MOST_OPEN + 6)))
    assert affordable(offers, max=2 * MOST_OPEN) == list(range(6, MOST_OPEN + 6))


# ---- by the listener


class OfferingService:
    """Messages as an Enterprise Server sends them, and what was acquired."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[SetMessage] = asyncio.Queue()
        self.acquired: list[int] = []
        self.taken: set[int] = set()  # by other sets
        self.refusals = 0  # of the next calls
        self.poison: set[int] = set()  # the server refuses a call that asks for one of these
        self.failure: Exception | None = None  # of every call
        self.calls = 0
        self.counts = SetStatistics(0, 0)
        self._ids = iter(range(1, 100))

    def send(self, *jobs: JobMessage, assigned: int) -> None:
        self.counts = SetStatistics(assigned, 0)
        self.messages.put_nowait(SetMessage(next(self._ids), self.counts, jobs))

    async def poll(self, *_: Any) -> SetMessage | None:
        try:
            async with asyncio.timeout(50):
                return await self.messages.get()
        except TimeoutError:
            return None

    async def acquire(self, _: Any, requests: list[int]) -> list[int]:
        self.calls += 1
        if self.refusals:
            self.refusals -= 1
            raise PermissionDenied("403")
        if self.failure is not None:
            raise self.failure
        if self.poison & set(requests):
            raise Refused("400: no such job")
        got = [one for one in requests if one not in self.taken]
        self.acquired += got
        return got


@asynccontextmanager
async def listening(state: State) -> AsyncIterator[tuple[OfferingService, SetListener, Any]]:
    async with a_set_world(settings_of(max=MAX)) as world:
        service, ports = OfferingService(), world.ports()
        inner = ports.scale_sets

        async def find(id: int) -> Any:
            found = await inner.find(id)
            assert found is not None
            return replace(found, statistics=service.counts)

        calls = {"poll": service.poll, "acquire": service.acquire, "find": find}
        ports = replace(ports, scale_sets=Spy(inner, **calls))
        stored = replace((await ports.records.scale_sets())[SET], state=state)
        listener = SetListener(ports, stored, await taken(ports), lambda: None)
        task = asyncio.create_task(listener.run())
        yield service, listener, world
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_retiring_set_acquires_no_job_and_reads_on() -> None:
    async with listening(RETIRING) as (service, _, world):
        service.send(*offered(1, 2), assigned=0)
        await asyncio.sleep(2)
        assert service.acquired == []
        assert session(world).message == 1


async def test_a_set_that_is_revived_acquires_what_was_offered_meanwhile() -> None:
    async with listening(RETIRING) as (service, listener, _):
        service.send(*offered(1, 2), assigned=0)
        await asyncio.sleep(2)
        listener.scale_set = replace(listener.scale_set, state=READY)
        await asyncio.sleep(130)
        assert service.acquired == [1, 2]


async def test_what_a_set_cannot_serve_yet_is_acquired_once_a_job_has_ended() -> None:
    async with listening(READY) as (service, _, world):
        service.send(*offered(1, 2, 3, 4, 5), assigned=0)
        await asyncio.sleep(2)
        assert service.acquired == [1, 2, 3]
        service.send(*offered(1, 2, 3, kind=ASSIGNED), assigned=3)
        await asyncio.sleep(2)
        assert service.acquired == [1, 2, 3]
        service.send(*offered(2, kind=COMPLETED), assigned=2)
        await asyncio.sleep(2)
        assert (service.acquired, session(world).offered) == ([1, 2, 3, 4], (5,))


async def test_offers_whose_acquisition_was_refused_are_acquired_later(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(READY) as (service, _, world):
        service.refusals = 3
        service.send(*offered(1, 2), assigned=0)
        await asyncio.sleep(2)
        assert (service.acquired, session(world).message) == ([], 1)
        await asyncio.sleep(400)
        assert service.acquired == [1, 2]
        lines = [one.levelno for one in caplog.records if "cannot be acquired" in one.getMessage()]
        assert lines.count(logging.ERROR) == 1


async def test_offers_that_other_sets_have_acquired_keep_no_job_waiting() -> None:
    async with listening(READY) as (service, _, _world):
        service.taken = set(range(1, 31))
        service.send(*offered(*range(1, 31)), assigned=MAX)
        await asyncio.sleep(2)
        service.send(*offered(31), assigned=0)
        await asyncio.sleep(2)
        assert service.acquired == [31]


async def test_a_great_many_offers_that_other_sets_have_acquired_do_not_hold_a_message_up() -> None:
    async with listening(READY) as (service, _, world):
        service.taken = set(range(1, MOST_OPEN))
        service.send(*offered(*service.taken), assigned=0)
        await asyncio.sleep(2)
        assert (service.calls, session(world).message) == (MOST_CALLS, 1)
        await asyncio.sleep(120)
        assert service.calls > MOST_CALLS


async def test_the_offers_of_two_quick_messages_are_acquired_no_further_than_max() -> None:
    async with listening(READY) as (service, _, _world):
        service.send(*offered(1, 2), assigned=0)
        service.send(*offered(3, 4), assigned=0)  # counted before the first were acquired
        await asyncio.sleep(2)
        assert service.acquired == [1, 2, 3]


@pytest.mark.parametrize(("poison", "offers"), [({1}, 5), ({3}, 5), ({1, 2}, 5), ({1}, 3), ({2}, 3), ({3}, 3)])
async def test_an_offer_that_the_server_refuses_keeps_no_other_one_waiting(poison: set[int], offers: int) -> None:
    async with listening(READY) as (service, _, _world):
        service.poison = poison
        service.send(*offered(*range(1, offers + 1)), assigned=0)
        await asyncio.sleep(2)
        assert len(service.acquired) == min(MAX, offers - len(poison))


async def test_an_offer_that_the_server_refuses_is_asked_for_once_with_each_count() -> None:
    async with listening(READY) as (service, _, _world):
        service.poison = {1}
        service.send(*offered(1), assigned=0)
        await asyncio.sleep(2)
        before = service.calls
        service.send(assigned=0)
        await asyncio.sleep(2)
        assert service.calls == before + 1


@pytest.mark.parametrize("failure", [Unavailable("500"), SessionGone("404: no such path")])
async def test_offers_that_cannot_be_acquired_hold_no_message_up(
    failure: BullpenError, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(READY) as (service, listener, world):
        service.failure = failure
        service.send(*offered(1), *offered(2, 3, kind=ASSIGNED), assigned=2)
        await asyncio.sleep(2)
        demand = listener.current()
        assert demand is not None
        assert (demand.assigned, session(world).message, session(world).why) == (2, 1, "")
        await asyncio.sleep(600)
        assert [one.levelno for one in caplog.records if "cannot be acquired" in one.getMessage()] == [logging.ERROR]
        service.failure = None
        await asyncio.sleep(120)
        assert service.acquired == [1]


async def test_a_server_that_does_not_answer_is_not_asked_with_each_message() -> None:
    async with listening(READY) as (service, _, _world):
        service.failure = Unavailable("it does not answer")
        service.send(*offered(1, 2, 3), assigned=0)
        for _ in range(10):
            service.send(assigned=0)
        await asyncio.sleep(LONGEST_BACKOFF - 1)
        assert service.calls == 1


async def test_a_server_that_refuses_every_call_holds_no_message_up_and_is_asked_again_later() -> None:
    async with listening(READY) as (service, _, world):
        service.failure = PermissionDenied("403")
        service.send(*offered(*range(1, MOST_OPEN + 1)), assigned=0)
        for _ in range(10):
            service.send(assigned=0)
        await asyncio.sleep(LONGEST_BACKOFF - 1)
        assert (service.calls, session(world).message) == (1 + MOST_REFUSED, 11)
        service.failure = None
        await asyncio.sleep(120)
        assert len(service.acquired) == MAX


async def test_offers_behind_many_that_the_server_refuses_are_acquired_later() -> None:
    async with listening(READY) as (service, _, _world):
        service.poison = set(range(1, 6))
        service.send(*offered(*range(1, 9)), assigned=0)
        await asyncio.sleep(400)
        assert sorted(service.acquired) == [6, 7, 8]


async def test_the_next_holder_acquires_what_the_one_before_had_no_room_for() -> None:
    async with listening(READY) as (service, listener, world):
        service.send(*offered(1, 2, 3, 4, 5), assigned=0)
        await asyncio.sleep(2)
        assert (service.acquired, session(world).offered) == ([1, 2, 3], (4, 5))
        again = SetListener(listener._ports, listener.scale_set, listener.record, lambda: None)
        task = asyncio.create_task(again.run())  # its session has the counts of now: no job is left
        await asyncio.sleep(2)
        assert service.acquired == [1, 2, 3, 4, 5]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
