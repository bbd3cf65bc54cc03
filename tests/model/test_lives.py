"""Invariants of an instance, for any steps in any order, with true and with false events."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_signal,
    abort,
    adopt,
    claim,
    commit,
    conclude,
    decide,
    done,
    drain,
    expire,
    keep,
    later,
    needs,
    offer,
    open_provision,
    register,
    release,
    roll_back,
    settle,
    spare,
)
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.provision import Provision
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_member import set_of
from bullpen.model.signal import Kind
from bullpen.model.transition import Change
from set_builders import a_ready_set, claim_for, engage, extend, recall, rules

Try = Callable[[Instance], Change[Instance]]

TRIES: dict[str, Try] = {
    "adopt": adopt,
    "adopt on a stale signal": lambda i: adopt(i, signal=a_signal(i, Kind.OK, round="stale")),
    "claim": claim,
    "claim too late": lambda i: claim(i, at=later(10**6)),
    "claim of another domain": lambda i: claim(i, "run-2", needs=needs(trust_domain="other")),
    "commit": commit,
    "commit of another round": lambda i: commit(i, round="stale"),
    "roll back": roll_back,
    "release": release,
    "release of another run": lambda i: release(i, run_id="run-9"),
    "offer": offer,
    "offer on a failure": lambda i: offer(i, signal=a_signal(i, Kind.CLEAN_FAILED)),
    "offer on a stale signal": lambda i: offer(i, signal=a_signal(i, Kind.CLEAN_OK, round="stale")),
    "keep": keep,
    "spare": spare,
    "claim for a set": lambda i: claim_for(i, a_set_of(i)),
    "engage": lambda i: engage(i, a_set_of(i)),
    "engage for another set": lambda i: engage(i, a_ready_set("another")),
    "renew": extend,
    "recall": recall,
    "recall of another round": lambda i: recall(i, old_round="stale"),
    "drain": drain,
    "expire": expire,
    "expire of another round": lambda i: expire(i, round="stale"),
    "done": done,
}


def a_set_of(one: Instance) -> ScaleSet:
    """A set of the trust domain of the instance, or of the first that it serves."""
    return a_ready_set(rules=rules(trust_domain=one.trust_domain or "default"))


lives = st.lists(st.sampled_from(sorted(TRIES)), max_size=40)


def live(first: Change[Instance], tries: list[str]) -> list[Change[Instance]]:
    """The steps that were possible."""
    walk = [first]
    for name in tries:
        try:
            walk.append(TRIES[name](walk[-1].after))
        except (Conflict, InvalidTransition):
            continue
    return walk


def is_sound(instance: Instance) -> bool:
    idle = instance.state is instances.IDLE
    return (
        (not instance.attested or idle)
        and (not idle or not instance.run_id)
        and (instance.state is not instances.CLAIMED or bool(instance.run_id))
        and (
            not idle
            or instance.attested
            or (instance.owes is not None and instance.owes.kind is instances.InstanceDebt.OFFER)
        )
        and (instance.due_at is not None or instance.purge_at is not None)
    )


@given(run_id=st.sampled_from(["", "run-1"]), tries=lives)
def test_no_step_leads_to_a_record_that_no_store_would_keep(run_id: str, tries: list[str]) -> None:
    assert [c.step for c in live(register(run_id=run_id), tries) if not is_sound(c.after)] == []


@given(tries=lives)
def test_an_instance_is_claimed_only_while_it_is_attested(tries: list[str]) -> None:
    became = [c for c in live(register(), tries) if c.after.state is instances.CLAIMED is not c.before.state]
    assert all(c.before.attested for c in became)


@given(tries=lives)
def test_an_idle_instance_that_is_not_attested_can_only_be_offered_spared_drained_or_ended(tries: list[str]) -> None:
    walk = live(register(), tries)
    touched = {c.step for c in walk if c.before.state is instances.IDLE and not c.before.attested}
    assert touched <= {"offer", "spare", "drain", "expire"}
    assert all(not c.after.attested for c in walk if c.step in ("spare", "drain"))


@given(tries=lives)
def test_a_drained_instance_is_never_offered_and_so_gets_no_other_run(tries: list[str]) -> None:
    later_steps = [c for c in live(register(), tries) if c.before.is_drained]
    assert all(c.after.is_drained and not c.after.attested and c.step != "claim" for c in later_steps)


@given(tries=lives)
def test_an_attestation_is_of_the_round_in_which_the_instance_was_given_back(tries: list[str]) -> None:
    for change in live(register(), tries):
        if change.step == "offer":
            assert change.after.round == change.before.round
            assert any(guard.field == "round" for guard in change.guards)


@given(tries=lives)
def test_the_version_rises_by_one_with_every_step(tries: list[str]) -> None:
    walk = live(register(), tries)
    assert [c.after.version for c in walk] == list(range(1, len(walk) + 1))


@given(run_id=st.sampled_from(["", "run-1"]), tries=lives)
def test_the_round_changes_with_every_change_of_owner_and_every_recall_and_only_then(
    run_id: str, tries: list[str]
) -> None:
    for change in live(register(run_id=run_id), tries)[1:]:
        is_new = change.before.run_id != change.after.run_id or change.step == "recall"
        assert is_new is (change.before.round != change.after.round)
        assert change.draws_round is (change.before.round != change.after.round)


@given(tries=lives)
def test_a_used_instance_never_loses_its_trust_domain(tries: list[str]) -> None:
    used_by = ""
    for change in live(register(), tries):
        if change.step == "claim":
            assert used_by in ("", change.after.trust_domain)
            used_by = change.after.trust_domain
        assert change.after.trust_domain == used_by


@given(tries=lives)
def test_an_instance_runs_either_as_a_member_of_a_provision_or_for_a_set(tries: list[str]) -> None:
    for change in live(register(), tries):
        if change.after.state is instances.RUNNING:
            assert bool(change.after.provision_id) is (set_of(change.after) is None)


@given(tries=lives)
def test_no_step_leads_back_from_terminated(tries: list[str]) -> None:
    states = [c.after.state for c in live(register(), tries)]
    ended = states.index(instances.TERMINATED) if instances.TERMINATED in states else len(states)
    assert set(states[ended:]) <= {instances.TERMINATED}


@given(tries=lives)
def test_the_difference_is_the_whole_change_of_a_step(tries: list[str]) -> None:
    assert all(replace(c.before, **c.difference()) == c.after for c in live(register(), tries))


@given(tries=st.lists(st.sampled_from(["commit", "abort", "release", "settle"]), max_size=10))
def test_a_provision_is_decided_at_most_once(tries: list[str]) -> None:
    steps: dict[str, Callable[[Provision], Change[Provision]]] = {
        "commit": lambda p: decide(p, "i-1"),
        "abort": abort,
        "release": conclude,
        "settle": settle,
    }
    walk = [open_provision()]
    for name in tries:
        try:
            walk.append(steps[name](walk[-1].after))
        except InvalidTransition:
            continue
    assert sum(change.step in ("commit", "abort") for change in walk) <= 1
