"""Labels of queued jobs reach the set that can run them, and those that no set has are reported once."""

import pytest

from bullpen.scale_sets.queued_labels import MOST, REMEMBERED, UNMATCHED_FOR, MistakenLabels, QueuedLabels, mistake

SETS = ("bullpen-small", "Gpu-Large")


def noted(*jobs: str) -> QueuedLabels:
    """Each job asks for labels that are separated by spaces."""
    made = QueuedLabels()
    for labels in jobs:
        made.note(labels.split(), 100.0, "acme/widgets")
    return made


def mistaken(queued: QueuedLabels) -> list[tuple[str, ...]]:
    return [wrong.labels for wrong, _ in queued.mistaken(SETS)]


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
    assert queued.mistaken(SETS) == [(MistakenLabels((label,)), "acme/widgets")]
    queued.take(SETS, SETS, 101.0)
    queued.note([label], 200.0)
    assert mistaken(queued) == []


@pytest.mark.parametrize("label", ["ubuntu-latest", "self-hosted", "4711", "4711-1-small", "gpu-LARGE", ""])
def test_other_labels_are_not_reported(label: str) -> None:
    assert mistaken(noted(label)) == []


def test_nothing_is_reported_where_there_are_no_sets() -> None:
    assert noted("bullpen-small").mistaken(()) == []


def test_only_so_many_labels_are_remembered() -> None:
    queued = noted(*(f"bullpen-{n}" for n in range(MOST + 5)))
    assert len(mistaken(queued)) == MOST


# ---- more than one label


@pytest.mark.parametrize("labels", ["self-hosted bullpen-small", "bullpen-small linux", "bullpen-small Gpu-Large"])
def test_a_job_that_asks_for_more_than_a_set_has_is_not_the_sets_and_is_reported(labels: str) -> None:
    queued = noted(labels)
    assert mistaken(queued) == [tuple(labels.split())]
    assert queued.take(SETS, SETS, 101.0) == {}
    assert queued.left() == {}


def test_a_job_that_asks_for_one_label_twice_is_the_sets() -> None:
    queued = noted("bullpen-small Bullpen-Small")
    assert mistaken(queued) == []
    assert queued.take(SETS, SETS, 101.0) == {"bullpen-small": 100.0}


@pytest.mark.parametrize("labels", ["self-hosted linux", "self-hosted 4711-1-small"])
def test_other_jobs_with_several_labels_are_not_reported(labels: str) -> None:
    assert mistaken(noted(labels)) == []


def test_the_remedy_names_the_setting_and_what_to_write() -> None:
    tables = {"Gpu-Large": "github.scale-sets.gpu"}
    wrong = mistake(["self-hosted", "gpu-large"], SETS)
    assert wrong is not None
    assert wrong.remedy(tables) == (
        "Write `runs-on: Gpu-Large` in the workflow, without other labels: github.scale-sets.gpu.name is the only one."
    )
    unknown = mistake(["self-hosted", "bullpen-smal"], SETS)
    assert unknown is not None
    assert "github.scale-sets.NAME.name" in unknown.remedy(tables)
    assert "github.scale-sets.NAME.class" in unknown.remedy(tables)


def test_jobs_that_no_set_can_run_are_listed_until_no_process_tells_of_them_any_more() -> None:
    queued = noted("bullpen-smal", "ubuntu-latest")
    queued.mistaken(SETS)
    queued.take(SETS, SETS, 101.0)
    queued.note(["bullpen-smal"], 160.0, "acme/widgets")
    queued.mistaken(SETS)
    (one,) = queued.unmatched(170.0)
    assert (one.wrong.labels, one.repository, one.first_at) == (("bullpen-smal",), "acme/widgets", 100.0)
    assert queued.unmatched(160.0 + UNMATCHED_FOR) == []
