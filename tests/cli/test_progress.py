"""Progress: on a terminal one live line, elsewhere a line for each phase and each change of a count."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from bullpen.cli.progress import PATIENCE, ProgressDisplay
from bullpen.model.progress import ProgressReport, WorkPhase, acquiring
from terminals import TerminalStream

SELECT, CREATE, REGISTER = WorkPhase.SELECT, WorkPhase.CREATE, WorkPhase.REGISTER


def shown(*reports: ProgressReport, stream: io.StringIO) -> str:
    with closing(ProgressDisplay(stream)) as tell:
        for report in reports:
            tell(report)
    return stream.getvalue()


def test_a_log_has_one_line_for_a_phase_whose_counts_do_not_change() -> None:
    ticks = (
        acquiring(1, 3, {}),
        acquiring(1, 3, {}),
        ProgressReport(WorkPhase.QUEUE, "waiting for p-0123456789abcdef"),
        ProgressReport(WorkPhase.QUEUE, "waiting for p-fedcba9876543210"),
    )
    assert shown(*ticks, stream=io.StringIO()) == "bullpen: 1 of 3 ready\nbullpen: waiting for p-0123456789abcdef\n"


def test_a_phase_that_concerns_something_else_is_shown_again() -> None:
    caps = [ProgressReport(WorkPhase.QUEUE, f"waiting for room: {cap}", about=cap) for cap in ("a", "a", "b")]
    assert shown(*caps, stream=io.StringIO()) == "bullpen: waiting for room: a\nbullpen: waiting for room: b\n"


def test_each_change_of_a_count_is_one_line() -> None:
    changes = [
        acquiring(0, 3, {SELECT: 3}),
        acquiring(0, 3, {SELECT: 2, CREATE: 1}),
        acquiring(1, 3, {SELECT: 1, CREATE: 1}),
        acquiring(2, 3, {REGISTER: 1}),
        acquiring(3, 3, {}),
    ]
    reports = [report for report in changes for _ in range(2)]
    assert shown(*reports, stream=io.StringIO()) == "".join(f"bullpen: {report.text}\n" for report in changes)


def test_the_words_of_a_report_name_what_is_awaited() -> None:
    text = "1 of 3 ready; waiting: 2 for a new machine, 1 for a machine that boots and registers"
    assert acquiring(1, 3, {SELECT: 0, CREATE: 2, REGISTER: 1}).text == text


def test_a_phase_that_comes_back_is_shown_again() -> None:
    selecting, creating = ProgressReport(SELECT, "selecting"), ProgressReport(CREATE, "creating")
    assert shown(selecting, creating, selecting, stream=io.StringIO()).count("selecting") == 2


def test_on_a_terminal_nothing_is_left_of_the_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = shown(acquiring(1, 3, {}), acquiring(2, 3, {}), stream=TerminalStream())
    assert "2 of 3 ready" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


def test_a_line_that_looks_like_markup_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert "[/red] of run" in shown(ProgressReport(WorkPhase.JOBS, "[/red] of run"), stream=TerminalStream())


def test_work_that_reports_nothing_shows_that_it_goes_on_but_only_if_it_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = TerminalStream()
    now = time.monotonic()
    display = ProgressDisplay(terminal, text="asking")
    monkeypatch.setattr(time, "monotonic", lambda: now + PATIENCE - 0.1)
    display.tick()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(time, "monotonic", lambda: now + PATIENCE + 5)
    display.tick()
    display.close()
    assert "asking; 7 s" in terminal.getvalue()


def test_a_line_fits_the_terminal_with_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    now = time.monotonic()
    terminal = TerminalStream()
    with closing(ProgressDisplay(terminal)) as display:
        monkeypatch.setattr(time, "monotonic", lambda: now + 100)
        display(ProgressReport(WorkPhase.JOBS, "x" * 200))
    text = terminal.getvalue()
    assert "; 100 s" in text
    assert "x" * 80 not in text


@pytest.mark.parametrize(
    ("encoding", "done", "bar"),
    [
        ("utf-8", 0, "░░░░░░░░░░ "),
        ("utf-8", 1, "███░░░░░░░ "),
        ("utf-8", 3, "██████████ "),
        ("ascii", 1, "###------- "),
        ("ascii", 3, "########## "),
    ],
)
def test_counted_work_that_takes_long_has_a_bar(
    monkeypatch: pytest.MonkeyPatch, encoding: str, done: int, bar: str
) -> None:
    assert bar + f"{done} of 3 ready; 7 s" in after(7, acquiring(done, 3, {}), encoding, monkeypatch)
    assert bar not in after(1, acquiring(done, 3, {}), encoding, monkeypatch)


@pytest.mark.parametrize(
    "report",
    [
        acquiring(1, 3, {SELECT: 2, CREATE: 1, REGISTER: 4}),  # too long
        ProgressReport(WorkPhase.REPLACE, "replacing", total=3),
        ProgressReport(WorkPhase.END, "0 ended, 0 left"),
    ],
)
def test_no_bar_where_nothing_is_counted_or_the_line_is_full(
    monkeypatch: pytest.MonkeyPatch, report: ProgressReport
) -> None:
    text = after(7, report, "utf-8", monkeypatch)
    assert report.text[:40] in text
    assert "░" not in text


def after(seconds: float, report: ProgressReport, encoding: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a terminal gets that shows a report so long after the start."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in (("LANG", "C.UTF-8"), ("LC_ALL", ""), ("LC_CTYPE", "")):
        monkeypatch.setenv(name, value)

    class Encoded(TerminalStream):
        pass

    Encoded.encoding = encoding
    terminal, now = Encoded(), time.monotonic()
    with monkeypatch.context() as patch, closing(ProgressDisplay(terminal)) as display:
        patch.setattr(time, "monotonic", lambda: now + seconds)
        display(report)
    return terminal.getvalue()


def test_output_of_the_command_itself_has_no_line_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    now = time.monotonic()
    terminal = TerminalStream()
    with closing(ProgressDisplay(terminal, text="")) as display:
        monkeypatch.setattr(time, "monotonic", lambda: now + 100)
        display.tick()
    assert terminal.getvalue() == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "arguments", "shown"),
    [
        ("deaf", ("provision", "--run-id", "run-1", "--count", "1"), "waiting;"),
        ("deaf", ("status",), "working;"),
    ],
)
def test_a_command_that_waits_counts_the_seconds_on_a_real_terminal(
    tmp_path: Path, mode: str, arguments: tuple[str, ...], shown: str
) -> None:
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")} | {"TERM": "xterm"}
    script = str(Path(__file__).with_name("slow_pool.py"))
    line = [sys.executable, script, mode, *arguments]
    process = subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, env=environ)
    os.close(theirs)
    text, seconds = "", set[str]()
    until = time.monotonic() + 60
    try:
        while len(seconds) < 2 and time.monotonic() < until:
            if select.select([ours], [], [], 1.0)[0]:
                text += os.read(ours, 4096).decode(errors="replace")
            seconds = set(re.findall(rf"{shown} (\d+) s", text))
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert len(seconds) == 2, text
