"""What `bullpen run` shows while it runs: the jobs' lines, and below them one live line that never mixes with them."""

import io
import re
import time
from contextlib import closing

import pytest

from bullpen.cli.output import AnswerLost
from bullpen.cli.run_display import LONGEST_NAME, RunDisplay
from bullpen.model.job import RUNNING, Job
from bullpen.model.progress import ProgressReport, WorkPhase
from terminals import TerminalStream

JOB = Job("j-1", RUNNING, 3, "run-1", ("true",), name="a", index=0)
OTHER = Job("j-2", RUNNING, 3, "run-1", ("true",), name="other", index=1)


def report(ended: int, text: str = "") -> ProgressReport:
    return ProgressReport(WorkPhase.JOBS, text or f"{ended} of 2 jobs ended", ended, 2)


def screen(written: str) -> list[str]:
    """The lines that a terminal shows in the end."""
    lines = [""]
    for part in re.split(r"(\r\x1b\[K|\n)", re.sub(r"\x1b\[[0-9;]*m", "", written)):
        if part == "\n":
            lines.append("")
        elif part.startswith("\r"):
            lines[-1] = ""
        else:
            lines[-1] += part
    return lines


def test_lines_of_jobs_and_the_live_line_never_share_a_line() -> None:
    terminal = TerminalStream()  # both streams, as a person has them
    display = RunDisplay(["a", "other"], terminal, terminal)
    display(report(0))
    display.write(JOB, "one")
    display.write(OTHER, "two")
    display(report(1))
    assert screen(terminal.getvalue()) == ["a     | one", "other | two", "1 of 2 jobs ended"]
    display.write(JOB, "three")
    display(report(2))
    display.close()
    assert screen(terminal.getvalue()) == ["a     | one", "other | two", "a     | three", ""]


def test_a_live_line_is_cut_to_the_terminal_because_one_that_wraps_cannot_be_erased() -> None:
    terminal = TerminalStream()
    RunDisplay(["a"], terminal, io.StringIO())(report(0, "x" * 500))
    assert screen(terminal.getvalue()) == ["x" * 79]


def test_the_bar_of_the_jobs_leaves_with_the_live_line_and_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    terminal, now = TerminalStream(), time.monotonic()
    with closing(RunDisplay(["a"], terminal, terminal)) as display:
        monkeypatch.setattr(time, "monotonic", lambda: now + 7)
        display(report(1))
        assert screen(terminal.getvalue()) == ["#####----- 1 of 2 jobs ended"]
        display.write(JOB, "one")
        display(report(1, "x" * 70))
        assert screen(terminal.getvalue()) == ["a | one", "x" * 70]
    assert screen(terminal.getvalue()) == ["a | one", ""]


def test_output_that_goes_to_a_file_has_no_colours_and_no_live_line() -> None:
    terminal, file = TerminalStream(), io.StringIO()
    with closing(RunDisplay(["a", "other"], terminal, file)) as display:
        display(report(0))
        display.write(JOB, "one")
    assert file.getvalue() == "a     | one\n"
    assert screen(terminal.getvalue()) == [""]


def test_without_a_terminal_each_change_is_a_line() -> None:
    log, file = io.StringIO(), io.StringIO()
    with closing(RunDisplay(["a"], log, file)) as display:
        for one in (report(0), report(0, "0 of 2 jobs ended; 7 s"), report(1)):
            display(one)
    assert log.getvalue() == "bullpen: 0 of 2 jobs ended\nbullpen: 1 of 2 jobs ended\n"


def test_each_job_has_its_colour_and_colours_of_a_job_end_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = TerminalStream()
    display = RunDisplay(["a", "other"], io.StringIO(), terminal)
    display.write(JOB, "plain")
    display.write(OTHER, "\033[31mred")
    display.write(JOB, "again")
    first, second, third = terminal.getvalue().splitlines()
    assert first.startswith("\033[36ma     |\033[0m ")
    assert third.startswith("\033[36m")
    assert second == "\033[35mother |\033[0m \033[31mred\033[0m"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    terminal = TerminalStream()
    RunDisplay(["a"], io.StringIO(), terminal).write(JOB, "one")
    assert terminal.getvalue() == "a | one\n"


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    terminal = TerminalStream()
    RunDisplay(["a"], terminal, io.StringIO())(report(0))
    assert terminal.getvalue() == "bullpen: 0 of 2 jobs ended\n"


def test_a_long_name_leaves_room_for_the_line() -> None:
    file = io.StringIO()
    RunDisplay(["x" * 128], io.StringIO(), file).write(Job("j-1", RUNNING, 3, "r", ("true",), name="x" * 128), "one")
    assert file.getvalue() == f"{'x' * (LONGEST_NAME - 1)}~ | one\n"


def test_a_reader_that_left_is_an_error_that_has_a_name() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(AnswerLost, match="stdout"):
        RunDisplay(["a"], io.StringIO(), Closed()).write(JOB, "one")
