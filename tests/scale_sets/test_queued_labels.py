"""Labels of queued jobs reach the set that has them, and one that no set has is reported once."""

import pytest

from bullpen.scale_sets.queued_labels import MOST, REMEMBERED, QueuedLabels

SETS = ("bullpen-small", "Gpu-Large")


def noted(*labels: str) -> QueuedLabels:
    made = QueuedLabels()
    for label in labels:
        made.note(label, 100.0)
    return made


def test_a_label_reaches_the_held_set_once_without_regard_to_case() -> None:
    queued = noted("BULLPEN-small", "gpu-large", "ubuntu-latest")
    assert queued.take(SETS, SETS, 101.0) == {"bullpen-small": 100.0, "Gpu-Large": 100.0}
    assert queued.take(SETS, SETS, 101.0) == {}


def test_a_label_of_a_set_that_another_process_holds_is_kept_for_a_while() -> None:
    queued = noted("bullpen-small")
    assert queued.take((), SETS, 101.0) == {}
    assert queued.take(SETS, SETS, 101.0) == {"bullpen-small": 100.0}
    queued = noted("bullpen-small")
    queued.take((), SETS, 100.0 + REMEMBERED)
    assert queued.take(SETS, SETS, 101.0) == {}


@pytest.mark.parametrize("label", ["bullpen-smal", "bullpen-huge", "gpu-larg", "Bullpen-X"])
def test_a_label_that_looks_like_a_set_and_is_none_is_reported_once(label: str) -> None:
    queued = noted(label)
    assert queued.mistaken(SETS) == [label]
    queued.take(SETS, SETS, 101.0)
    queued.note(label, 200.0)
    assert queued.mistaken(SETS) == []


@pytest.mark.parametrize("label", ["ubuntu-latest", "self-hosted", "4711", "4711-1-small", "gpu-LARGE", ""])
def test_other_labels_are_not_reported(label: str) -> None:
    assert noted(label).mistaken(SETS) == []


def test_nothing_is_reported_where_there_are_no_sets() -> None:
    assert noted("bullpen-small").mistaken(()) == []


def test_only_so_many_labels_are_remembered() -> None:
    queued = noted(*(f"bullpen-{n}" for n in range(MOST + 5)))
    assert len(queued.mistaken(SETS)) == MOST
