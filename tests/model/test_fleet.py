"""How the answer to a fleet request is read: by counting."""

import pytest

from builders import a_plan
from bullpen.model.fleet import FleetAnswer, FleetError, Machine, shortfall
from bullpen.model.ticket import UsageClass

NO_CAPACITY = FleetError("InsufficientInstanceCapacity", "no c5.large in zone a")


def machines(count: int) -> tuple[Machine, ...]:
    return tuple(Machine(f"i-{n}", "sim.small", UsageClass.ON_DEMAND, 1, 1024) for n in range(count))


def test_as_many_as_asked_satisfy() -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(3))) == ""


def test_errors_beside_a_full_count_do_not_matter() -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(3), (NO_CAPACITY,))) == ""


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_asked_do_not_satisfy_even_without_an_error(count: int) -> None:
    assert shortfall(a_plan(count=3), FleetAnswer(machines(count))) == f"{count} of 3 machines were to be had"


def test_a_machine_that_is_named_twice_counts_once() -> None:
    assert shortfall(a_plan(count=2), FleetAnswer(machines(1) * 2)) == "1 of 2 machines were to be had"


def test_a_shortfall_names_each_cause_once() -> None:
    quota = FleetError("MaxSpotInstanceCountExceeded", "limit reached")
    told = shortfall(a_plan(count=3), FleetAnswer((), (NO_CAPACITY, quota, NO_CAPACITY)))
    assert told == (
        "0 of 3 machines were to be had (InsufficientInstanceCapacity: no c5.large in zone a;"
        " MaxSpotInstanceCountExceeded: limit reached)"
    )
