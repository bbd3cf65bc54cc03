"""What the steps of an instance that serves a scale set promise."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from builders import claimed, cleaning, expire, later, needs, offer, on_offer, registered, release, roll_back, running
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model.instance import CLAIMED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_member import STEPS, set_of
from set_builders import (
    NAME,
    a_ready_set,
    claim_for,
    claimed_for_set,
    engage,
    engaged,
    extend,
    mark_missing,
    recall,
    retired,
    retiring,
    rules,
    wanted,
)


def test_a_member_is_known_by_its_run_id_and_has_no_provision() -> None:
    member = engaged()[-1].after
    assert (set_of(member), member.provision_id, member.repository) == (NAME, "", "")
    assert [set_of(walk[-1].after) for walk in (running(), cleaning(), on_offer())] == [None, None, None]


# ---- engaged


def test_a_claimed_instance_runs_for_a_set_that_is_ready() -> None:
    before = claimed_for_set()[-1].after
    member = engage(before, a_ready_set(), until=later(22500)).after
    assert (member.state, member.round, member.threshold) == (RUNNING, before.round, later(22500))
    assert member.trust_domain == a_ready_set().rules.trust_domain


@pytest.mark.parametrize(
    "scale_set",
    [wanted()[-1].after, mark_missing(a_ready_set()).after, retiring()[-1].after, retired()[-1].after],
    ids=lambda one: one.state,
)
def test_no_instance_begins_to_serve_a_set_that_is_not_ready(scale_set: ScaleSet) -> None:
    with pytest.raises(Conflict, match=f"which is {scale_set.state}"):
        engage(claimed_for_set()[-1].after, scale_set)


def test_an_instance_that_another_process_claimed_meanwhile_is_not_engaged() -> None:
    with pytest.raises(Conflict, match="round"):
        engage(claimed_for_set()[-1].after, a_ready_set(), round="another")


def test_an_instance_that_was_claimed_for_a_run_or_another_set_is_not_engaged() -> None:
    for taken in (claimed()[-1].after, claimed_for_set(name="another")[-1].after):
        with pytest.raises(Conflict, match="run_id"):
            engage(taken, a_ready_set())


def test_an_instance_that_was_claimed_for_an_earlier_trust_domain_of_the_set_is_not_engaged() -> None:
    moved = a_ready_set(rules=rules(trust_domain="elsewhere"))
    with pytest.raises(Conflict, match="trust_domain"):
        engage(claimed_for_set()[-1].after, moved)


# ---- renewed


def test_a_member_that_waits_may_wait_longer_and_that_leaves_no_line() -> None:
    change = extend(engaged()[-1].after, until=later(30000))
    assert (change.after.state, change.after.threshold, change.line) == (RUNNING, later(30000), None)
    assert change.after.round == change.before.round


@pytest.mark.parametrize("until", [22499, 22500])
def test_the_time_of_a_member_is_never_made_shorter(until: float) -> None:
    member = engaged()[-1].after
    assert member.threshold == later(22500)
    with pytest.raises(Conflict, match="already"):
        extend(member, until=later(until))


def test_a_member_of_another_round_is_not_renewed() -> None:
    with pytest.raises(Conflict, match="round"):
        extend(engaged()[-1].after, round="another")


# ---- recalled


def test_a_recalled_member_runs_on_in_a_new_round() -> None:
    before = engaged()[-1].after
    member = recall(before, round="r").after
    assert member == replace(before, round="r", version=before.version + 1)


def test_a_member_is_recalled_from_the_round_that_was_seen_only() -> None:
    with pytest.raises(Conflict, match="round"):
        recall(engaged()[-1].after, old_round="another")


@pytest.mark.parametrize("step", [extend, recall])
def test_a_runner_of_a_workflow_run_is_neither_renewed_nor_recalled(step: Callable[[Instance], object]) -> None:
    with pytest.raises(Conflict, match="not a scale set"):
        step(running()[-1].after)


# ---- as any instance


def test_a_member_goes_back_to_the_pool_like_any_other_and_keeps_its_trust_domain() -> None:
    scale_set = a_ready_set()
    claim = claimed_for_set()[-1].after
    for given_back in (release(engage(claim, scale_set).after).after, roll_back(claim).after):
        assert (given_back.state, given_back.run_id, given_back.attested) == (IDLE, "", False)
        freed = offer(given_back).after
        assert claim_for(freed, scale_set).after.state is CLAIMED
        with pytest.raises(Conflict, match="trust_domain"):
            claim_for(freed, a_ready_set(rules=rules(trust_domain="elsewhere")))


def test_a_set_that_inherits_claims_the_machines_of_another_domain_and_its_own_is_written() -> None:
    used = replace(on_offer()[-1].after, trust_domain="main")
    scale_set = a_ready_set()
    needed = needs(trust_domain=scale_set.rules.trust_domain, inherits=("main",))
    assert claim_for(used, scale_set, needs=needed).after.trust_domain == scale_set.rules.trust_domain


def test_a_member_expires_like_any_other() -> None:
    assert expire(engaged()[-1].after).after.state is TERMINATED


@pytest.mark.parametrize(
    "instance",
    [walk[-1].after for walk in (registered(), on_offer(), claimed_for_set(), cleaning())],
    ids=lambda one: one.state,
)
def test_only_a_running_instance_is_renewed_or_recalled(instance: Instance) -> None:
    for step in (extend, recall):
        with pytest.raises(InvalidTransition):
            step(instance)


@pytest.mark.parametrize(
    "instance",
    [walk[-1].after for walk in (registered(), on_offer(), engaged(), cleaning())],
    ids=lambda one: one.state,
)
def test_only_a_claimed_instance_is_engaged(instance: Instance) -> None:
    with pytest.raises(InvalidTransition):
        engage(instance, a_ready_set())


def test_every_step_is_tried() -> None:
    assert [step.step for step in STEPS] == ["engage", "renew", "recall"]
