"""What each step of a scale set promises."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import later
from bullpen.errors import Conflict, InvalidTransition
from bullpen.model import label as labels
from bullpen.model import limits, repository, rotation, set_session
from bullpen.model import pause as pauses
from bullpen.model import scale_set as sets
from bullpen.model.scale_set import ABSENT, READY, RETIRED, RETIRING, STEPS, WANTED, ScaleSet, SetDebt, SetRepository
from bullpen.model.transition import Change, Debt
from set_builders import (
    NAME,
    SetWalk,
    correct,
    found,
    gone,
    mark_missing,
    ready,
    retire,
    retired,
    retiring,
    revive,
    rules,
    want,
    wanted,
)

STAGES: dict[sets.State, ScaleSet] = {
    ABSENT: sets.absent(NAME),
    WANTED: wanted()[-1].after,
    READY: ready()[-1].after,
    RETIRING: retiring()[-1].after,
    RETIRED: retired()[-1].after,
}
TRIES: dict[str, Callable[[ScaleSet], Change[ScaleSet]]] = {
    "want": want,
    "found": found,
    "correct": correct,
    "mark_missing": mark_missing,
    "retire": retire,
    "revive": revive,
    "gone": gone,
}

# ---- run ids


def test_an_instance_of_a_set_has_the_sets_name_in_its_run_id() -> None:
    scale_set = ready()[-1].after
    assert scale_set.run_id == scale_set.id == sets.set_run_id(NAME) == f"set:{NAME}"
    assert scale_set.name == NAME
    assert sets.set_of_run_id(scale_set.run_id) == NAME


@pytest.mark.parametrize("run_id", ["", "4711", "4711-2-large", "set", "set:", "run-1", "Set:x", " set:x"])
def test_the_id_of_a_run_names_no_set(run_id: str) -> None:
    assert sets.set_of_run_id(run_id) is None


@given(st.text(min_size=1))
def test_no_set_has_the_label_of_a_workflow_run(name: str) -> None:
    assert labels.parse(sets.set_run_id(name)) is None


def test_no_run_and_no_worker_has_the_id_of_another_record() -> None:
    prefixes = (sets.ID_PREFIX, set_session.ID_PREFIX, repository.ID_PREFIX, pauses.ID_PREFIX, rotation.ID_PREFIX)
    assert prefixes == limits.RESERVED
    assert all(prefix in limits.NOT_RESERVED for prefix in limits.RESERVED)
    assert not any(limits.is_run_id(f"{prefix}{NAME}") for prefix in limits.RESERVED)


# ---- wanted and found


def test_a_set_is_wanted_with_its_rules_before_the_ci_has_it() -> None:
    scale_set = want(rules=rules(max=3)).after
    assert (scale_set.state, scale_set.version, scale_set.ci_id) == (WANTED, 1, 0)
    assert scale_set.rules == rules(max=3)


def test_a_set_of_this_name_that_was_there_before_is_left_alone_unless_an_operator_adopts_it() -> None:
    with pytest.raises(Conflict, match="did not create"):
        want(existing=9)
    assert want(existing=9, adopt=True).after.state is WANTED


@pytest.mark.parametrize("ci_id", [0, -1])
def test_a_set_without_an_id_is_not_found(ci_id: int) -> None:
    with pytest.raises(Conflict, match="not the id of a set"):
        found(wanted()[-1].after, ci_id=ci_id)


def test_a_set_that_the_ci_has_is_ready_under_the_ids_of_the_ci() -> None:
    scale_set = found(wanted()[-1].after, ci_id=7, group_id=3).after
    assert (scale_set.state, scale_set.ci_id, scale_set.group_id) == (READY, 7, 3)


def test_a_retired_set_may_be_wanted_again_and_is_another_one_at_the_ci() -> None:
    again = want(STAGES[RETIRED], rules=rules(min=2)).after
    assert (again.state, again.ci_id, again.rules.min) == (WANTED, 0, 2)


# ---- corrected


@pytest.mark.parametrize("state", [WANTED, READY])
def test_changed_settings_are_written_and_the_state_stays(state: sets.State) -> None:
    after = correct(STAGES[state], rules=rules(max=8)).after
    assert (after.state, after.rules, after.ci_id) == (state, rules(max=8), STAGES[state].ci_id)


def test_another_runner_group_changes_the_id_of_the_group() -> None:
    assert correct(STAGES[READY], group_id=9).after.group_id == 9
    assert correct(STAGES[READY]).after.group_id == STAGES[READY].group_id


def test_the_id_of_a_repository_stays_known_when_the_settings_name_it_without() -> None:
    bare = rules(repositories=(SetRepository("Octo/Repo"), SetRepository("octo/new")))
    after = correct(STAGES[READY], rules=bare).after
    assert after.rules.repositories == (SetRepository("Octo/Repo", 4711), SetRepository("octo/new", 0))


def test_an_id_that_the_settings_name_replaces_the_one_that_was_known() -> None:
    after = correct(STAGES[READY], rules=rules(repositories=(SetRepository("octo/repo", 5),))).after
    assert after.rules.repositories == (SetRepository("octo/repo", 5),)


def test_the_domain_of_a_repository_is_completed_with_its_id() -> None:
    bare = rules(repositories=(SetRepository("octo/repo"),), trust_domain="octo/repo#pull-request")
    assert correct(STAGES[READY], rules=bare).after.rules.trust_domain == "octo/repo/4711#pull-request"
    other = rules(repositories=(SetRepository("octo/repo"),), trust_domain="octo/other")
    assert correct(STAGES[READY], rules=other).after.rules.trust_domain == "octo/other"


@pytest.mark.parametrize("state", [WANTED, READY])
def test_a_set_that_has_the_name_in_the_new_group_is_left_alone_unless_an_operator_adopts_it(state: sets.State) -> None:
    moved = rules(group="special")
    with pytest.raises(Conflict, match="did not create"):
        correct(STAGES[state], rules=moved, existing=9)
    assert correct(STAGES[state], rules=moved, existing=9, adopt=True).after.rules.group == "special"


def test_a_set_that_was_moved_at_the_ci_before_is_its_own() -> None:
    assert correct(STAGES[READY], rules=rules(group="special"), existing=STAGES[READY].ci_id).after.state is READY


@pytest.mark.parametrize(("state", "step"), [(READY, correct), (RETIRING, revive)])
def test_the_group_is_unknown_until_the_ci_has_moved_the_set(state: sets.State, step: Any) -> None:
    assert step(STAGES[state], rules=rules(group="special")).after.group_id == 0
    assert step(STAGES[state], rules=rules()).after.group_id == STAGES[state].group_id


# ---- missing


def test_a_set_that_took_the_name_of_a_lost_one_is_left_alone_unless_an_operator_adopts_it() -> None:
    with pytest.raises(Conflict, match="did not create"):
        mark_missing(STAGES[READY], existing=9)
    assert mark_missing(STAGES[READY], existing=9, adopt=True).after.state is WANTED


def test_a_set_that_the_ci_has_lost_is_wanted_again_and_keeps_its_rules() -> None:
    after = mark_missing(STAGES[READY]).after
    assert (after.state, after.ci_id, after.group_id, after.rules) == (WANTED, 0, 0, STAGES[READY].rules)


def test_the_loss_of_an_earlier_set_of_this_name_changes_nothing() -> None:
    with pytest.raises(Conflict, match="ci_id"):
        mark_missing(STAGES[READY], ci_id=6)


# ---- retired


@pytest.mark.parametrize("state", [WANTED, READY])
def test_a_set_that_retires_owes_its_retirement(state: sets.State) -> None:
    after = retire(STAGES[state], due=later(5)).after
    assert (after.state, after.owes) == (RETIRING, Debt(SetDebt.RETIRE, later(5)))
    assert after.ci_id == STAGES[state].ci_id  # by which it is deleted


def test_a_set_that_is_configured_again_before_its_end_is_ready_and_owes_nothing() -> None:
    after = revive(STAGES[RETIRING], rules=rules(max=4)).after
    assert (after.state, after.owes, after.ci_id, after.rules.max) == (READY, None, 7, 4)


def test_a_set_that_was_never_found_is_not_revived() -> None:
    with pytest.raises(Conflict, match="never found"):
        revive(retire(STAGES[WANTED]).after)


def test_a_set_that_is_gone_owes_nothing_and_has_no_id_at_the_ci() -> None:
    after = gone(STAGES[RETIRING]).after
    assert (after.state, after.owes, after.ci_id, after.group_id) == (RETIRED, None, 0, 0)


# ---- all steps


def test_only_a_set_that_is_not_retired_may_have_runners() -> None:
    assert [state for state, one in STAGES.items() if one.may_have_runners] == [WANTED, READY, RETIRING]


@pytest.mark.parametrize("state", list(STAGES), ids=str)
@pytest.mark.parametrize("step", TRIES)
def test_a_step_is_taken_from_its_own_states_only(step: str, state: sets.State) -> None:
    (drawn,) = (one for one in STEPS if one.step == step)
    if state in drawn.sources:
        assert TRIES[step](STAGES[state]).after.state is (drawn.target or state)
    else:
        with pytest.raises(InvalidTransition):
            TRIES[step](STAGES[state])


def test_every_step_is_tried() -> None:
    assert [step.step for step in STEPS] == list(TRIES)


@given(st.lists(st.sampled_from(sorted(TRIES)), max_size=20))
def test_a_set_has_an_id_at_the_ci_whenever_it_is_ready_and_a_debt_exactly_while_it_retires(tries: list[str]) -> None:
    scale_set = sets.absent(NAME)
    walk: SetWalk = []
    for name in tries:
        try:
            walk.append(TRIES[name](scale_set))
        except (Conflict, InvalidTransition):
            continue
        scale_set = walk[-1].after
        assert scale_set.state is not READY or scale_set.ci_id
        assert (scale_set.owes is not None) is (scale_set.state is RETIRING)
    assert [change.after.version for change in walk] == list(range(1, len(walk) + 1))


def test_a_check_for_a_ready_set_holds_for_a_ready_one_only() -> None:
    check: Any = sets.must_be_ready(NAME)
    assert (check.kind, check.id) == (ScaleSet, STAGES[READY].id)
    assert [state for state, one in STAGES.items() if all(guard.holds(one) for guard in check.guards)] == [READY]
