"""Progress: on a terminal one live line, elsewhere a line for each phase."""

import io

import pytest

from bullpen.cli.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*lines: str, stream: io.StringIO) -> str:
    with ProgressLine(stream) as tell:
        for line in lines:
            tell(line)
    return stream.getvalue()


def test_elsewhere_than_on_a_terminal_a_phase_is_one_line() -> None:
    ticks = (
        "1 of 3 ready",
        "2 of 3 ready",
        "waiting 0.5 s for i-0123456789abcdef",
        "waiting 1.0 s for i-fedcba9876543210",
    )
    assert shown(*ticks, stream=io.StringIO()) == (
        "bullpen: 1 of 3 ready\nbullpen: waiting 0.5 s for i-0123456789abcdef\n"
    )


def test_a_line_is_told_when_something_new_is_awaited_or_nothing_any_longer() -> None:
    told = [
        "0 of 3 ready; waiting: 1 for a runner of the pool",
        "0 of 3 ready; waiting: 2 for a runner of the pool, 1 for a new machine",
        "1 of 3 ready; waiting: 1 for a new machine, 1 for a machine that boots",
        "3 of 3 ready",
    ]
    ticks = {
        1: "0 of 3 ready; waiting: 3 for a new machine",
        2: "2 of 3 ready; waiting: 1 for a machine that boots",
    }
    lines = [line for number, line in enumerate(told) for line in (line, ticks.get(number, line))]
    assert shown(*lines, stream=io.StringIO()) == "".join(f"bullpen: {line}\n" for line in told)


def test_a_phase_that_comes_back_is_told_again() -> None:
    assert shown("selecting", "creating", "selecting", stream=io.StringIO()).count("selecting") == 2


def test_on_a_terminal_nothing_is_left_of_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = shown("1 of 3 ready", "2 of 3 ready", stream=Terminal())
    assert "2 of 3 ready" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


def test_a_line_that_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert "[/red] of run" in shown("[/red] of run", stream=Terminal())
