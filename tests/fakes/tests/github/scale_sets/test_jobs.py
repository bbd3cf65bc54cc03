"""How jobs come to a set: capacity, lapses, runners, and what the listener hears."""

import json

import pytest

from fakes.github.acting import WIDGETS, caller
from fakes.github.hub import FakeGithub, JobSpec, Run
from fakes.github.set_caller import AGENTS, SETS, SetCaller


def a_run(github: FakeGithub, *names: str, label: str = "medium", repository: str = "acme/widgets") -> Run:
    return github.start_run(repository, [JobSpec(name, (label,)) for name in names or ("build",)])


def test_a_job_comes_assigned_starts_and_completes(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    run = a_run(github)
    answer = sets.poll()
    (entry,) = json.loads(answer.json()["body"])
    assert (entry["messageType"], entry["runnerRequestId"], entry["workflowRunId"]) == ("JobAssigned", 0, run.id)
    assert (entry["ownerName"], entry["repositoryName"]) == ("acme", "widgets")
    assert answer.json()["statistics"]["totalAssignedJobs"] == 1
    sets.acknowledge(1)
    runner = sets.runner(medium, "r-1")
    job = runner.next()
    runner.tell("started", job)
    (started,) = json.loads(sets.poll(1).json()["body"])
    assert (started["messageType"], started["runnerName"], started["jobId"]) == ("JobStarted", "r-1", entry["jobId"])
    runner.tell("finish", job, conclusion="success", log="")
    sets.acknowledge(2)
    message = sets.poll(2).json()
    (completed,) = json.loads(message["body"])
    assert (completed["messageType"], completed["result"]) == ("JobCompleted", "succeeded")
    assert (message["statistics"]["totalAssignedJobs"], run.conclusion) == (0, "success")


def test_capacity_is_a_total_and_the_only_admission(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    run = a_run(github, "a", "b", "c")
    assert sets.heard(capacity=2) == [("JobAssigned", "a"), ("JobAssigned", "b")]
    assert sets.heard(1, capacity=2) == []
    github.sets.add_runner("r-1", "medium")
    github.begin(run, "a", "r-1")
    assert sets.heard(1, capacity=2) == [("JobStarted", "a")]  # which still takes one of two places
    github.finish(run, "a")
    assert sets.heard(2, capacity=2) == [("JobCompleted", "a"), ("JobAssigned", "c")]


def test_a_job_queued_at_capacity_0_is_never_announced_and_a_runner_gets_it(
    github: FakeGithub, sets: SetCaller, medium: int
) -> None:
    assert sets.heard(capacity=0) == []
    a_run(github, "trapped")
    assert sets.heard(capacity=5) == []
    sets.ask("DELETE", f"{SETS}/{medium}/sessions/{sets.session['sessionId']}")
    assert sets.open(medium) == 200
    a_run(github, "later")
    assert sets.heard(capacity=5) == [("JobAssigned", "later")]
    assert sets.runner(medium, "r-1").next()["name"] == "trapped"


def test_an_assignment_lapses_three_times_and_a_late_runner_still_gets_the_job(
    github: FakeGithub, sets: SetCaller, medium: int
) -> None:
    run = a_run(github)
    ids, last = [], 0
    for lapses in range(4):
        message = sets.poll(last)
        if lapses == 3:
            kinds = [(one["messageType"], one["runnerName"]) for one in json.loads(message.json()["body"])]
            assert kinds == [("JobCompleted", "")]
            break
        assigned = json.loads(message.json()["body"])[-1]
        assert (assigned["messageType"], assigned["workflowRunId"]) == ("JobAssigned", run.id)
        ids.append(assigned["jobId"])
        last = message.json()["messageId"]
        sets.acknowledge(last)
        github.advance(40)
        sets.poll(last)  # the session lives on
        for _ in range(7):
            github.advance(40)
            sets.poll(last)
    assert len(set(ids)) == 3
    assert github.sets.statistics("medium")["totalAssignedJobs"] == 0
    assert sets.runner(medium, "r-1").next()["name"] == "build"


def test_an_idle_runner_gets_the_oldest_job_of_any_repository(github: FakeGithub) -> None:
    github.add_repository("acme/gadgets")
    github.sets.long_poll = 0.0
    sets = SetCaller(github, "acme")
    medium = sets.create("medium")
    sets.open(medium)
    a_run(github, "first", repository="acme/gadgets")
    a_run(github, "second")
    sets.heard()
    assert sets.runner(medium, "r-1").next()["repository"] == "acme/gadgets"
    sets.close()


def test_a_job_fits_a_set_that_has_all_its_labels(github: FakeGithub, sets: SetCaller) -> None:
    sets.open(sets.create("big", labels=("a", "b", "c")))
    github.start_run("acme/widgets", [JobSpec("fits", ("B", "a")), JobSpec("fits not", ("a", "self-hosted"))])
    assert sets.heard() == [("JobAssigned", "fits")]


def test_a_group_keeps_the_jobs_of_other_repositories_away(github: FakeGithub) -> None:
    github.add_repository("acme/gadgets")
    group = github.add_group("acme", "closed", ["acme/gadgets"])
    github.sets.long_poll = 0.0
    sets = SetCaller(github, "acme")
    sets.open(sets.create("medium", group=group.id))
    a_run(github, "foreign")
    a_run(github, "ours", repository="acme/gadgets")
    assert sets.heard() == [("JobAssigned", "ours")]
    sets.close()


@pytest.mark.parametrize(("has_runner", "announced"), [(False, []), (True, [("JobAssigned", "build")])])
def test_a_rerun_is_announced_only_to_a_set_with_a_runner(
    github: FakeGithub, sets: SetCaller, medium: int, has_runner: bool, announced: list[tuple[str, str]]
) -> None:
    run = a_run(github)
    sets.heard()
    github.cancel(run)
    assert sets.heard(1) == [("JobCompleted", "build")]
    if has_runner:
        github.sets.add_runner("r-1", "medium")
    github.rerun(run)
    assert sets.heard(2) == announced
    assert sets.runner(medium, "r-2").next()["name"] == "build"


def test_an_enterprise_server_offers_jobs_and_assigns_what_is_acquired(github: FakeGithub) -> None:
    github.sets.is_enterprise, github.sets.long_poll = True, 0.0
    sets = SetCaller(github)
    medium = sets.create("medium")
    sets.open(medium)
    a_run(github, "a", "b")
    offered = json.loads(sets.poll(capacity=0).json()["body"])
    assert [one["messageType"] for one in offered] == ["JobAvailable"] * 2
    requests = [one["runnerRequestId"] for one in offered]
    headers = {"Authorization": f"Bearer {sets.session['messageQueueAccessToken']}"}
    for _ in range(2):
        answer = sets.ask("POST", f"{SETS}/{medium}/acquirejobs", json=[*requests[:1], 5], headers=headers)
        assert answer.json() == {"count": 1, "value": requests[:1]}
    sets.acknowledge(1)
    assert sets.heard(1) == [("JobAssigned", "a")]
    assert github.sets.statistics("medium")["totalAvailableJobs"] == 1
    sets.close()


def test_a_registration_of_a_set_is_listed_without_labels(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    made = sets.configure(medium, "r-1")["runner"]
    assert made["runnerScaleSetId"] == medium
    assert sets.ask("GET", AGENTS, params={"agentName": "r-1"}).json() == {"count": 1, "value": [made]}
    with caller(github) as api:
        (shown,) = api.get(f"{WIDGETS}/actions/runners").json()["runners"]
    assert (shown["name"], shown["labels"], shown["status"]) == ("r-1", [], "offline")
    again = sets.ask("POST", f"{SETS}/{medium}/generatejitconfig", json={"name": "r-1", "workFolder": ""})
    assert (again.status_code, "AgentExistsException" in again.json()["typeName"]) == (409, True)


def test_a_busy_runner_is_not_removed(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    run = a_run(github)
    runner = github.sets.add_runner("r-1", "medium")
    github.begin(run, "build", "r-1")
    refused = sets.ask("DELETE", f"{AGENTS}/{runner.id}")
    assert (refused.status_code, "JobStillRunningException" in refused.json()["typeName"]) == (400, True)
    github.finish(run, "build")
    gone = sets.ask("DELETE", f"{AGENTS}/{runner.id}")
    assert (gone.status_code, "AgentNotFoundException" in gone.json()["typeName"]) == (404, True)


def test_a_runner_that_github_does_not_know_to_be_busy_is_removed_and_its_job_goes_on(
    github: FakeGithub, sets: SetCaller, medium: int
) -> None:
    github.sets.busy_known_after = 60.0
    run = a_run(github)
    runner = sets.runner(medium, "r-1")
    job = runner.next()
    runner.tell("started", job)
    assert sets.ask("DELETE", f"{AGENTS}/{runner.known['id']}").status_code == 204
    assert runner.tell("renew", job).status_code == 200
    assert runner.tell("finish", job, conclusion="success", log="").status_code == 204
    assert run.conclusion == "success"
