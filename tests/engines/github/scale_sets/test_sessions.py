"""Message sessions: tokens are renewed in time, and what has ended says so."""

import asyncio

import httpx
import pytest

from bullpen.engines.github.scale_sets.sessions import USUAL
from bullpen.errors import Conflict, NotFound, Refused, SessionGone, Throttled, Unavailable, UnreadableMessage
from bullpen.ports import MessageSession
from engines.github.scale_sets.scripted_service import ScriptedService

POLLS = "GET */scalesets/message"
RENEWALS = "PATCH */sessions/*"
EXPIRED = {"typeName": "GitHub.Actions.Runtime.WebApi.RunnerScaleSetSessionExpiredException", "message": "expired"}


async def opened(**changes: float) -> tuple[ScriptedService, MessageSession]:
    service = ScriptedService(**changes)
    return service, await service.sets.open(17, "me")


def token_of(request: httpx.Request) -> str:
    return request.headers["authorization"].removeprefix("Bearer ")


async def test_a_poll_names_capacity_and_the_last_message() -> None:
    service, session = await opened()
    service.queue += "?region=eu%2F1"
    session = await service.sets.renew(session)
    assert await service.sets.poll(session, 0, 20) is None
    assert await service.sets.poll(session, 41, 0) is None
    first, second = service.asked(POLLS)
    assert first.url.query == b"region=eu%2F1"
    assert second.url.query == b"region=eu%2F1&lastMessageId=41"
    assert [one.headers["x-scalesetmaxcapacity"] for one in (first, second)] == ["20", "0"]
    assert first.headers["accept"] == "application/json; api-version=6.0-preview"
    await service.sets.acknowledge(session, 41)
    (acknowledged,) = service.asked("DELETE */message/41")
    assert (acknowledged.url.query, token_of(acknowledged)) == (b"region=eu%2F1", session.token)


@pytest.mark.parametrize("answer", [httpx.Response(202), httpx.Response(204), httpx.Response(200, content=b" \n")])
async def test_an_answer_without_content_is_no_message(answer: httpx.Response) -> None:
    service, session = await opened()
    service.once(POLLS, answer)
    assert await service.sets.poll(session, 0, 1) is None


async def test_a_poll_outlasts_the_service_and_ends() -> None:
    service, session = await opened()

    async def held(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(58)
        return httpx.Response(202)

    service.on(POLLS, held)
    assert await service.sets.poll(session, 0, 1) is None

    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(10_000)
        return httpx.Response(202)

    service.on(POLLS, silent)
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable):
        await service.sets.poll(session, 0, 1)
    assert asyncio.get_running_loop().time() - began <= 65


async def test_an_unreadable_message_says_so() -> None:
    service, session = await opened()
    service.once(POLLS, httpx.Response(200, content=b"{}"))
    with pytest.raises(UnreadableMessage):
        await service.sets.poll(session, 0, 1)


async def test_the_token_of_the_queue_is_renewed_five_minutes_before_its_end() -> None:
    service, session = await opened(queue_lasts=3000.0)
    await asyncio.sleep(3000 - 302)
    await service.sets.poll(session, 0, 1)
    assert service.asked(RENEWALS) == []
    await asyncio.sleep(3)
    await service.sets.poll(session, 0, 1)
    await service.sets.poll(session, 0, 1)
    assert len(service.asked(RENEWALS)) == 1
    assert len({token_of(one) for one in service.asked(POLLS)}) == 2


async def test_a_token_that_does_not_say_when_it_ends_is_renewed_in_time() -> None:
    service = ScriptedService()
    service.on("POST */sessions", lambda _: service.session(messageQueueAccessToken="opaque"))
    session = await service.sets.open(17, "me")
    await asyncio.sleep(USUAL - 299)
    await service.sets.poll(session, 0, 1)
    assert len(service.asked(RENEWALS)) == 1


async def test_a_renewal_that_fails_in_time_does_not_cost_the_poll() -> None:
    service, session = await opened(queue_lasts=3000.0)
    service.on(RENEWALS, lambda _: httpx.Response(503))
    await asyncio.sleep(2800)
    assert await service.sets.poll(session, 0, 1) is None


async def test_a_refused_token_is_renewed_once_for_all_that_wait() -> None:
    service, session = await opened()

    def accepting_the_newest(request: httpx.Request) -> httpx.Response:
        fresh = f".{token_of(request).split('.')[1]}." != f".{session.token.split('.')[1]}."
        return httpx.Response(202 if fresh else 401)

    service.on(POLLS, accepting_the_newest)
    polls = [service.sets.poll(session, 0, 1) for _ in range(3)]
    assert await asyncio.gather(*polls) == [None] * 3
    assert len(service.asked(RENEWALS)) == 1


async def test_a_session_whose_fresh_token_is_refused_has_ended() -> None:
    service, session = await opened()
    service.on(POLLS, lambda _: httpx.Response(401))
    with pytest.raises(SessionGone):
        await service.sets.poll(session, 0, 1)
    assert len(service.asked(RENEWALS)) == 1


@pytest.mark.parametrize("answer", [(404, {}), (400, EXPIRED), (410, {})])
async def test_the_end_of_a_session_is_told_from_other_errors(answer: tuple[int, dict[str, str]]) -> None:
    status, body = answer
    service, session = await opened()
    gone = httpx.Response(status, json=body)
    service.on(POLLS, lambda _: gone)
    service.on(RENEWALS, lambda _: gone)
    service.on("POST */acquirejobs", lambda _: gone)
    service.on("DELETE *", lambda _: gone)
    for call in (service.sets.poll(session, 0, 1), service.sets.renew(session), service.sets.acquire(session, [1])):
        with pytest.raises(SessionGone, match="scale set 17: its session has ended"):
            await call
    await service.sets.acknowledge(session, 1)
    await service.sets.close(17, session.id)


async def test_a_refused_poll_is_not_taken_for_the_end_of_the_session() -> None:
    service, session = await opened()
    for status in (400, 418):
        service.once(POLLS, httpx.Response(status, json={"typeName": "X.Y", "message": "no"}))
        with pytest.raises(Refused, match="no"):
            await service.sets.poll(session, 0, 1)
    service.once(POLLS, httpx.Response(503))
    with pytest.raises(Unavailable):
        await service.sets.poll(session, 0, 1)
    service.once(POLLS, httpx.Response(429, headers={"retry-after": "7"}))
    with pytest.raises(Throttled):
        await service.sets.poll(session, 0, 1)


async def test_what_keeps_a_session_from_opening_is_told_apart() -> None:
    service = ScriptedService()
    service.once("POST */sessions", httpx.Response(409), httpx.Response(404))
    with pytest.raises(Conflict, match="another session is open"):
        await service.sets.open(17, "me")
    with pytest.raises(NotFound, match="scale set 17 does not exist"):
        await service.sets.open(17, "me")


@pytest.mark.parametrize("missing", ["messageQueueUrl", "messageQueueAccessToken"])
async def test_a_session_without_a_queue_is_closed_again(missing: str) -> None:
    service = ScriptedService()
    service.on("POST */sessions", lambda _: service.session(**{missing: None}))
    with pytest.raises(Unavailable, match="without a message queue"):
        await service.sets.open(17, "me")
    assert len(service.asked("DELETE */runnerscalesets/17/sessions/s-1")) == 1


async def test_a_renewed_session_without_an_address_keeps_the_old_one() -> None:
    service, session = await opened()
    service.on(RENEWALS, lambda _: service.session(messageQueueUrl=None))
    assert (await service.sets.renew(session)).queue == session.queue


async def test_the_queue_of_a_strange_host_gets_no_token() -> None:
    service = ScriptedService()
    service.queue = "https://broker.actions.evil.test/message"
    session = await service.sets.open(17, "me")
    for call in (service.sets.poll(session, 0, 1), service.sets.acknowledge(session, 1)):
        with pytest.raises(Refused, match=r"evil\.test"):
            await call
    assert "broker.actions.evil.test" not in {one.url.host for one in service.requests}


async def test_nothing_is_asked_to_acquire_nothing() -> None:
    service, session = await opened()
    asked = len(service.requests)
    assert await service.sets.acquire(session, []) == []
    assert len(service.requests) == asked


async def test_the_id_of_a_session_cannot_lead_elsewhere() -> None:
    service = ScriptedService()
    await service.sets.close(17, "../../18?x=")
    (closed,) = [one for one in service.requests if one.method == "DELETE"]
    assert closed.url.raw_path.startswith(b"/abc/_apis/runtime/runnerscalesets/17/sessions/..%2F..%2F18%3Fx%3D?")


async def test_a_message_that_is_gone_already_costs_no_token() -> None:
    service, session = await opened(queue_lasts=3000.0)
    await asyncio.sleep(2800)
    await service.sets.poll(session, 0, 1)  # renews
    service.on("DELETE */message/*", lambda _: httpx.Response(404))
    await service.sets.acknowledge(session, 1)
    await service.sets.poll(session, 1, 1)
    assert len(service.asked(RENEWALS)) == 1
    first, second = (token_of(one) for one in service.asked(POLLS))
    assert first == second


@pytest.mark.parametrize("token", ["SECRET\n", "SECRET é", "a b"])
async def test_a_token_that_no_header_can_have_is_refused_and_not_shown(token: str) -> None:
    service = ScriptedService()
    service.on("POST */sessions", lambda _: service.session(messageQueueAccessToken=token))
    with pytest.raises(Unavailable) as refused:
        await service.sets.open(17, "me")
    assert "SECRET" not in f"{refused.value}{refused.value.__cause__}"
