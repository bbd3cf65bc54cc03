"""A rotation: which instances are to go, and when it is over."""

import pytest

from builders import NOW, finish_rotation, rotate
from bullpen.errors import Conflict
from bullpen.model.rotation import MEMBERS_MOST, share_of


def test_a_rotation_names_every_instance_that_is_to_go() -> None:
    rotation = rotate("i-1", "i-2").after
    assert (rotation.resource_class, rotation.members, rotation.operator, rotation.since) == (
        "small",
        ("i-1", "i-2"),
        "ada",
        NOW,
    )
    assert rotation.left({"i-2", "i-3"}) == 1


def test_a_rotation_under_way_takes_up_the_instances_of_a_later_one() -> None:
    assert rotate("i-2", "i-3", rotation=rotate("i-1", "i-2").after).after.members == ("i-1", "i-2", "i-3")


def test_a_rotation_that_is_over_names_none_and_may_begin_again() -> None:
    over = finish_rotation(rotate("i-1").after).after
    assert (over.is_on, over.members) == (False, ())
    assert rotate("i-2", rotation=over).after.members == ("i-2",)


def test_a_rotation_of_more_instances_than_a_record_holds_is_refused() -> None:
    with pytest.raises(Conflict, match="more than the 10000"):
        rotate(*(f"i-{number}" for number in range(MEMBERS_MOST + 1)))


@pytest.mark.parametrize(("target", "share"), [(0, 1), (1, 1), (4, 1), (8, 2), (100, 25)])
def test_a_quarter_of_the_idle_target_is_replaced_at_a_time(target: int, share: int) -> None:
    assert share_of(target) == share
