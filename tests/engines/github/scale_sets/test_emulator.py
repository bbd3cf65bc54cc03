"""The engine on an emulator of the service that is not ours, which fails as told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bullpen.config import Github
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.system import SystemClock
from bullpen.errors import PermissionDenied, Throttled, Unavailable
from bullpen.ports import MessageSession, Removal, ScaleSetSpec
from fakes.scale_sets.emulator import Emulator

pytestmark = pytest.mark.real_loop


@asynccontextmanager
async def sets_on(emulator: Emulator, token: str = "") -> AsyncIterator[GithubScaleSets]:
    client = GithubClient(Github(scope="acme", url=emulator.url, token=token or emulator.token), SystemClock())
    try:
        yield GithubScaleSets(client, SystemClock())
    finally:
        await client.aclose()


async def opened(sets: GithubScaleSets) -> tuple[int, MessageSession]:
    made = await sets.create(ScaleSetSpec("medium"))
    return made.id, await sets.open(made.id, "me")


async def test_an_error_of_the_server_costs_a_poll_and_no_message(emulator: Emulator) -> None:
    async with sets_on(emulator) as sets:
        set_id, session = await opened(sets)
        emulator.queue(set_id, "medium")
        emulator.fail("getMessage", 503)
        with pytest.raises(Unavailable):
            await sets.poll(session, 0, 10)
        message = await sets.poll(session, 0, 10)
        assert message is not None
        emulator.fail("deleteMessage", 503)
        with pytest.raises(Unavailable):
            await sets.acknowledge(session, message.id)
        assert await sets.poll(session, 0, 10) == message


async def test_what_does_no_harm_twice_is_repeated(emulator: Emulator) -> None:
    async with sets_on(emulator) as sets:
        set_id, session = await opened(sets)
        emulator.fail("scaleSets", 503)
        assert await sets.find(set_id) is not None
        emulator.fail("sessions", 503)
        assert (await sets.renew(session)).id == session.id
        made = await sets.configure(set_id, "r-1", "_work")
        emulator.fail("runners", 502, times=2)
        assert await sets.remove_runner(made.runner.id) is Removal.REMOVED


async def test_a_registration_without_an_answer_is_not_made_twice(emulator: Emulator) -> None:
    async with sets_on(emulator) as sets:
        set_id, _ = await opened(sets)
        emulator.fail("generateJitConfig", 503)
        with pytest.raises(Unavailable):
            await sets.configure(set_id, "r-1", "_work")
        assert emulator.state()["runners"] == []


@pytest.mark.parametrize("status", [403, 429])
async def test_a_pause_that_the_service_asks_for_is_kept(emulator: Emulator, status: int) -> None:
    async with sets_on(emulator) as sets:
        set_id, session = await opened(sets)
        emulator.fail("getMessage", status, retry_after=300)
        for call in (sets.poll(session, 0, 10), sets.poll(session, 0, 10), sets.find(set_id)):
            with pytest.raises(Throttled) as caught:
                await call
            assert 0 < caught.value.retry_after <= 300


async def test_a_token_that_is_refused_in_a_poll_is_renewed_in_the_same_poll(emulator: Emulator) -> None:
    async with sets_on(emulator) as sets:
        set_id, session = await opened(sets)
        poll = asyncio.ensure_future(sets.poll(session, 0, 10))
        emulator.end_queue_token(set_id)
        emulator.queue(set_id, "medium")
        message = await poll or await sets.poll(session, 0, 10)
        assert message is not None


async def test_wrong_credentials_are_told(emulator: Emulator) -> None:
    async with sets_on(emulator, token="wrong") as sets:
        with pytest.raises(PermissionDenied, match=r"github\.token"):
            await sets.create(ScaleSetSpec("medium"))
