"""Which jobs may run on the runner of a scale set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet, SetJob, mismatch
from bullpen.model.ticket import Requirements, UsageClass
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
    needs = Requirements(one.resource_class, one.usage_class, image_generation=one.image_generation)
    assert mismatch(one, ready, needs) == ""
    assert "not known" in mismatch(one, None, needs)
    assert "retiring" in mismatch(one, retiring()[-1].after, needs)
    assert "octo/other" in mismatch(one, correct(ready, rules=rules(trust_domain="octo/other")).after, needs)
    assert "has the class large now" in mismatch(one, ready, replace(needs, resource_class="large"))
    assert "image generation 1" in mismatch(one, ready, replace(needs, image_generation=2))
    assert "class small is no longer configured" in mismatch(one, ready, None)


def test_an_instance_of_a_usage_class_that_the_set_falls_back_to_stays() -> None:
    one, ready = replace(engaged()[-1].after, usage_class=UsageClass.ON_DEMAND), a_ready_set()
    spot = Requirements(one.resource_class, UsageClass.SPOT, image_generation=one.image_generation)
    assert "has the usage class spot now" in mismatch(one, ready, spot)
    assert mismatch(one, ready, replace(spot, fallback=(UsageClass.ON_DEMAND,))) == ""


def test_an_image_that_is_newer_than_the_settings_of_this_process_stays() -> None:
    one, ready = replace(engaged()[-1].after, image_generation=3), a_ready_set()
    assert mismatch(one, ready, Requirements(one.resource_class, one.usage_class, image_generation=2)) == ""


def test_rules_have_the_same_digest_only_if_they_judge_alike() -> None:
    same = replace(KNOWN, repositories=tuple(reversed(KNOWN.repositories)))
    others = [
        replace(KNOWN, events=SetEvents.ANY),
        replace(KNOWN, repositories=()),
        replace(KNOWN, repositories=KNOWN.repositories[:1]),
        replace(KNOWN, repositories=(SetRepository("octo/repo", 4711), SetRepository("octo/new", 5))),
    ]
    assert same.digest == KNOWN.digest
    assert len({KNOWN.digest, *(one.digest for one in others)}) == 5
