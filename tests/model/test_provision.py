"""What each step of a provision promises."""

import pytest

from builders import (
    BY,
    NOW,
    a_provision,
    abort,
    admit,
    committed,
    conclude,
    decide,
    later,
    needs,
    open_provision,
    revoke,
    settle,
    wait,
)
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model.provision import (
    ABORTED,
    COMMITTED,
    OPEN,
    Fleet,
    FleetAnswered,
    FleetPlanned,
    FleetState,
    Place,
    Provision,
    ProvisionDebt,
    Renewed,
    answer_fleet,
    plan_fleet,
    renew,
)
from bullpen.model.transition import Debt


def planned(provision: Provision, token: str, count: int = 1) -> Provision:
    return plan_fleet(provision, FleetPlanned(at=NOW, by=BY, client_token=token, count=count)).after


def test_an_opened_provision_has_the_request_before_anything_is_acquired() -> None:
    opened = open_provision(run_id="run-7", want=3, needs=needs(cpu=4), deadline=later(600)).after
    assert (opened.state, opened.version, opened.run_id, opened.want) == (OPEN, 1, "run-7", 3)
    assert (opened.needs.cpu, opened.deadline, opened.members, opened.fleets) == (4, later(600), (), ())


def test_the_token_of_a_fleet_is_written_before_it_is_used() -> None:
    twice = planned(planned(a_provision(), "token-1", 3), "token-2", 1)
    assert twice.fleets == (Fleet("token-1", 3, FleetState.PLANNED), Fleet("token-2", 1, FleetState.PLANNED))


def test_an_answer_is_written_to_its_own_fleet() -> None:
    twice = planned(planned(a_provision(), "token-1"), "token-2")
    answered = answer_fleet(twice, FleetAnswered(at=NOW, by=BY, client_token="token-2")).after
    assert [fleet.state for fleet in answered.fleets] == [FleetState.PLANNED, FleetState.ANSWERED]


def test_a_fleet_that_was_not_planned_has_no_answer() -> None:
    with pytest.raises(Conflict, match="planned no fleet token-2"):
        answer_fleet(planned(a_provision(), "token-1"), FleetAnswered(at=NOW, by=BY, client_token="token-2"))


def test_a_committed_provision_names_its_members_and_owes_their_settlement() -> None:
    decided = decide(a_provision(), "i-1", "i-2", due=later(5)).after
    assert (decided.state, decided.members) == (COMMITTED, ("i-1", "i-2"))
    assert decided.owes == Debt(ProvisionDebt.SETTLE, later(5))


def test_an_aborted_provision_has_a_reason_and_owes_its_settlement() -> None:
    decided = abort(a_provision(), "no capacity", due=later(5)).after
    assert (decided.state, decided.reason, decided.members) == (ABORTED, "no capacity", ())
    assert decided.owes == Debt(ProvisionDebt.SETTLE, later(5))


@pytest.mark.parametrize("decided", [committed(), abort(a_provision()).after], ids=["committed", "aborted"])
def test_a_decided_provision_is_not_decided_again(decided: Provision) -> None:
    for step in (decide, abort, lambda p: plan_fleet(p, FleetPlanned(at=NOW, by=BY, client_token="token", count=1))):
        with pytest.raises(InvalidTransition):
            step(decided)


@pytest.mark.parametrize("decided", [committed(), abort(a_provision()).after], ids=["committed", "aborted"])
def test_a_settled_provision_owes_nothing_and_may_be_purged(decided: Provision) -> None:
    settled = settle(decided, purge_at=later(3600)).after
    assert (settled.state, settled.owes, settled.due_at) == (decided.state, None, None)
    assert settled.purge_at == later(3600)


def test_a_released_provision_owes_the_return_of_its_members_and_is_not_purged_before() -> None:
    settled = settle(committed(members=("i-1", "i-2"))).after
    concluded = conclude(settled, due=later(5)).after
    assert (concluded.state, concluded.members, concluded.purge_at) == (COMMITTED, ("i-1", "i-2"), None)
    assert concluded.owes == Debt(ProvisionDebt.RELEASE, later(5))
    assert settle(concluded).after.owes is None


def test_a_revoked_provision_owes_the_return_of_its_members_and_has_a_reason() -> None:
    settled = settle(committed(members=("i-1", "i-2"))).after
    revoked = revoke(settled, "i-1 was lost", due=later(5)).after
    assert (revoked.state, revoked.members, revoked.purge_at) == (COMMITTED, ("i-1", "i-2"), None)
    assert (revoked.reason, revoked.owes) == ("i-1 was lost", Debt(ProvisionDebt.RELEASE, later(5)))
    assert revoked.is_over
    assert revoked.is_revoked
    closed = settle(revoked).after
    assert closed.is_closed
    assert closed.is_revoked


def test_a_released_provision_is_not_revoked_and_a_revoked_one_may_be_released() -> None:
    released = conclude(committed(members=("i-1",))).after
    for over in (released, settle(released).after):
        with pytest.raises(Conflict, match="was released"):
            revoke(over)
    assert not conclude(revoke(committed(members=("i-1",))).after).after.is_revoked


def test_only_a_committed_provision_is_released() -> None:
    for other in (a_provision(), abort(a_provision()).after):
        with pytest.raises(InvalidTransition):
            conclude(other)


def test_an_open_provision_is_due_at_its_deadline_and_a_decided_one_with_its_debt() -> None:
    opened = a_provision(deadline=later(600))
    assert opened.due_at == later(600)
    assert decide(opened, "i-1", due=later(5)).after.due_at == later(5)


def test_a_waiting_provision_holds_no_planned_fleet_and_is_due_when_its_place_runs_out() -> None:
    waiting = wait(planned(a_provision(), "token-1", 3), until=30).after
    assert waiting.fleets == (Fleet("token-1", 0, FleetState.ANSWERED),)
    assert (waiting.is_waiting, waiting.waits_for) == (True, "limits.max-instances")
    assert (waiting.deadline, waiting.due_at) == (later(1200), later(30))


def test_a_sign_of_life_keeps_the_place_in_a_queue() -> None:
    renewed = renew(wait(a_provision()).after, Renewed(at=NOW, by=BY, until=later(99))).after
    assert renewed.place == Place("limits.max-instances", NOW, later(99))
    assert renew(a_provision(), Renewed(at=NOW, by=BY, until=later(99))).after.place is None


def test_an_admitted_provision_keeps_its_place_until_its_fleet_has_answered() -> None:
    admitted = admit(wait(a_provision()).after).after
    assert (admitted.is_waiting, admitted.deadline, admitted.due_at) == (True, later(600), later(60))
    launched = answer_fleet(planned(admitted, "token"), FleetAnswered(at=NOW, by=BY, client_token="token")).after
    assert (launched.is_waiting, launched.due_at) == (False, later(600))


def test_only_a_waiting_provision_is_admitted() -> None:
    with pytest.raises(Conflict, match="is in no queue"):
        admit(a_provision())


def test_a_decided_provision_is_in_no_queue() -> None:
    waiting = wait(a_provision()).after
    assert [decide(waiting, "i-1").after.place, abort(waiting).after.place] == [None, None]
