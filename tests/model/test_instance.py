"""What each step of an instance promises."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from builders import (
    NOW,
    Walk,
    a_provision,
    a_signal,
    a_ticket,
    adopt,
    an_instance,
    buried,
    claim,
    claimed,
    cleaning,
    commit,
    committed,
    done,
    drain,
    expire,
    keep,
    later,
    needs,
    offer,
    on_offer,
    register,
    registered,
    release,
    roll_back,
    running,
    terminated,
    used_and_on_offer,
)
from bullpen.config import ResourceClass
from bullpen.errors import Conflict
from bullpen.model.instance import CLAIMED, CREATED, DRAINED, IDLE, RUNNING, TERMINATED, Instance, InstanceDebt
from bullpen.model.signal import Kind
from bullpen.model.ticket import Ticket, parse_ticket
from bullpen.model.transition import Debt

# ---- registered


def test_an_instance_that_is_launched_for_a_run_belongs_to_it_from_its_registration() -> None:
    born = register(run_id="run-1", round="r", provision_id="p-7", until=later(660), trust_domain="default").after
    assert (born.state, born.version, born.run_id, born.round) == (CREATED, 1, "run-1", "r")
    assert (born.provision_id, born.threshold, born.trust_domain) == ("p-7", later(660), "default")
    assert not born.attested


def test_an_adopted_instance_is_on_offer_and_was_never_used() -> None:
    offered = adopt(registered()[-1].after, at=later(3), until=later(423)).after
    assert offered.is_claimable
    assert (offered.threshold, offered.offered_at, offered.trust_domain) == (later(423), later(3), "")


def test_an_instance_of_a_run_is_never_adopted() -> None:
    with pytest.raises(Conflict, match="run_id"):
        adopt(registered(run_id="run-1")[-1].after)


def test_an_instance_whose_boot_failed_is_not_adopted() -> None:
    born = registered()[-1].after
    with pytest.raises(Conflict):
        adopt(born, signal=a_signal(born, Kind.FAILED))


def test_the_boot_of_another_round_or_instance_adopts_no_instance() -> None:
    born = registered()[-1].after
    for lie in ({"round": "another"}, {"instance_id": "i-2"}):
        with pytest.raises(Conflict):
            adopt(born, signal=a_signal(born, Kind.OK, **lie))


# ---- claimed


def test_a_claim_writes_the_owner_and_takes_the_attestation_away() -> None:
    taken = claim(an_instance(), "run-7", round="r", provision_id="p-7", until=later(660)).after
    assert (taken.state, taken.run_id, taken.round, taken.provision_id) == (CLAIMED, "run-7", "r", "p-7")
    assert (taken.threshold, taken.attested) == (later(660), False)


def test_a_claim_writes_the_trust_domain_of_its_run_and_no_later_step_clears_it() -> None:
    taken = claim(an_instance(), needs=needs(trust_domain="forks")).after
    freed = offer(release(commit(taken).after).after).after
    assert taken.trust_domain == freed.trust_domain == "forks"


def test_a_run_that_inherits_may_claim_and_its_trust_domain_is_written() -> None:
    used = an_instance(trust_domain="main")
    taken = claim(used, needs=needs(trust_domain="forks", inherits=("main",))).after
    assert taken.trust_domain == "forks"
    with pytest.raises(Conflict, match="trust_domain"):
        claim(an_instance(trust_domain="forks"), needs=needs(trust_domain="main"))


@pytest.mark.parametrize(
    "unfit",
    [
        {"attested": False},
        {"run_id": "run-2"},
        {"threshold": NOW},
        {"trust_domain": "other"},
        {"image_generation": 2},
        {"image_generation": 0},
    ],
    ids=str,
)
def test_a_claim_needs_a_free_clean_current_trusted_instance_before_its_threshold(unfit: dict[str, Any]) -> None:
    with pytest.raises(Conflict):
        claim(an_instance(**unfit))


def test_every_condition_of_a_claim_is_a_guard_for_the_store() -> None:
    guarded = {guard.field for guard in claim(an_instance()).guards}
    assert guarded == {"run_id", "attested", "threshold", "trust_domain", "image_generation"}


def test_an_instance_is_claimed_by_its_ticket_alone() -> None:
    offered = used_and_on_offer(threshold=later(60.7))[-1].after
    ticket = parse_ticket(offered.ticket().to_json())
    assert isinstance(ticket, Ticket)
    believed = Instance.from_ticket(ticket)
    assert believed.threshold == later(60)  # cut, not rounded
    assert claim(believed, round="r").guards == claim(offered, round="r").guards


def test_a_ticket_without_a_version_does_not_suffice_for_a_claim() -> None:
    with pytest.raises(ValueError, match="carries no version"):
        Instance.from_ticket(a_ticket(version=None))


# ---- committed


@pytest.mark.parametrize("walk", [claimed(), registered(run_id="run-1")], ids=["claimed", "created"])
def test_a_member_of_a_committed_provision_runs(walk: Walk) -> None:
    before = walk[-1].after
    member = commit(before, until=later(1800)).after
    assert (member.state, member.run_id, member.round) == (RUNNING, "run-1", before.round)
    assert member.threshold == later(1800)


def test_no_member_runs_before_the_decision_is_written() -> None:
    with pytest.raises(Conflict, match="is open"):
        commit(claimed()[-1].after, provision=a_provision(members=("i-1",)))


def test_an_instance_that_was_launched_ahead_of_any_run_does_not_run() -> None:
    with pytest.raises(Conflict, match="ahead of any run"):
        commit(registered()[-1].after)


def test_an_instance_that_is_not_a_member_does_not_run() -> None:
    with pytest.raises(Conflict, match="not a member"):
        commit(claimed()[-1].after, provision=committed(members=("i-2",)))


def test_a_member_that_another_run_claimed_meanwhile_does_not_run() -> None:
    taken = claimed()[-1].after
    with pytest.raises(Conflict, match="round"):
        commit(taken, round="another")
    with pytest.raises(Conflict, match="provision_id"):
        commit(taken, provision=committed("p-2"))


# ---- given back


@pytest.mark.parametrize(
    "given_back",
    [
        roll_back(claimed()[-1].after, round="r", until=later(120), offer_due=later(5)).after,
        release(running()[-1].after, round="r", until=later(120), offer_due=later(5)).after,
    ],
    ids=["rolled back", "released"],
)
def test_an_instance_that_is_given_back_has_no_owner_and_a_new_round_and_must_be_cleaned(given_back: Instance) -> None:
    assert (given_back.state, given_back.run_id, given_back.provision_id, given_back.round) == (IDLE, "", "", "r")
    assert not given_back.attested
    assert given_back.threshold == later(120)
    assert given_back.owes == Debt(InstanceDebt.OFFER, later(5))
    assert given_back.is_pending


def test_a_claim_is_rolled_back_by_its_own_round_only() -> None:
    with pytest.raises(Conflict, match="round"):
        roll_back(claimed()[-1].after, old_round="another")


def test_a_run_releases_only_its_own_instances() -> None:
    with pytest.raises(Conflict, match="run_id"):
        release(running()[-1].after, run_id="run-2")


# ---- offered


def test_an_instance_that_attested_in_its_round_goes_on_offer_and_owes_nothing() -> None:
    offered = offer(cleaning()[-1].after, at=later(3), until=later(423)).after
    assert offered.is_claimable
    assert (offered.threshold, offered.offered_at, offered.owes) == (later(423), later(3), None)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.CLEAN_OK])
def test_only_the_attestation_puts_an_instance_on_offer(kind: Kind) -> None:
    dirty = cleaning()[-1].after
    with pytest.raises(Conflict):
        offer(dirty, signal=a_signal(dirty, kind))


def test_the_attestation_of_an_earlier_round_or_another_instance_proves_nothing() -> None:
    dirty = cleaning()[-1].after
    for lie in ({"round": running()[-1].after.round}, {"instance_id": "i-2"}):
        with pytest.raises(Conflict):
            offer(dirty, signal=a_signal(dirty, Kind.CLEAN_OK, **lie))


def test_an_instance_on_offer_is_not_offered_again() -> None:
    with pytest.raises(Conflict, match="attested"):
        offer(used_and_on_offer()[-1].after)


def test_an_instance_that_is_kept_stays_longer_and_its_old_ticket_is_void() -> None:
    offered = on_offer()[-1].after
    kept = keep(offered, until=later(840)).after
    assert kept.threshold == later(840)
    assert kept.ticket().version != offered.ticket().version


def test_an_instance_that_is_not_attested_is_not_kept() -> None:
    with pytest.raises(Conflict, match="attested"):
        keep(cleaning()[-1].after)


# ---- ended


@pytest.mark.parametrize("walk", [registered(), on_offer(), claimed(), running(), cleaning()], ids=lambda w: w[-1].step)
def test_any_live_instance_expires_and_owes_its_termination_at_once(walk: Walk) -> None:
    before = walk[-1].after
    ended = expire(before, at=later(1)).after
    assert (ended.state, ended.attested, ended.threshold) == (TERMINATED, False, before.threshold)
    assert ended.owes == Debt(InstanceDebt.TERMINATE, later(1))
    assert ended.due_at == later(1)


def test_any_process_may_expire_an_instance_past_its_threshold() -> None:
    overdue = an_instance(threshold=later(60))
    assert expire(overdue, round="", at=later(60)).after.state is TERMINATED


def test_before_its_threshold_only_an_expiry_of_its_round_lands() -> None:
    with pytest.raises(Conflict, match="another round"):
        expire(an_instance(threshold=later(60)), round="another", at=later(59))


def test_an_expiry_never_lands_on_another_round_than_the_one_that_was_read() -> None:
    overdue = an_instance(threshold=NOW)
    (guard,) = expire(overdue, round="").guards
    assert not guard.holds(replace(overdue, round="another"))


def test_an_instance_whose_end_is_confirmed_owes_nothing_and_may_be_purged() -> None:
    gone = done(terminated()[-1].after, purge_at=later(3600)).after
    assert (gone.state, gone.owes, gone.due_at, gone.purge_at) == (TERMINATED, None, None, later(3600))


# ---- properties of a record


def test_an_instance_is_due_at_its_threshold_or_earlier_for_its_debt() -> None:
    assert an_instance(threshold=later(60)).due_at == later(60)
    assert an_instance(threshold=later(60), owes=Debt(InstanceDebt.OFFER, later(5))).due_at == later(5)
    assert an_instance(threshold=later(60), owes=Debt(InstanceDebt.OFFER, later(90))).due_at == later(60)
    assert buried()[-1].after.due_at is None


def test_which_states_are_claimable_pending_or_neither() -> None:
    found = {
        walk[-1].step: (walk[-1].after.is_claimable, walk[-1].after.is_pending)
        for walk in (registered(), on_offer(), claimed(), running(), cleaning(), used_and_on_offer(), terminated())
    }
    assert found == {
        "register": (False, True),
        "adopt": (True, False),
        "claim": (False, False),
        "commit": (False, False),
        "release": (False, True),
        "offer": (True, False),
        "expire": (False, False),
    }
    assert not registered(run_id="run-1")[-1].after.is_pending


def test_a_ticket_has_the_values_of_its_record() -> None:
    offered = on_offer("i-7", cpu=4, mem=16384, instance_type="sim.large", resource_class="large")[-1].after
    assert offered.ticket() == a_ticket(
        instance_id="i-7", cpu=4, mem=16384, instance_type="sim.large", resource_class="large", version=offered.version
    )


# ---- drain


@pytest.mark.parametrize(
    "walk", [registered(), claimed(), running(), cleaning()], ids=["created", "claimed", "running", "cleaning"]
)
def test_a_drained_instance_stays_in_its_state_with_its_owner(walk: Walk) -> None:
    before = walk[-1].after
    after = drain(before).after
    assert after.is_drained
    assert (after.state, after.run_id, after.round, after.owes) == (
        before.state,
        before.run_id,
        before.round,
        before.owes,
    )


def test_one_on_offer_is_ended_not_drained() -> None:
    with pytest.raises(Conflict):
        drain(on_offer()[-1].after)


def test_a_drained_instance_is_not_drained_again() -> None:
    with pytest.raises(Conflict, match="drained already"):
        drain(drain(running()[-1].after).after)


def test_a_drained_instance_goes_on_until_its_run_gives_it_back_and_is_never_offered() -> None:
    given_back = release(drain(running()[-1].after).after).after
    assert given_back.is_drained
    with pytest.raises(Conflict, match="ended, not offered"):
        offer(given_back)
    assert expire(given_back).after.state is TERMINATED


def test_a_drained_instance_that_still_boots_is_not_adopted() -> None:
    with pytest.raises(Conflict, match="ended, not offered"):
        adopt(drain(registered(run_id="")[-1].after).after)


def test_a_claim_that_was_drained_may_be_committed_and_rolled_back() -> None:
    taken = drain(claimed()[-1].after).after
    assert commit(taken).after.state is RUNNING
    assert roll_back(taken).after.is_drained


def test_no_class_counts_the_generation_of_a_drained_instance() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"cpu": 1, "mem": 1024, "image-generation": DRAINED}, ResourceClass)
