"""The client of GitHub: pages, tags, limits, repeats, and addresses."""

import asyncio

import httpx
import pytest

from bullpen.config import Github
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import AT_ONCE, PATIENCE, GithubClient, base_url
from bullpen.engines.github.permissions import runners
from bullpen.engines.system import SystemClock
from bullpen.errors import ConfigError, PermissionDenied, Refused, Throttled, Unavailable
from engines.github.places import a_hub, scripted
from fakes.github.hub import FakeGithub, JobSpec

RUNNERS = GithubCall("GET", "/repos/acme/widgets/actions/runners", runners("acme/widgets", "read"))
TOKEN = GithubCall("POST", "/repos/acme/widgets/actions/runners/registration-token", runners("acme/widgets"))


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        (Github(), "https://api.github.com"),
        (Github(url="https://github.com/"), "https://api.github.com"),
        (Github(url="https://www.github.com"), "https://api.github.com"),
        (Github(url="https://ghe.acme.test"), "https://ghe.acme.test/api/v3"),
        (Github(url="https://ghe.acme.test/"), "https://ghe.acme.test/api/v3"),
        (Github(url="https://acme.ghe.com"), "https://api.acme.ghe.com"),
        (Github(url="https://x.test", api_url="https://api.x.test/v3/"), "https://api.x.test/v3"),
        (Github(url="https://evilgithub.com"), "https://evilgithub.com/api/v3"),
    ],
)
def test_the_api_is_where_the_server_has_it(settings: Github, base: str) -> None:
    assert base_url(settings) == base


@pytest.mark.real_loop
async def test_an_enterprise_server_is_found_by_its_url(github: FakeGithub) -> None:
    async with a_hub(github, api_url="") as hub:
        assert (await hub.ask(RUNNERS)).status == 200


@pytest.mark.real_loop
async def test_lists_are_read_to_the_last_page(github: FakeGithub) -> None:
    for n in range(230):
        github.add_runner("acme/widgets", f"runner-{n}")
    async with a_hub(github) as hub:
        found = await hub.listed(RUNNERS, "runners")
    assert found is not None
    assert [one["name"] for one in found] == [f"runner-{n}" for n in range(230)]
    assert len(github.calls) == 3


async def test_the_next_page_is_asked_of_github_whatever_a_link_says() -> None:
    asked: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        link = {} if "after" in request.url.params else {"link": '<https://evil.test/steal?after=x>; rel="next"'}
        return httpx.Response(200, json=[{"id": len(asked)}], headers=link)

    assert await scripted(answer).listed(RUNNERS) == [{"id": 1}, {"id": 2}]
    assert [url.host for url in asked] == ["api.github.com"] * 2


async def test_what_moves_between_pages_is_listed_once() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        page = request.url.params.get("page", "1")
        link = {"link": f'<{request.url.copy_merge_params({"page": "2"})}>; rel="next"'} if page == "1" else {}
        return httpx.Response(200, json=[{"id": 1}] if page == "1" else [{"id": 1}, {"id": 2}], headers=link)

    assert await scripted(answer).listed(RUNNERS) == [{"id": 1}, {"id": 2}]


@pytest.mark.real_loop
async def test_what_has_not_changed_costs_nothing(github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build")])
    call = GithubCall("GET", f"/repos/acme/widgets/actions/runs/{run.id}")
    async with a_hub(github) as hub:
        first = await hub.ask(call, remembers=True)
        left = hub.limits["core"].remaining
        again = await hub.ask(call, remembers=True)
        assert (again.status, again.body) == (200, first.body)
        assert hub.limits["core"].remaining == left
        github.hosted(run, "build")
        assert (await hub.ask(call, remembers=True)).body["status"] == "completed"


@pytest.mark.real_loop
async def test_what_is_left_is_visible(github: FakeGithub) -> None:
    token = github.token()
    github.rate_limit(token, remaining=1234)
    async with a_hub(github, token=token) as hub:
        await hub.ask(RUNNERS)
        assert hub.limits["core"].remaining == 1233
        assert {one.resource: one.remaining for one in await hub.rate_limits()} == {
            "core": 1233,
            "actions_runner_registration": 10000,
        }


@pytest.mark.real_loop
@pytest.mark.parametrize("status", [403, 429])
async def test_a_short_limit_is_waited_out(github: FakeGithub, status: int) -> None:
    github.secondary_limit(retry_after=1, status=status)
    async with a_hub(github) as hub:
        assert (await hub.ask(TOKEN)).status == 201


@pytest.mark.real_loop
@pytest.mark.parametrize(("status", "retry_after", "wait"), [(403, 30, 30.0), (429, 45, 45.0), (429, 0, 60.0)])
async def test_a_long_limit_is_the_callers_to_decide(
    github: FakeGithub, status: int, retry_after: int, wait: float
) -> None:
    github.secondary_limit(retry_after=retry_after, status=status)
    async with a_hub(github) as hub:
        with pytest.raises(Throttled) as caught:
            await hub.ask(RUNNERS)
    assert caught.value.retry_after == pytest.approx(wait, abs=1.0)


@pytest.mark.real_loop
async def test_a_client_that_is_limited_makes_no_further_calls(github: FakeGithub) -> None:
    token = github.token()
    github.rate_limit(token, remaining=1, resets_in=600)
    async with a_hub(github, token=token) as hub:
        await hub.ask(RUNNERS)
        for _ in range(3):
            with pytest.raises(Throttled) as caught:
                await hub.ask(RUNNERS)
            assert 500 < caught.value.retry_after <= 601
        assert len(github.calls) == 1


async def test_a_limit_of_one_resource_leaves_the_others_open() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        registers = request.url.path.endswith("registration-token")
        headers = {
            "x-ratelimit-resource": "actions_runner_registration" if registers else "core",
            "x-ratelimit-remaining": "0" if registers else "100",
            "x-ratelimit-limit": "100",
            "x-ratelimit-reset": "99999999999",
        }
        return httpx.Response(200, json={}, headers=headers)

    hub = scripted(answer)
    await hub.ask(TOKEN)
    with pytest.raises(Throttled):
        await hub.ask(TOKEN)
    assert (await hub.ask(RUNNERS)).status == 200


async def test_no_more_than_so_many_calls_are_under_way_at_once() -> None:
    under_way, most = 0, 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1
        return httpx.Response(200, json={})

    hub = scripted(answer)
    await asyncio.gather(*(hub.ask(RUNNERS) for _ in range(30)))
    assert most == AT_ONCE


@pytest.mark.real_loop
async def test_a_read_without_an_answer_is_repeated(github: FakeGithub) -> None:
    github.lose_answer("GET */runners")
    github.fail("GET */runners", 502)
    async with a_hub(github) as hub:
        assert (await hub.ask(RUNNERS)).status == 200


@pytest.mark.real_loop
async def test_an_app_that_is_limited_while_it_buys_its_token_is_throttled(github: FakeGithub) -> None:
    app_id, key = github.app()
    github.secondary_limit(retry_after=30)
    async with a_hub(github, app_id=app_id, private_key=key) as hub:
        for _ in range(2):
            with pytest.raises(Throttled):
                await hub.ask(RUNNERS)
    assert len(github.calls) == 1


@pytest.mark.real_loop
async def test_what_writes_is_never_repeated(github: FakeGithub) -> None:
    github.lose_answer("POST */registration-token")
    async with a_hub(github) as hub:
        with pytest.raises(Unavailable, match="registration-token"):
            await hub.ask(TOKEN)
    assert len(github.calls) == 1


async def test_a_server_that_stays_away_is_given_up_within_patience() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(Unavailable, match=r"GitHub GET /repos/acme/widgets/actions/runners: no route to host"):
        await scripted(answer).ask(RUNNERS)
    assert 1.0 < loop.time() - begun <= PATIENCE


async def test_an_answer_that_cannot_be_parsed_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="the answer cannot be read"):
        await scripted(lambda request: httpx.Response(200, text="<html>")).ask(TOKEN)


async def test_the_page_of_a_proxy_is_judged_by_its_status() -> None:
    with pytest.raises(Refused, match=r"no message \(404\)"):
        await scripted(lambda request: httpx.Response(404, text="<html>")).ask(TOKEN)


async def test_a_redirect_is_not_followed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "api.github.com"
        return httpx.Response(301, json={"message": "Moved"}, headers={"location": "https://evil.test/"})

    with pytest.raises(Refused, match="it was renamed"):
        await scripted(answer).ask(RUNNERS)


async def test_every_call_says_what_github_wants_to_know() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=dict(request.headers))

    sent = (await scripted(answer).ask(RUNNERS)).body
    assert sent["accept"] == "application/vnd.github+json"
    assert sent["x-github-api-version"] == "2022-11-28"
    assert sent["user-agent"] == "bullpen"
    assert sent["authorization"] == "Bearer t0ken"


@pytest.mark.real_loop
async def test_a_missing_permission_is_named_with_the_call(github: FakeGithub) -> None:
    token = github.token(permissions={"administration": "read", "metadata": "read"})
    async with a_hub(github, token=token) as hub:
        with pytest.raises(PermissionDenied) as caught:
            await hub.ask(TOKEN)
    assert "GitHub POST /repos/acme/widgets/actions/runners/registration-token" in str(caught.value)
    assert 'repository permission "Administration: write"' in str(caught.value)


@pytest.mark.real_loop
@pytest.mark.parametrize("scope", ["acme/gadgets", "nobody", "other/widgets"])
async def test_a_wrong_scope_is_said_to_be_missing(github: FakeGithub, scope: str) -> None:
    async with a_hub(github, scope=scope) as hub:
        with pytest.raises(Refused, match=rf"{scope}/actions/runners.*does not exist, or github.token may not see it"):
            await hub.ask(GithubCall("GET", f"{hub.scope_path}/actions/runners"))


def test_a_proxy_that_cannot_be_used_is_said_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://me:s3cret@proxy.test")
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        asyncio.run(GithubClient(Github(scope="acme", token="t0ken"), SystemClock()).ask(RUNNERS))
    assert "s3cret" not in str(caught.value)
