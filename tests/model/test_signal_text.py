"""Facts in the texts of signals, and agents and control planes of different versions."""

import re

import pytest

from bullpen.model.signal import Kind, Signal
from bullpen.model.signal_text import (
    Fact,
    SignalText,
    busy,
    has_runner,
    refused_version,
    refuses_runner,
    runner_version,
)

WORDS = "the agent has stopped: GitHub refuses runner version 2.1.0: use a newer one"


@pytest.mark.parametrize(
    "said",
    [
        SignalText(),
        SignalText("the disk is full"),
        SignalText("", Fact.RUNNER, "2.336.0"),
        SignalText(f"{WORDS}; its last lines:\nbusy: yes", Fact.REFUSED_RUNNER, "2.1.0"),
        SignalText("job build of acme/widgets has not ended yet", Fact.BUSY),
    ],
)
def test_a_text_has_the_fact_and_the_words_that_were_written(said: SignalText) -> None:
    assert SignalText.parse(str(said)) == said


def test_the_version_of_a_machine_is_not_that_of_a_refusal() -> None:
    has, refused = has_runner("2.336.0"), refuses_runner("2.1.0", WORDS)
    assert (runner_version(has), refused_version(has)) == ("2.336.0", None)
    assert (runner_version(refused), refused_version(refused)) == (None, "2.1.0")
    assert has_runner("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (refuses_runner("2.1.0", WORDS), f"UD_REG_FAILED: {WORDS}"),
        (busy("a job runs"), "UD_REG_FAILED: a job runs"),
        (f"{WORDS}; refused-runner=2.1.0", f"UD_REG_FAILED: {WORDS}"),
        ("the disk is full", "UD_REG_FAILED: the disk is full"),
        ("", "UD_REG_FAILED"),
    ],
)
def test_the_reason_of_a_failure_has_only_the_words(text: str, shown: str) -> None:
    assert Signal("i-1", Kind.REG_FAILED, "run", "round", 1, text).failure == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "runner=",
        "refused-runner=x",
        "my-refused-runner=2.1.0",
        "refused-runner=2",
        "the script printed refused-runner=2.1.0",
        "the script printed runner=2.1.0 and busy: yes",
        "the script failed; refused-runner=2.1.0",
        "busy",
    ],
)
def test_words_for_people_are_never_a_fact(text: str) -> None:
    assert SignalText.parse(text) == SignalText(text)


def test_the_texts_of_agents_of_version_0_1_are_understood() -> None:
    refused = f"{WORDS}; refused-runner=2.1.0; its last lines:\nstops"
    assert refused_version(refused) == "2.1.0"
    assert runner_version("runner=2.336.0") == "2.336.0"
    assert SignalText.parse("busy: job build of acme/widgets, run 4711, has not ended yet").fact is Fact.BUSY


def test_a_control_plane_of_version_0_1_understands_the_texts() -> None:
    """It searches for the versions with these patterns, and for the beginning "busy:"."""
    has, refused = (
        r"(?<![\w-])runner=([0-9]+(?:\.[0-9]+){1,3})\b",
        r"(?<![\w-])refused-runner=([0-9]+(?:\.[0-9]+){1,3})\b",
    )
    assert re.findall(has, has_runner("2.336.0")) == ["2.336.0"]
    assert re.findall(refused, refuses_runner("2.1.0", WORDS)) == ["2.1.0"]
    assert re.search(has, refuses_runner("2.1.0", WORDS)) is None
    assert busy("a job runs").startswith("busy:")
