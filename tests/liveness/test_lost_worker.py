"""What a lost worker means to a workflow run: its own report counts as far as GitHub can confirm it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import an_instance
from bullpen.config import Engines, Github, Settings
from bullpen.liveness.lost_worker import GivenJob, WorkerLoss, worker_loss
from bullpen.model.activity import Activity, Listening
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.set_session import StartedJob
from bullpen.model.worker import INACTIVE, Worker
from bullpen.ports import WorkflowJob

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SET = "set:bullpen-small"
RUNNER = "bullpen.i-1.abc.7"
SETTINGS = Settings(engines=Engines(ci="github"), github=Github(scope="acme", token="t"))


def a_job(**changed: Any) -> Activity:
    return replace(Activity("acme/widgets", "4711", 2, SET, RUNNER, "build"), **changed)


def a_worker(activity: str = "", **changed: Any) -> Worker:
    lost = Worker("i-1/k", INACTIVE, 3, instance_id="i-1", epoch=1, lost_epoch=1, lease=15.0, beat_at=NOW)
    return replace(lost, activity=activity, **changed)


def a_member() -> Instance:
    return replace(an_instance("i-1"), state=RUNNING, run_id=SET, repository="")


def given(runner: str = RUNNER, run: str = "4712", at: datetime = NOW) -> GivenJob:
    return GivenJob(SET, StartedJob(f"j-{run}", runner, "acme/widgets", run, "build", at))


def loss(activity: str = "", *started: GivenJob) -> WorkerLoss | None:
    return worker_loss(SETTINGS, a_worker(activity), a_member(), started)


def test_the_report_of_a_member_names_run_attempt_and_repository() -> None:
    found = loss(a_job().text(), given())
    assert found is not None
    assert (found.run, found.label, found.repository, found.set_name) == ("4711", SET, "acme/widgets", "bullpen-small")
    assert (found.activity, found.runner) == (a_job(), RUNNER)


@pytest.mark.parametrize(
    "lie",
    [
        {"runner": "bullpen.i-2.abc.7"},
        {"runner": "bullpen.i-11.abc.7"},
        {"run": "../4711"},
        {"run": ""},
        {"repository": "other/widgets"},
        {"repository": ""},
    ],
    ids=str,
)
def test_a_report_about_another_runner_or_an_impossible_run_is_not_believed(lie: dict[str, str]) -> None:
    assert loss(a_job(**lie).text()) is None


def test_a_job_that_github_gave_to_its_runner_counts_where_it_reported_none() -> None:
    for said in ("", Listening(RUNNER, 9, "d1").text()):
        found = loss(said, given("bullpen.i-2.abc.1", "1"), given())
        assert found is not None
        assert (found.run, found.runner, found.activity, found.label) == ("4712", RUNNER, None, SET)


def test_of_several_jobs_of_one_instance_the_last_counts() -> None:
    found = loss("", given(run="2", at=NOW), given("bullpen.i-1.abc.6", "1", NOW - timedelta(hours=1)))
    assert found is not None
    assert found.run == "2"


def test_only_the_job_of_that_very_runner_is_lost() -> None:
    found = loss("", given())
    assert found is not None
    assert found.had(WorkflowJob(1, "build", 1, completed=True, runner=RUNNER))
    assert not found.had(WorkflowJob(2, "test", 1, completed=True, runner=f"{RUNNER}1"))


def test_a_member_without_a_job_is_lost_to_no_run() -> None:
    assert loss() is None
