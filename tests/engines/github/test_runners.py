"""GitHub's runners as the CI: which instances get a pass, and which runners are removed and listed."""

import asyncio
import base64
import json
from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest

from builders import claimed, cleaning, on_offer, open_provision, registered, running
from bullpen.config import Engines, Github, Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.naming import instance_of, runner_name
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.memory import Memory
from bullpen.engines.system import SystemClock
from bullpen.errors import PermissionDenied, Refused
from bullpen.model.instance import Instance
from bullpen.model.transition import Change
from bullpen.ports import Ports, Registration, Removal
from engines.github.places import ClockAhead, a_ci, scripted
from fakes.github.hub import FakeGithub, JobSpec

pytestmark = pytest.mark.real_loop


async def landed(ports: Ports, walk: Sequence[Change[Instance]]) -> Instance:
    await ports.records.apply(open_provision())
    for change in walk:
        await ports.records.apply(change)
    return walk[-1].after


def asked(github: FakeGithub, end: str) -> int:
    return sum(call.partition("?")[0].endswith(end) for call in github.calls)


async def test_an_instance_that_must_register_is_given_a_pass(github: FakeGithub) -> None:
    github.release("2.336.0", days_ago=40)
    async with a_ci(github) as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        await ci.refusals(["2.336.0"])  # asks for the releases
        given = await ci.register("i-1", "4711", one.round)
    assert given is not None
    assert instance_of("bullpen", given.runner) == "i-1"
    assert given.runner.startswith(f"bullpen.i-1.{one.round[:8]}.")
    assert (given.label, given.url, given.group) == ("4711", f"{github.url}/acme/widgets", "")
    assert given.token
    assert (given.jit, given.removal, given.oldest) == ("", "", "2.336.0")


@pytest.mark.parametrize("registration", ["persistent", "jit"])
async def test_only_the_instance_of_the_run_in_its_round_is_given_a_pass(github: FakeGithub, registration: str) -> None:
    async with a_ci(github, registration=registration) as (ci, ports):
        one = await landed(ports, running(run_id="4711"))
        assert await ci.register("i-2", "4711", one.round) is None
        assert await ci.register("i-1", "4712", one.round) is None
        assert await ci.register("i-1", "4711", "another") is None
    assert github.calls == []


@pytest.mark.parametrize("walk", [cleaning(run_id="4711"), on_offer()])
async def test_an_instance_without_a_run_is_given_none(github: FakeGithub, walk: Sequence[Change[Instance]]) -> None:
    async with a_ci(github) as (ci, ports):
        one = await landed(ports, walk)
        assert await ci.register("i-1", one.run_id, one.round) is None


async def test_every_registration_has_a_name_of_its_own(github: FakeGithub) -> None:
    clock = ClockAhead()
    async with a_ci(github, clock) as (ci, ports):
        one = await landed(ports, registered(run_id="4711"))
        first = await ci.register("i-1", "4711", one.round)
        clock.ahead = timedelta(seconds=2)
        second = await ci.register("i-1", "4711", one.round)
    assert first is not None
    assert second is not None
    assert first.runner != second.runner


async def test_many_agents_share_one_token_until_shortly_before_its_end(github: FakeGithub) -> None:
    clock = ClockAhead()
    async with a_ci(github, clock) as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        given = await asyncio.gather(*(ci.register("i-1", "4711", one.round) for _ in range(10)))
        assert len({one.token for one in given if one is not None}) == 1
        clock.ahead = timedelta(minutes=54)
        await ci.register("i-1", "4711", one.round)
        assert asked(github, "/registration-token") == 1
        clock.ahead = timedelta(minutes=56)
        await ci.register("i-1", "4711", one.round)
        assert asked(github, "/registration-token") == 2


async def test_a_pass_for_one_job_is_a_runner_with_the_runs_label_and_no_other(github: FakeGithub) -> None:
    async with a_ci(github, registration="jit") as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        given = await ci.register("i-1", "4711", one.round)
    assert given is not None
    assert (given.token, given.removal) == ("", "")
    made = github.runner(given.runner)
    assert (made.labels, made.ephemeral) == (("4711",), True)
    assert json.loads(base64.b64decode(given.jit))["id"] == made.id


async def test_a_name_that_is_taken_is_changed(github: FakeGithub) -> None:
    async with a_ci(github, registration="jit") as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        given = await asyncio.gather(*(ci.register("i-1", "4711", one.round) for _ in range(3)))
    assert len({one.runner for one in given if one is not None}) == 3


@pytest.mark.parametrize(("others", "told"), [(["self-hosted", "4711"], "self-hosted, 4711"), ([], "none")])
async def test_a_runner_that_was_given_other_labels_is_removed_again(others: list[str], told: str) -> None:
    removed: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            removed.append(request.url.path)
            return httpx.Response(204)
        labels = [{"name": name, "type": "custom"} for name in others]
        runner = {"id": 7, "name": "x", "os": "linux", "status": "offline", "busy": False, "labels": labels}
        return httpx.Response(201, json={"runner": runner, "encoded_jit_config": "c2VjcmV0"})

    settings = Settings(engines=Engines(ci="github"), github=Github(scope="acme", token="t", registration="jit"))
    clock, ports = SystemClock(), Memory().ports()
    hub = GithubClient(settings.github, clock, httpx.MockTransport(answer))
    one = await landed(ports, claimed(run_id="4711"))
    ci = GithubCI(hub, settings, ports.records, clock, Releases(hub, clock))
    with pytest.raises(Refused, match=f"the labels {told} instead of 4711 alone") as caught:
        await ci.register("i-1", "4711", one.round)
    assert 'registration = "persistent"' in caught.value.remedy
    assert removed == ["/orgs/acme/actions/runners/7"]


async def test_runners_of_a_group_are_made_in_it(github: FakeGithub) -> None:
    group = github.add_group("acme", "builders")
    async with a_ci(github, scope="acme", registration="jit", runner_group="builders") as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        given = await ci.register("i-1", "4711", one.round)
        await ci.register("i-1", "4711", one.round)
    assert given is not None
    assert github.runner(given.runner).group == group.id
    assert asked(github, "/runner-groups") == 1


async def test_a_group_that_does_not_exist_is_named(github: FakeGithub) -> None:
    async with a_ci(github, scope="acme", registration="jit", runner_group="builders") as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        with pytest.raises(Refused, match="there is no group 'builders'; there are Default"):
            await ci.register("i-1", "4711", one.round)


async def test_the_pools_runners_are_listed_with_everything_github_knows(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "bullpen.i-1.0123abcd", ["4711"], version="2.335.0")
    github.add_runner("acme/widgets", "bullpen.i-2.0123abcd", ["4712"], online=False)
    github.add_runner("acme/widgets", "bullpen-2.i-1.0123abcd", ["4711"])
    github.add_runner("acme/widgets", "another-pools", ["4711"])
    run = github.start_run("acme/widgets", [JobSpec("build", runs_on=("4711",))])
    github.begin(run, "build", "bullpen.i-1.0123abcd")
    async with a_ci(github) as (ci, _):
        found = await ci.registrations()
    first = Registration("i-1", "4711", True, "bullpen.i-1.0123abcd", online=True, version="2.335.0")
    second = Registration("i-2", "4712", False, "bullpen.i-2.0123abcd", online=False, version="2.336.0")
    assert found == [first, second]


async def test_a_runner_is_removed_by_its_name(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa")
    github.add_runner("acme/widgets", "bullpen.i-1.bbbbbbbb")
    async with a_ci(github) as (ci, _):
        assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.REMOVED
    assert [one.name for one in github.runners()] == ["bullpen.i-1.bbbbbbbb"]


async def test_only_the_runner_of_that_name_is_removed_whatever_a_list_shows() -> None:
    removed: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            removed.append(request.url.path)
            return httpx.Response(204)
        assert request.url.params["name"] == "bullpen.i-1.aaaaaaaa"
        listed = [{"id": 1, "name": "bullpen.i-1.aaaaaaaa"}, {"id": 2, "name": "bullpen.i-1.aaaaaaaa.2"}]
        return httpx.Response(200, json={"total_count": 2, "runners": listed})

    hub, clock = scripted(answer, "acme"), SystemClock()
    settings = Settings(engines=Engines(ci="github"), github=hub.settings)
    ci = GithubCI(hub, settings, Memory().ports().records, clock, Releases(hub, clock))
    assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.REMOVED
    assert removed == ["/orgs/acme/actions/runners/1"]


async def test_all_runners_of_an_instance_are_removed_by_its_id(github: FakeGithub) -> None:
    for name in ("bullpen.i-1.aaaaaaaa", "bullpen.i-1.bbbbbbbb", "bullpen.i-12.cccccccc", "i-1"):
        github.add_runner("acme/widgets", name)
    async with a_ci(github) as (ci, _):
        assert await ci.remove("i-1") is Removal.REMOVED
    assert [one.name for one in github.runners()] == ["bullpen.i-12.cccccccc", "i-1"]


async def test_a_busy_runner_stays_also_while_it_is_offline(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa", ["4711"])
    run = github.start_run("acme/widgets", [JobSpec("build", runs_on=("4711",))])
    github.begin(run, "build", "bullpen.i-1.aaaaaaaa")
    github.disconnect("bullpen.i-1.aaaaaaaa")
    async with a_ci(github) as (ci, _):
        assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.BUSY
        assert await ci.remove("i-1") is Removal.BUSY
    assert len(github.runners()) == 1


async def test_a_runner_that_a_list_still_shows_and_that_is_gone_counts_as_removed(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa")
    github.lag = 60.0
    github.delete_runner("bullpen.i-1.aaaaaaaa")
    async with a_ci(github) as (ci, _):
        assert [one.name for one in await ci.registrations()] == ["i-1"]
        assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.REMOVED


async def test_a_runner_that_no_list_shows_yet_is_left_for_later(github: FakeGithub) -> None:
    github.lag = 60.0
    github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa")
    async with a_ci(github) as (ci, _):
        assert await ci.registrations() == []
        assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.REMOVED
    github.lag = 0.0
    assert len(github.runners()) == 1


async def test_a_runner_outside_the_pool_is_never_removed(github: FakeGithub) -> None:
    github.add_runner("acme/widgets", "another-pools")
    async with a_ci(github) as (ci, _):
        assert await ci.remove("another-pools") is Removal.REMOVED
    assert len(github.runners()) == 1


@pytest.mark.parametrize(
    ("scope", "named"), [("acme", "Self-hosted runners: write"), ("acme/widgets", "Administration: write")]
)
async def test_a_failure_to_remove_names_the_missing_permission(github: FakeGithub, scope: str, named: str) -> None:
    github.add_runner(scope, "bullpen.i-1.aaaaaaaa")
    weak = github.token({"administration": "read", "organization_self_hosted_runners": "read"})
    async with a_ci(github, scope=scope, token=weak) as (ci, _):
        with pytest.raises(PermissionDenied, match=named):
            await ci.remove("i-1")


async def test_versions_that_are_refused_soon_are_listed_with_their_day(github: FakeGithub) -> None:
    github.release("2.334.0", days_ago=90)
    github.release("2.335.0", days_ago=28)
    github.release("2.336.0", days_ago=1)
    async with a_ci(github) as (ci, _):
        found = await ci.refusals(["2.334.0", "2.335.0", "2.336.0", "2.400.0", "odd"])
        assert list(found) == ["2.334.0"]
        assert found["2.334.0"] - SystemClock().now() < timedelta(days=2, minutes=1)
        await ci.refusals(["2.334.0"])
    assert asked(github, "/releases") == 1


async def test_no_version_is_refused_while_the_releases_are_unknown(github: FakeGithub) -> None:
    github.fail("GET */releases*", 404, times=None)
    async with a_ci(github) as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        assert await ci.refusals(["2.300.0"]) == {}
        given = await ci.register("i-1", "4711", one.round)
    assert given is not None
    assert given.oldest == ""


async def test_a_pools_own_name_begins_the_names_of_its_runners(github: FakeGithub) -> None:
    async with a_ci(github, pool="builders") as (ci, ports):
        one = await landed(ports, claimed(run_id="4711"))
        given = await ci.register("i-1", "4711", one.round)
        assert given is not None
        assert instance_of("builders", given.runner) == "i-1"
        github.add_runner("acme/widgets", runner_name("bullpen", "i-1", "a" * 16))
        assert await ci.registrations() == []
