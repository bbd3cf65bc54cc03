"""Workflow runs: how they stand, what may be run again, and what never is."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import pytest

from bullpen.engines.github.workflows import GithubWorkflows, placed
from bullpen.errors import Conflict, NotFound, PermissionDenied, Refused, Unavailable
from bullpen.ports import Conclusion, WorkflowJob, WorkflowRun
from engines.github.places import a_hub, scripted
from fakes.github.hub import FakeGithub, JobSpec, Run

REPOSITORY = "acme/widgets"


@asynccontextmanager
async def workflows_of(github: FakeGithub, **changes: Any) -> AsyncIterator[GithubWorkflows]:
    async with a_hub(github, **changes) as hub:
        yield GithubWorkflows(hub)


def a_run(github: FakeGithub, *keys: str, environment: str = "") -> Run:
    return github.start_run(
        REPOSITORY, [JobSpec(key, ("4711",), environment=environment) for key in keys or ("build",)]
    )


@pytest.mark.real_loop
async def test_a_repository_has_the_id_of_the_one_that_has_its_name_now(github: FakeGithub) -> None:
    async with workflows_of(github, scope="acme") as workflows:
        first = await workflows.repository_id("Acme/Widgets")
        again = github.add_repository(REPOSITORY)
        assert await workflows.repository_id(REPOSITORY) == again.id != first
        with pytest.raises(
            NotFound, match=r"acme/gadgets does not exist, or the credentials may not see it \(needs the"
        ):
            await workflows.repository_id("acme/gadgets")
        with pytest.raises(NotFound, match="is not a repository of acme"):
            await workflows.repository_id("octo/widgets")


@pytest.mark.parametrize("status", [200, 301, 307])
async def test_the_name_of_a_repository_that_was_renamed_has_no_id(status: int) -> None:
    body = {"id": 7, "full_name": "acme/renamed"} if status == 200 else {"message": "Moved Permanently"}
    async with aclosing(scripted(lambda request: httpx.Response(status, json=body))) as hub:
        with pytest.raises(NotFound, match="acme/widgets was renamed or moved"):
            await GithubWorkflows(hub).repository_id(REPOSITORY)


@pytest.mark.parametrize("body", [{"id": 0}, {"id": 10**18}, {"id": "x"}, {}, []])
async def test_an_answer_without_an_id_is_no_answer(body: Any) -> None:
    body = {"full_name": REPOSITORY, **body} if isinstance(body, dict) else body
    async with aclosing(scripted(lambda request: httpx.Response(200, json=body))) as hub:
        with pytest.raises(Unavailable, match="cannot be read"):
            await GithubWorkflows(hub).repository_id(REPOSITORY)


@pytest.mark.real_loop
async def test_a_run_is_seen_as_it_stands(github: FakeGithub) -> None:
    run = a_run(github)
    id = str(run.id)
    async with workflows_of(github) as workflows:
        assert await workflows.run(REPOSITORY, id) == WorkflowRun(
            REPOSITORY,
            id,
            1,
            completed=False,
            head_sha=run.head_sha,
            url=f"{github.url}/acme/widgets/actions/runs/{id}",
        )
        github.hosted(run, "build", "failure")
        found = await workflows.run(REPOSITORY, id)
        assert (found.completed, found.conclusion) == (True, "failure")
        github.rerun(run)
        found = await workflows.run(REPOSITORY, id)
        assert (found.attempt, found.completed) == (2, False)


@pytest.mark.real_loop
async def test_the_jobs_that_wait_are_listed_of_some_runs_those_that_were_run_again_first(github: FakeGithub) -> None:
    again = a_run(github, "again", "done")
    for key in ("again", "done"):
        github.hosted(again, key, "failure" if key == "again" else "success")
    github.rerun(again, "again")
    for _ in range(3):
        a_run(github, "fresh")
    a_run(github, "ended")
    github.hosted(github.start_run(REPOSITORY, [JobSpec("over", ("4711",))]), "over")
    async with workflows_of(github) as workflows:
        found = await workflows.waiting_jobs(REPOSITORY, 2)
        assert [(job.name, job.attempt) for job in found] in (
            [("again", 2), ("fresh", 1)],
            [("again", 2), ("ended", 1)],
        )
        assert found[0].labels == ("4711",)
        names = sorted(job.name for job in await workflows.waiting_jobs(REPOSITORY, 10))
        assert names == ["again", "ended", "fresh", "fresh", "fresh"]
        github.fail("GET */actions/runs?*", 404)
        with pytest.raises(NotFound, match="acme/widgets does not exist, or the credentials may not see it"):
            await workflows.waiting_jobs(REPOSITORY, 10)


async def test_a_job_that_waits_for_more_than_a_runner_is_not_listed_and_the_requests_are_bounded() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path.endswith("/actions/runs"):
            first = 1 if request.url.params["status"] == "queued" else 101
            runs = [{"id": n, "run_attempt": 1} for n in range(first, first + 100)]
            return httpx.Response(200, json={"total_count": 500, "workflow_runs": runs})
        made: dict[str, Any] = {"id": 7, "runner_name": None, "labels": ["x"], "started_at": None, "completed_at": None}
        made |= {"name": "deploy", "conclusion": None, "run_attempt": 1}
        jobs = [{**made, "status": status} for status in ("waiting", "pending", "in_progress")]
        return httpx.Response(200, json={"total_count": 3, "jobs": jobs})

    async with aclosing(scripted(answer)) as hub:
        assert await GithubWorkflows(hub).waiting_jobs(REPOSITORY, 10) == []
    assert len(asked) == 12


@pytest.mark.real_loop
async def test_the_runner_groups_that_admit_a_repository_are_named(github: FakeGithub) -> None:
    for name in ("acme/widgets", "acme/gadgets"):
        github.add_repository(name)
    github.add_group("acme", "builders", ["acme/widgets"])
    github.add_group("acme", "everyone")
    async with workflows_of(github, scope="acme") as workflows:
        assert await workflows.groups_open_to("acme/widgets") == ["Default", "builders", "everyone"]
        assert await workflows.groups_open_to("acme/gadgets") == ["Default", "everyone"]
        with pytest.raises(NotFound):
            await workflows.groups_open_to("strangers/widgets")
    async with workflows_of(github) as workflows:
        assert await workflows.groups_open_to(REPOSITORY) is None


@pytest.mark.real_loop
async def test_every_job_of_an_attempt_is_seen(github: FakeGithub) -> None:
    run = a_run(github, "waits", "runs", *(f"done-{n}" for n in range(120)))
    github.add_runner(REPOSITORY, "bullpen.i-1.aaaaaaaa", ["4711"])
    github.begin(run, "runs", "bullpen.i-1.aaaaaaaa")
    for n in range(120):
        github.hosted(run, f"done-{n}")
    async with workflows_of(github) as workflows:
        found = {job.name: job for job in await workflows.jobs(REPOSITORY, str(run.id), 1)}
    assert len(found) == 122
    assert found["waits"].waits
    assert found["waits"].labels == ("4711",)
    assert (found["runs"].runner, found["runs"].waits) == ("bullpen.i-1.aaaaaaaa", False)
    assert {found[f"done-{n}"].conclusion for n in range(120)} == {Conclusion.SUCCESS}


@pytest.mark.real_loop
@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("success", Conclusion.SUCCESS),
        ("neutral", Conclusion.SUCCESS),
        ("skipped", Conclusion.SUCCESS),
        ("failure", Conclusion.FAILURE),
        ("timed_out", Conclusion.FAILURE),
        ("cancelled", Conclusion.CANCELLED),
    ],
)
async def test_conclusions_of_github_map_to_those_of_the_port(github: FakeGithub, told: str, meant: Conclusion) -> None:
    run = a_run(github)
    github.hosted(run, "build", told)
    async with workflows_of(github) as workflows:
        assert [job.conclusion for job in await workflows.jobs(REPOSITORY, str(run.id), 1)] == [meant]


@pytest.mark.real_loop
async def test_of_the_jobs_of_one_runner_it_is_seen_which_began_last(github: FakeGithub) -> None:
    """GitHub promises no order of its queue: the last of a list need not be the last that ran."""
    run = a_run(github, "one", "two")
    github.add_runner(REPOSITORY, "bullpen.i-1.a", ["4711"])
    github.begin(run, "two", "bullpen.i-1.a")
    github.finish(run, "two", "failure")
    github.advance(60)
    github.begin(run, "one", "bullpen.i-1.a")
    async with workflows_of(github) as workflows:
        found = [job for job in await workflows.jobs(REPOSITORY, str(run.id), 1) if job.started_at is not None]
        assert [job.name for job in sorted(found, key=lambda job: str(job.started_at))] == ["two", "one"]
        assert max(found, key=lambda job: job.id).name == "two"


@pytest.mark.real_loop
async def test_it_is_seen_when_a_job_ended(github: FakeGithub) -> None:
    run = a_run(github, "ended", "waits")
    github.hosted(run, "ended")
    async with workflows_of(github) as workflows:
        found = {job.name: job for job in await workflows.jobs(REPOSITORY, str(run.id), 1)}
    (ended,) = [job for job in run.jobs(1) if job.key == "ended"]
    assert ended.completed_at is not None
    assert found["ended"].completed_at == ended.completed_at.replace(microsecond=0)
    assert found["waits"].completed_at is None


@pytest.mark.real_loop
async def test_a_run_that_is_not_there_is_not_found(github: FakeGithub) -> None:
    run = a_run(github)
    async with workflows_of(github) as workflows:
        with pytest.raises(NotFound, match="run 1 of acme/widgets does not exist"):
            await workflows.run(REPOSITORY, "1")
        with pytest.raises(NotFound):
            await workflows.jobs(REPOSITORY, str(run.id), 9)


@pytest.mark.parametrize(
    ("repository", "run"),
    [
        ("other/widgets", "1"),
        ("acme/..", "1"),
        ("acme/widgets/../../orgs/acme", "1"),
        ("", "1"),
        ("acme/widgets", "1/../../../actions/runners"),
        ("acme/widgets", ""),
        ("acme/widgets", "¹"),
    ],
)
async def test_github_is_not_asked_for_a_run_outside_the_scope(repository: str, run: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise AssertionError(request.url)

    hub = scripted(answer, "acme")
    with pytest.raises(NotFound):
        await GithubWorkflows(hub).run(repository, run)


@pytest.mark.real_loop
async def test_a_failure_to_read_runs_names_the_missing_permission(github: FakeGithub) -> None:
    run = a_run(github)
    async with workflows_of(github, token=github.token({"metadata": "read"})) as workflows:
        with pytest.raises(PermissionDenied, match="Actions: read"):
            await workflows.run(REPOSITORY, str(run.id))


@pytest.mark.real_loop
async def test_a_job_of_a_completed_run_is_run_again(github: FakeGithub) -> None:
    run = a_run(github, "build", "test")
    github.hosted(run, "build", "failure")
    github.hosted(run, "test", "failure")
    async with workflows_of(github) as workflows:
        await workflows.rerun_job(REPOSITORY, run.job("build").id)
    assert run.attempt == 2
    assert {job.name: job.status for job in run.jobs()} == {"build": "queued", "test": "completed"}


@pytest.mark.real_loop
async def test_a_run_that_goes_on_is_not_run_again(github: FakeGithub) -> None:
    run = a_run(github, "build", "test")
    github.hosted(run, "build", "failure")
    async with workflows_of(github) as workflows:
        with pytest.raises(Conflict, match="already running"):
            await workflows.rerun_job(REPOSITORY, run.job("build").id)
        with pytest.raises(Conflict, match="already running"):
            await workflows.rerun_failed(REPOSITORY, str(run.id))
    assert run.attempt == 1


@pytest.mark.real_loop
async def test_a_job_of_an_attempt_before_is_not_run_again(github: FakeGithub) -> None:
    run = a_run(github)
    first = github.hosted(run, "build", "failure").id
    github.rerun(run)
    github.hosted(run, "build", "failure")
    async with workflows_of(github) as workflows:
        with pytest.raises(Conflict, match="current attempt"):
            await workflows.rerun_job(REPOSITORY, first)
    assert run.attempt == 2


@pytest.mark.real_loop
async def test_all_failed_jobs_are_run_again_together(github: FakeGithub) -> None:
    run = a_run(github, "a", "b", "c")
    for key, conclusion in (("a", "failure"), ("b", "cancelled"), ("c", "success")):
        github.hosted(run, key, conclusion)
    async with workflows_of(github) as workflows:
        await workflows.rerun_failed(REPOSITORY, str(run.id))
    assert sorted(job.name for job in run.jobs() if job.status == "queued") == ["a", "b"]


@pytest.mark.real_loop
async def test_a_failure_to_run_again_names_the_missing_permission(github: FakeGithub) -> None:
    run = a_run(github)
    job = github.hosted(run, "build", "failure").id
    async with workflows_of(github, token=github.token({"actions": "read"})) as workflows:
        with pytest.raises(PermissionDenied, match="Actions: write"):
            await workflows.rerun_job(REPOSITORY, job)


@pytest.mark.real_loop
async def test_what_cannot_be_run_again_is_refused(github: FakeGithub) -> None:
    run = a_run(github)
    job = github.hosted(run, "build", "failure").id
    github.fail("POST */rerun", 403, message="This workflow run cannot be retried")
    async with workflows_of(github) as workflows:
        with pytest.raises(Refused, match="cannot be retried") as caught:
            await workflows.rerun_job(REPOSITORY, job)
    assert not isinstance(caught.value, PermissionDenied)


@pytest.mark.real_loop
async def test_a_re_run_whose_answer_is_lost_is_not_asked_for_twice(github: FakeGithub) -> None:
    run = a_run(github)
    job = github.hosted(run, "build", "failure").id
    github.lose_answer("POST */rerun")
    async with workflows_of(github) as workflows:
        with pytest.raises(Unavailable):
            await workflows.rerun_job(REPOSITORY, job)
        with pytest.raises(Conflict):
            await workflows.rerun_job(REPOSITORY, job)
    assert run.attempt == 2


async def test_re_runs_are_a_second_apart() -> None:
    loop, at = asyncio.get_running_loop(), list[float]()

    def answer(request: httpx.Request) -> httpx.Response:
        at.append(loop.time())
        return httpx.Response(201, json={})

    hub = scripted(answer, "acme")
    workflows = GithubWorkflows(hub)
    await asyncio.gather(*(workflows.rerun_job(REPOSITORY, n) for n in range(3)))
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(at)] == [1.0, 1.0]


@pytest.mark.real_loop
async def test_a_run_is_cancelled_and_one_that_has_ended_counts_as_such(github: FakeGithub) -> None:
    run = a_run(github)
    async with workflows_of(github) as workflows:
        await workflows.cancel(REPOSITORY, str(run.id))
        assert run.conclusion == "cancelled"
        await workflows.cancel(REPOSITORY, str(run.id))


@pytest.mark.real_loop
async def test_a_run_that_cannot_be_cancelled_yet_is_a_conflict(github: FakeGithub) -> None:
    run = a_run(github)
    github.fail("POST */cancel", 409, message="Cannot cancel a workflow re-run that has not yet queued.")
    async with workflows_of(github) as workflows:
        with pytest.raises(Conflict, match="not yet queued"):
            await workflows.cancel(REPOSITORY, str(run.id))


@pytest.mark.real_loop
async def test_jobs_with_an_environment_are_known(github: FakeGithub) -> None:
    other = a_run(github, "deploy", environment="production")
    specs = [JobSpec("build", ("4711",)), JobSpec("deploy", ("4711",), environment="production")]
    run = github.start_run(REPOSITORY, specs)
    for one, key in ((other, "deploy"), (run, "build"), (run, "deploy")):
        github.hosted(one, key, "failure")
    async with workflows_of(github) as workflows:
        found = await workflows.run(REPOSITORY, str(run.id))
        jobs = await workflows.jobs(REPOSITORY, str(run.id), 1)
        assert await workflows.deploying(found, jobs) == [run.job("deploy").id]


@pytest.mark.real_loop
async def test_a_failure_to_read_deployments_names_the_missing_permission(github: FakeGithub) -> None:
    run = a_run(github)
    async with workflows_of(github, token=github.token({"actions": "write"})) as workflows:
        found = await workflows.run(REPOSITORY, str(run.id))
        with pytest.raises(PermissionDenied, match="Deployments: read"):
            await workflows.deploying(found, [WorkflowJob(1, "build", 1, completed=True)])


RUN = "https://github.com/acme/widgets/actions/runs"
BOT = {"creator": {"login": "github-actions[bot]"}}


@pytest.mark.parametrize(
    ("deployment", "links", "jobs"),
    [
        ({}, [f"{RUN}/4711/job/1"], [1]),
        ({}, [f"{RUN}/4711/job/1?pr=3"], [1]),
        ({}, [f"{RUN}/4711/attempts/2"], [1, 2]),
        ({}, [f"{RUN}/4711"], [1, 2]),
        ({}, [f"{RUN}/9999/job/1"], []),
        ({}, [f"{RUN}/4711/job/3"], []),
        ({}, ["https://github.com/acme/widgets/runs/2?check_suite_focus=true"], [2]),
        (BOT, [], [1, 2]),
        (BOT, ["https://somewhere.test/log"], [1, 2]),
        ({"performed_via_github_app": {"slug": "github-actions"}}, [], [1, 2]),
        ({"creator": {"login": "vercel[bot]"}}, ["https://vercel.test/x"], []),
        ({}, [], []),
    ],
)
def test_a_deployment_is_held_against_every_job_that_it_may_belong_to(
    deployment: dict[str, Any], links: list[str], jobs: list[int]
) -> None:
    statuses = [{"log_url": link, "target_url": ""} for link in links]
    assert placed(deployment, statuses, "4711", [1, 2]) == jobs


async def test_deployments_of_a_pull_request_are_found_under_its_merge() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/statuses"):
            return httpx.Response(200, json=[{"id": 1, "log_url": f"{RUN}/4711/job/1"}])
        if "sha" in request.url.params:
            return httpx.Response(200, json=[])
        return httpx.Response(200, json=[{"id": 5, "ref": "refs/pull/3/merge"}, {"id": 6, "ref": "main"}])

    hub = scripted(answer, "acme")
    run = WorkflowRun(REPOSITORY, "4711", 1, completed=True, head_sha="abc")
    jobs = [WorkflowJob(1, "preview", 1, completed=True), WorkflowJob(2, "test", 1, completed=True)]
    assert await GithubWorkflows(hub).deploying(run, jobs) == [1]
