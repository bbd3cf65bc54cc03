"""Labels: what they say, and that every form is read back as it was written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.model.label import AMBIGUOUS, Label, parse

RUNS = st.integers(1, 10**19).map(str)
CLASSES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True).filter(
    lambda name: name.isascii() and not AMBIGUOUS.fullmatch(name)
)


@given(RUNS, st.integers(0, 9999), st.one_of(st.just(""), CLASSES))
def test_a_label_is_read_back_as_it_was_written(run: str, attempt: int, resource_class: str) -> None:
    label = Label(run, attempt, resource_class)
    assert parse(str(label)) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("4711", Label("4711")),
        ("4711-2", Label("4711", 2)),
        ("4711-large", Label("4711", 0, "large")),
        ("4711-2xlarge", Label("4711", 0, "2xlarge")),
        ("4711-2-2xlarge", Label("4711", 2, "2xlarge")),
    ],
)
def test_run_attempt_and_class_are_parsed_from_a_label(text: str, label: Label) -> None:
    assert parse(text) == label


@pytest.mark.parametrize("text", ["", "run-1", "0", "007", "4711-", "4711 2", "-2", "4711-0", "١٢", "4711\n", "x4711"])
def test_a_text_that_is_not_a_label_of_a_workflow_run_is_not_parsed(text: str) -> None:
    assert parse(text) is None or str(parse(text)) == text
    if text != "4711-0":
        assert parse(text) is None


def test_a_label_admits_its_run_in_its_attempt_and_later_ones() -> None:
    assert Label("4711").admits("4711", 1)
    assert Label("4711", 2).admits("4711", 3)
    assert not Label("4711", 2).admits("4711", 1)
    assert not Label("4711").admits("4712", 1)


@pytest.mark.parametrize("name", ["2", "12", "2-x", "7-large"])
def test_a_class_name_that_looks_like_an_attempt_is_ambiguous(name: str) -> None:
    assert AMBIGUOUS.fullmatch(name)
