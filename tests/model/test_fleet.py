"""How the answer to a fleet request is read: by counting; and what follows from a short one."""

import itertools

import pytest

from builders import a_plan
from bullpen.model.fleet import Cause, FleetAnswer, FleetError, LaunchedMachine, Tries, decisive, missing, shortfall
from bullpen.model.ticket import UsageClass

NO_CAPACITY = FleetError("InsufficientInstanceCapacity", "no c5.large in zone a")


def machines(count: int) -> tuple[LaunchedMachine, ...]:
    return tuple(LaunchedMachine(f"i-{n}", "sim.small", UsageClass.ON_DEMAND, 1, 1024) for n in range(count))


def test_as_many_machines_as_requested_satisfy_the_plan() -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(3))) == ""


def test_errors_beside_a_full_count_do_not_matter() -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(3), (NO_CAPACITY,))) == ""


@pytest.mark.parametrize(("count", "launched"), [(0, "none"), (1, "only 1"), (2, "only 2")])
def test_fewer_machines_than_requested_are_a_shortfall_even_without_an_error(count: int, launched: str) -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(count))) == f"{launched} of 3 machines could be launched"


def test_a_machine_that_is_named_twice_counts_once() -> None:
    assert shortfall(a_plan(count=2), FleetAnswer(machines(1) * 2)) == "only 1 of 2 machines could be launched"


def test_a_shortfall_names_each_cause_once() -> None:
    quota = FleetError("MaxSpotInstanceCountExceeded", "limit reached")
    text = shortfall(a_plan(count=3), FleetAnswer((), (NO_CAPACITY, quota, NO_CAPACITY)))
    assert text == (
        "none of 3 machines could be launched (InsufficientInstanceCapacity: no c5.large in zone a;"
        " MaxSpotInstanceCountExceeded: limit reached)"
    )


def test_missing_machines_are_counted_by_their_ids() -> None:
    assert missing(a_plan(count=3), FleetAnswer(machines(2) * 2)) == 1
    assert missing(a_plan(count=1), FleetAnswer(machines(2))) == 0


@pytest.mark.parametrize(("first", "second"), list(itertools.pairwise(Cause)))
def test_of_several_errors_the_one_that_an_operator_must_fix_decides(first: Cause, second: Cause) -> None:
    errors = tuple(FleetError(cause.value, "", cause) for cause in (second, first, second))
    assert decisive(FleetAnswer((), errors)).cause is first


def test_a_shortfall_without_an_error_is_a_lack_of_capacity() -> None:
    assert decisive(FleetAnswer(())).cause is Cause.CAPACITY


@pytest.mark.parametrize("cause", [Cause.QUOTA, Cause.PERMISSION, Cause.CONFIGURATION])
def test_what_an_operator_must_fix_is_not_tried_again(cause: Cause) -> None:
    assert Tries(UsageClass.SPOT, (UsageClass.ON_DEMAND,), attempts=9).after(cause) is None


@pytest.mark.parametrize("cause", [Cause.CAPACITY, Cause.OTHER])
def test_the_fallback_usage_class_is_tried_before_another_attempt(cause: Cause) -> None:
    tries = Tries(UsageClass.SPOT, (UsageClass.ON_DEMAND,), attempts=2)
    after = tries.after(cause)
    assert after == Tries(UsageClass.ON_DEMAND, attempts=2)
    assert after.after(cause) == Tries(UsageClass.ON_DEMAND, attempts=1)
    assert Tries(UsageClass.ON_DEMAND).after(cause) is None


def test_throttling_uses_up_no_attempt() -> None:
    after = Tries(UsageClass.SPOT, attempts=3).after(Cause.THROTTLE)
    assert after is not None
    assert after.attempts == 3
