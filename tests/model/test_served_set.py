"""Which jobs may run on the runner of a scale set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet, SetJob, mismatch
from set_builders import NAME, a_ready_set, correct, engaged, retiring, rules

RUNNER = "pool.i-1.r1.7"
KNOWN = ServedSet(NAME, SetEvents.TRUSTED, (SetRepository("octo/repo", 4711), SetRepository("octo/new")))
JOB = SetJob("octo/repo", "4711", "push", "refs/heads/main", "octocat", RUNNER)


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        replace(JOB, repository="octo/renamed"),
        replace(JOB, repository="Octo/New", repository_id="5"),
        replace(JOB, repository="octo/new", repository_id=""),
        replace(JOB, event="schedule", ref="refs/tags/v1"),
    ],
)
def test_a_job_of_a_served_repository_and_event_may_run(job: SetJob) -> None:
    assert KNOWN.refusal(job, RUNNER) == ""


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(JOB, repository="octo/other", repository_id="12"), "does not serve octo/other (repository id 12)"),
        (replace(JOB, repository_id="12"), "does not serve octo/repo (repository id 12)"),
        (replace(JOB, repository_id=""), "does not serve octo/repo (repository id not known)"),
        (replace(JOB, event="pull_request", ref="refs/pull/5/merge"), "not pull_request of refs/pull/5/merge by octo"),
        (replace(JOB, actor="dependabot[bot]"), "trusted events only"),
        (replace(JOB, event="", ref="", actor=""), "not unknown of unknown by unknown"),
        (replace(JOB, runner="pool.i-2.r1.7"), f"registered as {RUNNER} for the scale set {NAME}, not as pool.i-2"),
    ],
    ids=["repository", "same name, other id", "no id", "event", "dependabot", "unknown event", "runner"],
)
def test_any_other_job_is_refused_with_the_set_and_what_to_change(job: SetJob, why: str) -> None:
    said = KNOWN.refusal(job, RUNNER)
    assert why in said
    assert NAME in said


def test_a_repository_that_was_created_again_is_told_how_to_be_admitted() -> None:
    said = KNOWN.refusal(replace(JOB, repository="Octo/Repo", repository_id="12"), RUNNER)
    assert "it serves the repository with the id 4711, which had this name before" in said
    assert 'write "Octo/Repo/12" in `repositories` of this set in [github.scale-sets]' in said


def test_a_set_for_any_event_serves_pull_requests() -> None:
    job = replace(JOB, event="pull_request", ref="refs/pull/5/merge")
    assert replace(KNOWN, events=SetEvents.ANY).refusal(job, RUNNER) == ""


def test_a_set_without_repositories_serves_every_one_that_reaches_it() -> None:
    job = replace(JOB, repository="octo/other", repository_id="12")
    assert replace(KNOWN, repositories=()).refusal(job, RUNNER) == ""


def test_an_instance_gets_another_job_while_set_domain_and_image_are_as_they_were() -> None:
    one, ready = engaged()[-1].after, a_ready_set()
    assert mismatch(one, ready, 1) == ""
    assert "not known" in mismatch(one, None, 1)
    assert "retiring" in mismatch(one, retiring()[-1].after, 1)
    assert "octo/other" in mismatch(one, correct(ready, rules=rules(trust_domain="octo/other")).after, 1)
    assert "image generation 1" in mismatch(one, ready, 2)
    assert "image generation 1" in mismatch(one, ready, None)
