"""The summary of `bullpen run`: a table with those that failed last, and why they did."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bullpen.cli.run_summary import LISTED, summary_of
from bullpen.cli.text import duration
from bullpen.model.job import FINISHED, RUNNING, Job, Result
from bullpen.provision.outcome import Outcome
from bullpen.run import RunOutcome
from terminals import TerminalStream

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def a_job(index: int, result: Result = Result.SUCCEEDED, code: int | None = 0, **changed: object) -> Job:
    ended = AT + timedelta(seconds=90)
    job = Job(f"j-{index}", FINISHED, 3, "run-1", ("true",), name=f"job-{index}", index=index, fence=1)
    job = replace(job, result=result, exit_code=code, instance_id=f"i-{index}", queued_at=AT, finished_at=ended)
    return replace(job, **changed)  # type: ignore[arg-type]


def failed(index: int, reason: str = "exit code 3", **changed: object) -> Job:
    return a_job(index, Result.FAILED, 3, reason=reason, **changed)


def ran(*jobs: Job, **changed: object) -> RunOutcome:
    started = {job.id: AT + timedelta(seconds=0.5) for job in jobs if job.fence}
    found = RunOutcome(Outcome("run-1", "p-1", 2), jobs, started=started, seconds=91.2)
    return replace(found, **changed)  # type: ignore[arg-type]


def test_a_table_says_where_each_job_ran_how_it_ended_and_how_long_it_took() -> None:
    assert summary_of(ran(a_job(0), a_job(1))).splitlines() == [
        "run-1: 2 of 2 jobs succeeded in 91s",
        "  JOB    RUNNER  RESULT     EXIT  WAITED  RAN",
        "  job-0  i-0     succeeded  0     0.5s    90s",
        "  job-1  i-1     succeeded  0     0.5s    90s",
    ]


def test_one_job_is_said_in_the_singular() -> None:
    assert summary_of(ran(a_job(0))).startswith("run-1: 1 of 1 job succeeded in 91s\n")


def test_those_that_failed_come_last_with_the_reason_and_the_command_that_shows_the_log() -> None:
    lines = summary_of(ran(failed(0), a_job(1)), "bullpen --home here").splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["job-1", "job-0"]
    assert lines[4:] == ["job-0 failed: exit code 3", "  bullpen --home here job logs j-0"]


def test_attempts_are_shown_where_there_was_more_than_one() -> None:
    again = failed(0)
    found = summary_of(ran(again, a_job(1), earlier={again.id: (replace(again, id="j-a"), replace(again, id="j-b"))}))
    assert "2 failed attempts tried again" in found.splitlines()[0]
    assert found.splitlines()[1].endswith("ATTEMPTS")
    assert found.splitlines()[3].split()[-1] == "3"


def test_a_job_that_was_cancelled_names_the_job_whose_failure_cancelled_it() -> None:
    first = failed(1)
    waiting = a_job(2, Result.CANCELLED, None, fence=0, instance_id="")
    found = summary_of(ran(waiting, first, failed_first=first)).splitlines()
    assert found[2].split() == ["job-2", "-", "cancelled", "-", "90s", "-"]
    assert "job-2 was cancelled because job-1 failed" in found
    others = [a_job(n, Result.CANCELLED, -9) for n in range(2, 9)]
    lines = summary_of(ran(*others, first, failed_first=first)).splitlines()
    assert "job-2, job-3, job-4, job-5, job-6 and 2 others were cancelled because job-1 failed" in lines
    assert lines[2].split()[3] == "-", "that it was killed is no exit code of the job"
    assert not any("logs j-2" in line for line in found), "it has none"


def test_a_job_that_has_not_ended_is_shown_as_it_stands() -> None:
    left = replace(a_job(0), state=RUNNING, result=Result.NONE, exit_code=None, finished_at=None)
    assert "job-0 has not ended" in summary_of(ran(left))


def test_a_thousand_jobs_are_shortened() -> None:
    jobs = [a_job(n) for n in range(500)] + [failed(n) for n in range(500, 1000)]
    lines = summary_of(ran(*jobs)).splitlines()
    assert len(lines) < 5 * LISTED
    assert f"and {500 - LISTED} jobs more; --json lists all" in lines


def test_a_reason_stays_on_its_line() -> None:
    assert "job-0 failed: one two [2J\n" in summary_of(ran(failed(0, "one\n two\033[2J")))


def test_sentences_break_between_words_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", TerminalStream())
    monkeypatch.setenv("COLUMNS", "40")
    timed_out = a_job(0, Result.TIMED_OUT, 124, reason="it ran longer than its 1 s, and its processes were ended")
    again = {timed_out.id: [timed_out]}
    assert summary_of(ran(timed_out, earlier=again)).splitlines()[:2] == [
        "run-1: 0 of 1 job succeeded in 91s; 1",
        "    failed attempt tried again",
    ]
    assert summary_of(ran(timed_out)).splitlines()[-3:] == [
        "job-0 timed out: it ran longer than its",
        "    1 s, and its processes were ended",
        "  bullpen job logs j-0",
    ]


def test_a_word_of_a_reason_that_is_longer_than_the_line_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", TerminalStream())
    monkeypatch.setenv("COLUMNS", "40")
    lines = summary_of(ran(failed(0, f"pytests: not found (PATH=/usr/bin:{40 * 'x'})"))).splitlines()
    assert lines[-3:-1] == ["job-0 failed: pytests: not found", f"    (PATH=/usr/bin:{20 * 'x'}…"]


@pytest.mark.parametrize(
    ("columns", "titles"), [("80", "JOB RUNNER RESULT EXIT WAITED RAN"), ("40", "JOB RUNNER RESULT EXIT RAN")]
)
def test_a_narrow_terminal_does_without_some_columns(
    monkeypatch: pytest.MonkeyPatch, columns: str, titles: str
) -> None:
    monkeypatch.setattr("sys.stdout", TerminalStream())
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    assert " ".join(summary_of(ran(a_job(0))).splitlines()[1].split()) == titles


def test_results_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", TerminalStream())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    found = summary_of(ran(a_job(0), failed(1, name="failed")))
    assert "\033[32msucceeded\033[0m" in found
    assert "  failed  i-1     \033[31mfailed\033[0m" in found, "the result is coloured, not the name"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0.0s"), (0.26, "0.3s"), (9.96, "10s"), (119.4, "119s"), (192, "3m12s"), (7500, "2h05m")],
)
def test_a_duration_is_short(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
