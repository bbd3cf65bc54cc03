"""Webhooks: signed, built on the official examples, and as unreliable as a test wants them."""

import hashlib
import hmac
from collections.abc import Iterator

import httpx
import pytest

from fakes.github.acting import WIDGETS
from fakes.github.hub import FakeGithub, JobSpec
from fakes.github.receiving import Receiver, receiving

SECRET = "it is a secret"
ONE_JOB = [
    "workflow_run.requested",
    "workflow_job.queued",
    "workflow_run.in_progress",
    "workflow_job.in_progress",
    "workflow_job.completed",
    "workflow_run.completed",
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def test_webhooks_report_a_run_from_beginning_to_end(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET)
    github.hosted(github.start_run("acme/widgets", [JobSpec("build")]), "build")
    github.settle_webhooks()
    assert receiver.names() == ONE_JOB
    assert receiver.all[0].event == "ping"


def test_a_delivery_is_signed_over_its_raw_body(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET)
    github.start_run("acme/widgets", [JobSpec("build")])
    github.settle_webhooks()
    for one in receiver.all:
        assert one.signature == "sha256=" + hmac.new(SECRET.encode(), one.body, hashlib.sha256).hexdigest()


def test_a_delivery_names_repository_run_attempt_labels_and_runner(github: FakeGithub, receiver: Receiver) -> None:
    github.add_runner("acme/widgets", "r-1")
    github.webhook(receiver.url, SECRET)
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    github.begin(run, "build", "r-1")
    github.finish(run, "build", "failure")
    github.settle_webhooks()
    queued, _, completed = (one.payload for one in receiver.all if one.event == "workflow_job")
    assert queued["repository"]["full_name"] == "acme/widgets"
    assert (queued["workflow_job"]["run_id"], queued["workflow_job"]["run_attempt"]) == (run.id, 1)
    assert (queued["workflow_job"]["labels"], queued["workflow_job"]["runner_name"]) == (["4711"], None)
    assert (completed["workflow_job"]["runner_name"], completed["workflow_job"]["conclusion"]) == ("r-1", "failure")
    ended = receiver.all[-1].payload["workflow_run"]
    assert (ended["id"], ended["status"], ended["conclusion"]) == (run.id, "completed", "failure")


def test_a_delivery_says_what_was_true_when_it_happened(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET, reorder=("workflow_job.queued",))
    github.hosted(github.start_run("acme/widgets", [JobSpec("build")]), "build")
    github.settle_webhooks()
    queued = next(one for one in receiver.all if one.name == "workflow_job.queued")
    assert queued.payload["workflow_job"]["status"] == "queued"


def test_a_job_that_is_cancelled_before_it_began_completes_without_a_runner(
    github: FakeGithub, receiver: Receiver
) -> None:
    github.webhook(receiver.url, SECRET)
    github.cancel(github.start_run("acme/widgets", [JobSpec("build", ("4711",))]))
    github.settle_webhooks()
    completed = next(one.payload for one in receiver.all if one.name == "workflow_job.completed")
    assert (completed["workflow_job"]["conclusion"], completed["workflow_job"]["runner_name"]) == ("cancelled", None)


def test_dropped_deliveries_are_never_sent(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET, drop=("*.completed",))
    github.hosted(github.start_run("acme/widgets", [JobSpec("build")]), "build")
    github.settle_webhooks()
    assert receiver.names() == ONE_JOB[:4]
    assert [one.status for one in github.deliveries if one.action == "completed"] == [0, 0]


def test_duplicates_have_one_id(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET, duplicate=("workflow_run.completed",))
    github.hosted(github.start_run("acme/widgets", [JobSpec("build")]), "build")
    github.settle_webhooks()
    first, second = receiver.all[-2:]
    assert (first.id, first.body) == (second.id, second.body)
    assert first.name == second.name == "workflow_run.completed"


def test_a_reordered_delivery_comes_after_the_next(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET, reorder=("workflow_job.completed",))
    github.hosted(github.start_run("acme/widgets", [JobSpec("build")]), "build")
    github.settle_webhooks()
    assert receiver.names()[-2:] == ["workflow_run.completed", "workflow_job.completed"]


def test_what_was_not_accepted_is_not_sent_again_by_itself(github: FakeGithub, receiver: Receiver) -> None:
    receiver.status = 503
    github.webhook(receiver.url, SECRET)
    github.start_run("acme/widgets", [JobSpec("build")])
    github.settle_webhooks()
    assert receiver.names() == ONE_JOB[:2]
    assert {one.status for one in github.deliveries} == {503}


def test_a_redelivery_has_the_id_of_the_first(github: FakeGithub, receiver: Receiver) -> None:
    github.webhook(receiver.url, SECRET)
    github.settle_webhooks()
    github.redeliver(receiver.all[0].id)
    github.settle_webhooks()
    assert receiver.all[0].id == receiver.all[1].id


def test_each_hook_has_deliveries_of_its_own(github: FakeGithub, receiver: Receiver) -> None:
    first, second = github.webhook(receiver.url, SECRET), github.webhook("http://127.0.0.1:9/", SECRET)
    github.start_run("acme/widgets", [JobSpec("build")])
    github.settle_webhooks()
    assert [one.status for one in first.deliveries] == [202] * 3
    assert [one.status for one in second.deliveries] == [-1] * 3
    assert not {one.id for one in first.deliveries} & {one.id for one in second.deliveries}


def test_a_receiver_that_does_not_answer_is_recorded_and_harms_nothing(github: FakeGithub) -> None:
    github.webhook("http://127.0.0.1:9/", SECRET)
    run = github.start_run("acme/widgets", [JobSpec("build")])
    github.settle_webhooks()
    assert {one.status for one in github.deliveries} == {-1}
    assert run.state == "queued"


def test_a_new_attempt_reports_untouched_jobs_once_more(
    api: httpx.Client, github: FakeGithub, receiver: Receiver
) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a"), JobSpec("b")])
    github.hosted(run, "a")
    github.hosted(run, "b", "failure")
    github.webhook(receiver.url, SECRET)
    api.post(f"{WIDGETS}/actions/runs/{run.id}/rerun-failed-jobs")
    github.settle_webhooks()
    assert receiver.names() == ["workflow_run.requested", "workflow_job.completed", "workflow_job.queued"]
    assert receiver.all[2].payload["workflow_job"]["run_attempt"] == 2
