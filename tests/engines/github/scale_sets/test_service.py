"""The service of scale sets: how it is reached, with which tokens, and how often."""

import asyncio
import json

import httpx
import pytest

from bullpen.engines.github.client import AT_ONCE as TURNS
from bullpen.engines.github.scale_sets.service import AT_ONCE, TOO_FRESH
from bullpen.errors import PermissionDenied, Refused, Throttled, Unavailable
from bullpen.ports import ScaleSetSpec
from engines.github.scale_sets.scripted_service import TENANT, ScriptedService

SET = {"id": 17, "name": "bullpen-medium", "runnerGroupId": 1}
ONE = "GET */runnerscalesets/17"
REGISTERED = "POST */actions/runner-registration"


def with_a_set(**changes: float) -> ScriptedService:
    service = ScriptedService(**changes)
    service.on("GET */runnerscalesets/17", lambda _: httpx.Response(200, json=SET))
    return service


async def test_the_service_is_where_github_says_and_gets_its_token() -> None:
    service = with_a_set()
    await service.sets.find(17)
    registration, connection, call = service.requests
    assert registration.url == "https://api.github.com/repos/acme/widgets/actions/runners/registration-token"
    assert connection.headers["authorization"] == "RemoteAuth REG"
    assert json.loads(connection.content) == {"url": "https://github.com/acme/widgets", "runner_event": "register"}
    assert str(call.url) == f"{TENANT}_apis/runtime/runnerscalesets/17?api-version=6.0-preview"
    assert call.headers["authorization"].startswith("Bearer e30.")


async def test_one_token_serves_all_calls_until_five_minutes_before_its_end() -> None:
    service = with_a_set(lasts=3600.0)
    await asyncio.gather(*(service.sets.find(17) for _ in range(5)))
    await asyncio.sleep(3600 - 301 - 15 * 60)
    await service.sets.find(17)
    assert service.jwts == 1
    await asyncio.sleep(15 * 60 + 2)
    await service.sets.find(17)
    assert service.jwts == 2


async def test_a_token_that_claims_to_be_over_is_used_for_a_minute_all_the_same() -> None:
    service = with_a_set(lasts=0.0)
    for _ in range(5):
        await service.sets.find(17)
    assert service.jwts <= 2
    await service.client.aclose()


async def test_a_refused_token_is_replaced_once() -> None:
    service = with_a_set()
    service.once(ONE, httpx.Response(401))
    assert (await service.sets.find(17)) is not None
    assert service.jwts == 2
    service.on(ONE, lambda _: httpx.Response(401))
    with pytest.raises(PermissionDenied):
        await service.sets.find(17)
    assert service.jwts == 3


@pytest.mark.parametrize("call", [ONE, REGISTERED])
async def test_a_refused_token_of_githubs_own_names_the_credentials_that_a_user_can_check(call: str) -> None:
    service = with_a_set()
    service.on(call, lambda _: httpx.Response(401))
    with pytest.raises(PermissionDenied, match=r"refuses a token that it has made from github\.token") as caught:
        await service.sets.find(17)
    assert caught.value.remedy == "Check with `bullpen doctor` that github.token is accepted and was not revoked."


async def test_a_call_without_permission_names_the_credentials_that_a_user_can_change() -> None:
    service = with_a_set()
    service.on(ONE, lambda _: httpx.Response(403))
    with pytest.raises(PermissionDenied, match="Administration: write") as caught:
        await service.sets.find(17)
    assert caught.value.remedy == "Grant github.token that permission."


async def test_a_set_without_an_id_is_no_answer() -> None:
    service = ScriptedService()
    service.on(ONE, lambda _: httpx.Response(200, json={**SET, "id": 0}))
    with pytest.raises(Unavailable, match="cannot be read"):
        await service.sets.find(17)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_registration_token_that_github_does_not_know_yet_is_tried_again(status: int) -> None:
    service = with_a_set()
    service.once(REGISTERED, *[httpx.Response(status) for _ in range(TOO_FRESH - 1)])
    assert (await service.sets.find(17)) is not None
    assert len(service.asked(REGISTERED)) == TOO_FRESH


async def test_missing_permission_is_named() -> None:
    service = with_a_set()
    service.on(REGISTERED, lambda _: httpx.Response(403, json={"message": "Resource not accessible"}))
    with pytest.raises(PermissionDenied, match="Administration: write"):
        await service.sets.find(17)
    assert len(service.asked(REGISTERED)) == TOO_FRESH


async def test_a_strange_host_gets_no_token() -> None:
    service = with_a_set()
    service.tenant = "https://pipelines.actions.evil.test/abc/"
    with pytest.raises(Refused, match=r"evil\.test"):
        await service.sets.find(17)
    assert {one.url.host for one in service.requests} == {"api.github.com"}


async def test_no_redirect_carries_a_token_away() -> None:
    service = with_a_set()
    service.on(ONE, lambda _: httpx.Response(307, headers={"location": "https://evil.test/"}))
    with pytest.raises(Refused, match="moved"):
        await service.sets.find(17)
    assert "evil.test" not in {one.url.host for one in service.requests}


@pytest.mark.parametrize("status", [403, 429])
async def test_a_host_that_asks_for_a_pause_is_not_called_before_its_time(status: int) -> None:
    service = with_a_set()
    service.once(ONE, httpx.Response(status, headers={"retry-after": "30"}))
    for _ in range(2):
        with pytest.raises(Throttled) as caught:
            await service.sets.find(17)
        assert caught.value.retry_after == pytest.approx(30.0, abs=1.0)
    assert len(service.asked(ONE)) == 1
    await asyncio.sleep(31)
    assert (await service.sets.find(17)) is not None


async def test_a_read_without_an_answer_is_repeated_and_a_write_is_not() -> None:
    service = with_a_set()
    service.once(ONE, httpx.Response(503), httpx.Response(502))
    assert (await service.sets.find(17)) is not None
    service.on("POST */runnerscalesets", lambda _: httpx.Response(503))
    with pytest.raises(Unavailable):
        await service.sets.create(ScaleSetSpec("bullpen-medium"))
    assert len(service.asked("POST */runnerscalesets")) == 1


async def test_polls_leave_every_turn_to_other_calls() -> None:
    service = with_a_set()
    sessions = [await service.sets.open(17, "me") for _ in range(3)]
    answered = asyncio.Event()

    async def held(_: httpx.Request) -> httpx.Response:
        await answered.wait()
        return httpx.Response(202)

    service.on("GET */scalesets/message", held)
    many = max(TURNS, AT_ONCE) + 1
    polls = [asyncio.ensure_future(service.sets.poll(sessions[0], 0, 1)) for _ in range(many)]
    await asyncio.sleep(1)
    assert len(service.asked("GET */scalesets/message")) == many
    assert (await service.sets.find(17)) is not None
    assert await service.client.rate_limits() == []
    answered.set()
    assert await asyncio.gather(*polls) == [None] * many


async def test_registrations_are_made_a_few_at_a_time() -> None:
    service = with_a_set()
    at_work: list[int] = []
    most = 0

    async def made(_: httpx.Request) -> httpx.Response:
        nonlocal most
        at_work.append(1)
        most = max(most, len(at_work))
        await asyncio.sleep(0.1)
        at_work.pop()
        return httpx.Response(200, json={"runner": {"id": 1, "name": "r"}, "encodedJITConfig": "c"})

    service.on("POST */generatejitconfig", made)
    await asyncio.gather(*(service.sets.configure(17, f"r-{n}", "_work") for n in range(3 * AT_ONCE)))
    assert most == AT_ONCE


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"id": "x"}', b'{"count": 1, "value": 3}'])
async def test_an_answer_that_cannot_be_read_is_no_answer(content: bytes) -> None:
    service = ScriptedService()
    service.on("* */_apis/*", lambda _: httpx.Response(200, content=content))
    spec = ScaleSetSpec("bullpen-medium", group="special")
    sets = service.sets
    for call in (sets.find(1), sets.find_named("x"), sets.create(spec), sets.correct(1, spec), sets.open(1, "me")):
        with pytest.raises((Unavailable, Refused)) as caught:
            await call
        assert content.decode() not in str(caught.value) or not content
    for other in (sets.configure(1, "r", "_work"), sets.runner(1)):
        with pytest.raises(Unavailable):
            await other


async def test_a_name_that_github_would_refuse_is_refused_before_the_call() -> None:
    service = with_a_set()
    for name in ("", "r" * 65):
        with pytest.raises(Refused, match="1 to 64 characters"):
            await service.sets.configure(17, name, "_work")
    assert service.requests == []
