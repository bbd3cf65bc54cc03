"""Which of GitHub's jobs may run here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.agent.github.job_hooks import AdmissionRequest, activity_of, refusal
from bullpen.agent.progress import InstanceRecord, InstanceState

ASKED = AdmissionRequest("1-1", "4711", "2", "acme/widgets", "pool.i-1.r1", "build")
RECORD = InstanceRecord(InstanceState.RUNNING, "4711", "r1", 0.0)


@pytest.mark.parametrize("state", [InstanceState.CREATED, InstanceState.CLAIMED, InstanceState.RUNNING])
@pytest.mark.parametrize("label", ["4711", "4711-1", "4711-2", "4711-large", "4711-2-large"])
def test_a_job_of_the_run_may_run_whatever_the_label_is_made_of(state: InstanceState, label: str) -> None:
    assert refusal(ASKED, replace(RECORD, state=state, run_id=label), "r1") == ""


@pytest.mark.parametrize("repository", ["", "acme/widgets", "ACME/Widgets"])
def test_a_job_of_the_repository_may_run_if_one_is_named(repository: str) -> None:
    assert refusal(ASKED, replace(RECORD, repository=repository), "r1") == ""


@pytest.mark.parametrize(
    ("record", "registered_for"),
    [
        (None, "r1"),
        (RECORD, "r0"),
        (RECORD, ""),
        (replace(RECORD, state=InstanceState.IDLE, run_id=""), "r1"),
        (replace(RECORD, state=InstanceState.TERMINATED), "r1"),
        (replace(RECORD, run_id="4712"), "r1"),
        (replace(RECORD, run_id="4711-3"), "r1"),
        (replace(RECORD, run_id="471"), "r1"),
        (replace(RECORD, run_id="nightly"), "r1"),
        (replace(RECORD, repository="acme/gadgets"), "r1"),
    ],
)
def test_any_other_job_is_refused_with_a_reason(record: InstanceRecord | None, registered_for: str) -> None:
    assert refusal(ASKED, record, registered_for).startswith("This runner ")


@pytest.mark.parametrize("attempt", ["", "two", "-1", "²"])
def test_an_attempt_that_is_no_number_is_refused(attempt: str) -> None:
    assert refusal(replace(ASKED, attempt=attempt), RECORD, "r1")


def test_an_activity_names_the_runner_as_it_was_registered_whatever_the_hook_says() -> None:
    activity = activity_of(replace(ASKED, runner="another"), RECORD.run_id, "pool.i-1.r1")
    assert (activity.runner, activity.label, activity.attempt) == ("pool.i-1.r1", "4711", 2)
