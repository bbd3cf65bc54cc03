"""How answers come: in pages, tagged, late, limited, wrong, or never."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from fakes.github.acting import RUNNERS, WIDGETS, caller
from fakes.github.hub import FakeGithub, JobSpec


def names(answer: httpx.Response) -> list[str]:
    return [runner["name"] for runner in answer.json()["runners"]]


def test_a_list_has_thirty_to_a_page_and_links_to_the_others(api: httpx.Client, github: FakeGithub) -> None:
    for number in range(70):
        github.add_runner("acme/widgets", f"r-{number:02}")
    seen, url, pages = [], RUNNERS, 0
    while url:
        answer = api.get(url)
        seen += names(answer)
        url, pages = answer.links.get("next", {}).get("url", ""), pages + 1
    assert seen == [f"r-{number:02}" for number in range(70)]
    assert pages == 3
    assert len(names(api.get(RUNNERS, params={"per_page": 100}))) == 70


def test_an_answer_that_the_caller_has_already_costs_nothing(api: httpx.Client, github: FakeGithub) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build")])
    path = f"{WIDGETS}/actions/runs/{run.id}"
    first = api.get(path)
    again = api.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
    github.hosted(run, "build")
    assert api.get(path, headers={"If-None-Match": first.headers["etag"]}).json()["status"] == "completed"


def test_a_lagging_list_shows_what_was_true_before(api: httpx.Client, github: FakeGithub) -> None:
    old = github.add_runner("acme/widgets", "old")
    run = github.start_run("acme/widgets", [JobSpec("build")])
    jobs = f"{WIDGETS}/actions/runs/{run.id}/attempts/1/jobs"
    github.lag = 5.0
    github.add_runner("acme/widgets", "new")
    github.delete_runner("old")
    github.hosted(run, "build")
    assert names(api.get(RUNNERS)) == ["old"]
    assert api.get(jobs).json()["jobs"][0]["status"] == "queued"
    assert api.get(f"{RUNNERS}/{old.id}").status_code == 404
    github.advance(6)
    assert names(api.get(RUNNERS)) == ["new"]
    assert api.get(jobs).json()["jobs"][0]["status"] == "completed"


def test_each_call_takes_as_long_as_the_way_to_github_and_back(api: httpx.Client, github: FakeGithub) -> None:
    github.latency = 0.2
    began = time.monotonic()
    assert api.get(RUNNERS).status_code == 200
    assert time.monotonic() - began >= 0.2


def test_calls_are_counted_down_and_refused_at_zero_until_the_reset(github: FakeGithub) -> None:
    token = github.token()
    github.rate_limit(token, remaining=1, resets_in=30)
    with caller(github, token) as api:
        assert api.get(RUNNERS).headers["x-ratelimit-remaining"] == "0"
        refused = api.get(RUNNERS)
        assert refused.status_code == 403
        assert refused.headers["x-ratelimit-remaining"] == "0"
        resets = datetime.fromtimestamp(int(refused.headers["x-ratelimit-reset"]), UTC)
        assert abs(resets - github.clock() - timedelta(seconds=30)) < timedelta(seconds=3)
        assert api.get("/rate_limit").json()["resources"]["core"]["remaining"] == 0
        github.advance(31)
        assert api.get(RUNNERS).headers["x-ratelimit-remaining"] == "4999"


def test_registering_has_a_limit_of_its_own(api: httpx.Client) -> None:
    before = api.get("/rate_limit").json()["resources"]
    answer = api.post(f"{RUNNERS}/registration-token")
    after = api.get("/rate_limit").json()["resources"]
    assert answer.headers["x-ratelimit-resource"] == "actions_runner_registration"
    assert after["core"]["remaining"] == before["core"]["remaining"]
    assert after["actions_runner_registration"]["remaining"] == 9999


def test_the_limits_of_two_callers_are_two(api: httpx.Client, github: FakeGithub) -> None:
    other = github.token()
    github.rate_limit(other, remaining=0)
    assert api.get(RUNNERS).status_code == 200


@pytest.mark.parametrize(("retry_after", "status"), [(7, 403), (7, 429), (0, 403)])
def test_a_secondary_limit_says_when_to_come_back_or_not(
    api: httpx.Client, github: FakeGithub, retry_after: int, status: int
) -> None:
    github.secondary_limit(retry_after=retry_after, times=1, status=status)
    refused = api.get(RUNNERS)
    assert refused.status_code == status
    assert refused.headers.get("retry-after") == (str(retry_after) if retry_after else None)
    assert int(refused.headers["x-ratelimit-remaining"]) > 0
    assert api.get(RUNNERS).status_code == 200


def test_a_failure_does_nothing_and_a_lost_answer_has_done_it(api: httpx.Client, github: FakeGithub) -> None:
    wanted = {"name": "r-1", "runner_group_id": 1, "labels": ["a"]}
    github.fail("POST */generate-jitconfig", 502)
    assert api.post(f"{RUNNERS}/generate-jitconfig", json=wanted).status_code == 502
    assert github.runners() == []
    github.lose_answer("POST */generate-jitconfig")
    with pytest.raises(httpx.RemoteProtocolError):
        api.post(f"{RUNNERS}/generate-jitconfig", json=wanted)
    assert [runner.name for runner in github.runners()] == ["r-1"]
    assert api.post(f"{RUNNERS}/generate-jitconfig", json=wanted).status_code == 409


def test_a_fault_lasts_until_it_is_healed(api: httpx.Client, github: FakeGithub) -> None:
    github.fail("GET *", 503, times=None)
    assert [api.get(RUNNERS).status_code for _ in range(3)] == [503, 503, 503]
    github.heal()
    assert api.get(RUNNERS).status_code == 200


def test_every_call_is_noted_with_its_query(api: httpx.Client, github: FakeGithub) -> None:
    api.get(RUNNERS, params={"per_page": 1})
    api.post(f"{RUNNERS}/remove-token")
    assert github.calls == [f"GET {RUNNERS}?per_page=1", f"POST {RUNNERS}/remove-token"]


def test_bad_json_is_said_to_be_bad(api: httpx.Client) -> None:
    assert api.post(f"{RUNNERS}/generate-jitconfig", content=b"{").status_code == 400


def test_a_clock_of_the_tests_own_rules_here(api: httpx.Client, github: FakeGithub) -> None:
    github.clock = lambda: datetime(2030, 1, 1, tzinfo=UTC)
    assert api.post(f"{RUNNERS}/registration-token").json()["expires_at"].startswith("2030-01-01T01:00:00")


@pytest.mark.real_loop
async def test_a_slow_call_delays_no_other_call(github: FakeGithub) -> None:
    github.slow("GET *page=1", 30)
    headers = {"Authorization": f"Bearer {github.token()}"}
    async with httpx.AsyncClient(base_url=github.api_url, headers=headers, trust_env=False) as api:
        slow = asyncio.create_task(api.get(f"{RUNNERS}?page=1"))
        await asyncio.to_thread(github.wait_for, lambda: github.calls)
        assert (await api.get(RUNNERS)).status_code == 200
        assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
