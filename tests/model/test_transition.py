"""What a step is: pure, from its source states only, under guards that a store can check."""

from dataclasses import replace

import pytest

from builders import BY, NOW, a_provision, a_token, an_instance, claim, keep, later, needs, on_offer
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import instance as instances
from bullpen.model import provision as provisions
from bullpen.model.transition import Guard, StoryLine


def test_a_step_from_another_state_is_an_invalid_transition() -> None:
    with pytest.raises(InvalidTransition, match="i-1 is running: it cannot claim"):
        claim(an_instance(state=instances.RUNNING))


def test_a_step_leaves_its_subject_as_it_was() -> None:
    before = an_instance()
    copy = replace(before)
    assert claim(before).before == copy == before


def test_a_step_raises_the_version_by_one_and_sets_the_target_state() -> None:
    change = claim(an_instance(version=41))
    assert (change.after.version, change.after.state) == (42, instances.CLAIMED)


def test_a_guard_that_the_subject_itself_fails_is_a_conflict_before_any_write() -> None:
    forbidden = an_instance(image_generation=2)
    with pytest.raises(Conflict, match="image_generation is 1") as refused:
        claim(forbidden)
    assert refused.value.found == forbidden


def test_a_step_writes_a_line_of_the_story() -> None:
    change = keep(an_instance(version=3), at=later(1), by="refresh", why="the pool is below its target")
    assert change.line == StoryLine(4, "keep", "idle", later(1), "refresh", "the pool is below its target")


def test_the_difference_names_what_the_write_sets() -> None:
    change = keep(an_instance(version=3))
    assert change.difference() == {"version": 4, "threshold": later(840)}


def test_the_difference_always_contains_the_version() -> None:
    before = an_instance(version=3)
    assert keep(before, until=before.threshold).difference() == {"version": 4}


def test_guards_compare_a_field_with_a_value_with_several_and_with_a_time() -> None:
    record = an_instance(run_id="", trust_domain="other", threshold=later(60))
    assert Guard("run_id", "is", "").holds(record)
    assert not Guard("run_id", "is", "run-1").holds(record)
    assert Guard("trust_domain", "in", ("", "other")).holds(record)
    assert not Guard("trust_domain", "in", ("", "default")).holds(record)
    assert Guard("threshold", "after", later(59)).holds(record)
    assert not Guard("threshold", "after", later(60)).holds(record)


def test_only_changes_of_owner_draw_a_round() -> None:
    assert [step.step for step in instances.STEPS if step.draws_round] == ["register", "claim", "roll_back", "release"]
    assert not any(step.draws_round for step in provisions.STEPS)


def test_a_change_says_whether_it_drew_a_round() -> None:
    assert claim(an_instance()).draws_round
    assert not keep(an_instance()).draws_round


def test_every_step_has_a_docstring() -> None:
    assert [step.step for step in (*instances.STEPS, *provisions.STEPS) if not step.doc] == []


def test_a_step_depends_on_nothing_but_its_arguments() -> None:
    before = on_offer()[-1].after
    event = instances.Claimed(
        at=NOW, by=BY, run_id="run-1", round=a_token(), provision_id="p-1", needs=needs(), until=later(660)
    )
    assert instances.claim(before, event) == instances.claim(before, event)


def test_a_record_cannot_be_changed_in_place() -> None:
    for record in (an_instance(), a_provision()):
        with pytest.raises(AttributeError):
            record.version = 7  # type: ignore[misc]
