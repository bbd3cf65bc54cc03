"""Activities: what travels with a beat is read back; any other text is not an activity."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bullpen.model.activity import LONGEST, Activity, Listening, names_job, parse, parse_listening

BUILD = Activity("acme/widgets", "4711", 1, "4711", "bullpen.i-1.0a1b2c3d", "build")


def test_an_activity_is_read_back_as_it_was_written() -> None:
    assert parse(BUILD.text()) == BUILD


def test_a_long_job_key_is_cut_and_the_other_parts_are_whole() -> None:
    for letter in "xé✓":
        found = parse(Activity(**{**asdict(BUILD), "job": letter * 5000}).text())
        assert found is not None
        assert (found.run, found.runner) == (BUILD.run, BUILD.runner)


@given(*[st.text(max_size=3000)] * 5)
def test_no_activity_is_longer_than_a_beat_carries(one: str, two: str, three: str, four: str, five: str) -> None:
    assert len(Activity(one, two, 1, three, four, five).text()) <= LONGEST
    assert len(Activity("\0" * 3000, "\0" * 3000, 1, "\0" * 3000, "\0" * 3000, "\0" * 3000).text()) <= LONGEST


@given(st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_any_other_text_of_a_worker_is_not_an_activity(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "wrong",
    [{"attempt": "1"}, {"run": 4711}, {"extra": ""}, {"repository": None}, {"attempt": 1.5}, {"attempt": True}],
)
def test_a_text_with_a_wrong_part_is_not_an_activity(wrong: dict[str, object]) -> None:
    assert parse(json.dumps(asdict(BUILD) | wrong)) is None


def test_a_runner_that_waits_for_its_job_is_read_back_and_is_no_job() -> None:
    waits = Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1")
    assert parse_listening(waits.text()) == waits
    assert parse(waits.text()) is None
    assert parse_listening(BUILD.text()) is None


@pytest.mark.parametrize("wrong", [{"id": "42"}, {"id": True}, {"listens": 1}, {"rules": 1}, {"extra": ""}])
def test_a_text_with_a_wrong_part_is_not_a_runner_that_waits(wrong: dict[str, object]) -> None:
    assert parse_listening(json.dumps(asdict(Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1")) | wrong)) is None


@given(st.one_of(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps)))
def test_any_other_text_of_a_worker_is_not_a_runner_that_waits(text: str) -> None:
    assert parse_listening(text) is None


def test_a_runner_that_waits_shows_in_which_round_it_registered() -> None:
    assert Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1").is_of("0a1b2c3d4e5f6071")
    assert not Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1").is_of("1a1b2c3d4e5f6071")
    assert not Listening("bullpen", 42, "d1").is_of("0a1b2c3d4e5f6071")
    assert not Listening("bullpen.i-1..7", 42, "d1").is_of("0a1b2c3d4e5f6071")


def test_a_runner_that_waits_names_no_job_and_what_cannot_be_read_may_name_one() -> None:
    assert names_job(BUILD.text())
    assert names_job("from another version")
    assert not names_job("")
    assert not names_job(Listening("bullpen.i-1.0a1b2c3d.7", 42, "d1").text())
