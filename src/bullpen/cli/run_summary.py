"""The last words of `bullpen run`: how each job ended, where, how long it took, and where to read more."""

import sys
from collections.abc import Sequence

from bullpen.cli.output import answer_width
from bullpen.cli.run_display import shortened_name
from bullpen.cli.text import DEEPER, columns, cut, duration, plural, wrapped
from bullpen.model.job import FINISHED, Job, Result
from bullpen.run import RunOutcome, exit_code_of
from bullpen.structured_log import has_colours

LISTED = 20  # jobs of each kind in the table, and failures below it; --json has them all
NAMED = 5  # jobs that one failure has cancelled
REASON = 160  # characters; the job's log has it whole
COLOURS = {Result.SUCCEEDED: "32", Result.CANCELLED: "33", Result.FAILED: "31", Result.TIMED_OUT: "31"}
TITLES = ("JOB", "RUNNER", "RESULT", "EXIT", "WAITED", "RAN", "ATTEMPTS")
DROPPED = ("WAITED", "RUNNER")
"""Columns that a narrow terminal does without, the first one first."""


def summary_of(ran: RunOutcome, program: str = "bullpen") -> str:
    """One line about the run, a table with those that failed last, and why they did. `program` reads their logs."""
    good = [job for job in ran.jobs if exit_code_of(job) == 0]
    lines = [*_wrapped(f"{ran.outcome.run_id}: {_counted(ran, len(good))}"), *_table(ran, good)]
    told = [job for job in _worst_last(ran.jobs) if exit_code_of(job) != 0]
    if ran.failed_first is not None and (cancelled := [job for job in told if job.result is Result.CANCELLED]):
        told = [job for job in told if job not in cancelled]
        were = "was" if len(cancelled) == 1 else "were"
        names = _listed([_name(job) for job in cancelled])
        lines += _wrapped(f"{names} {were} cancelled because {_name(ran.failed_first)} failed")
    for job in told[:LISTED]:
        lines += _wrapped(f"{_name(job)} {_why(job)}")
        if job.fence:
            lines.append(f"  {program} job logs {job.id}")
    if len(told) > LISTED:
        lines.append(f"and {plural(len(told) - LISTED, 'job')} more; --json lists all")
    return "\n".join(lines)


def _wrapped(sentence: str) -> list[str]:
    return wrapped(sentence, answer_width(), DEEPER)


def _counted(ran: RunOutcome, good: int) -> str:
    text = f"{good} of {plural(len(ran.jobs), 'job')} succeeded in {duration(ran.seconds)}"
    lost = sum(job.losses for job in ran.jobs)
    if lost:
        text += f"; {plural(lost, 'runner')} lost, and {'its job' if lost == 1 else 'their jobs'} ran again"
    again = sum(map(len, ran.earlier.values()))
    return text + (f"; {plural(again, 'failed attempt')} tried again" if again else "")


def _table(ran: RunOutcome, good: Sequence[Job]) -> list[str]:
    """Those that succeeded first, and no more of them than a person reads."""
    shown = [job for job in _worst_last(ran.jobs) if job not in good[LISTED:]]
    rows = [TITLES, *(_row(ran, job) for job in shown[: 2 * LISTED])]
    has_more_attempts = any(ran.attempts(job) > 1 for job in ran.jobs)
    dropped = [] if has_more_attempts else ["ATTEMPTS"]
    table = _without(rows, dropped)
    width = answer_width()
    for title in DROPPED:
        if width and max(map(len, columns(table, "  ").splitlines())) > width:
            dropped.append(title)
            table = _without(rows, dropped)
    head, *lines = columns(table, "  ").splitlines()
    left = len(ran.jobs) - len(lines)
    painted = [_painted(line, job) for line, job in zip(lines, shown, strict=False)]
    return [head, *painted, *([f"  and {plural(left, 'job')} more"] if left else [])]


def _without(rows: Sequence[Sequence[str]], titles: Sequence[str]) -> list[list[str]]:
    kept = [position for position, title in enumerate(TITLES) if title not in titles]
    return [[row[position] for position in kept] for row in rows]


def _row(ran: RunOutcome, job: Job) -> tuple[str, ...]:
    spent = ran.durations(job)
    return (
        _name(job),
        job.instance_id or "-",
        _result(job),
        "-" if job.exit_code is None or job.result is Result.CANCELLED else str(exit_code_of(job)),
        _lasted(spent.waited),
        _lasted(spent.ran),
        str(ran.attempts(job)),
    )


def _lasted(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _worst_last(jobs: Sequence[Job]) -> list[Job]:
    order = {Result.SUCCEEDED: 0, Result.CANCELLED: 1}
    return sorted(jobs, key=lambda job: (order.get(job.result, 2), job.index))


def _listed(names: Sequence[str]) -> str:
    if len(names) > NAMED:
        names = [*names[:NAMED], plural(len(names) - NAMED, "other")]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _why(job: Job) -> str:
    if job.state is not FINISHED:
        return "has not ended: its runner did not answer"
    words = "".join(char if char.isprintable() else " " for char in job.reason).split()
    room = (answer_width() or REASON) - len(DEEPER)
    reason = cut(" ".join(cut(word, room) for word in words), REASON)  # a PATH is one word
    result = _result(job).replace("-", " ")  # it timed out
    return f"{result}: {reason}" if reason else result


def _result(job: Job) -> str:
    return job.result.value or job.state.value


def _name(job: Job) -> str:
    return shortened_name(job.name or job.id)


def _painted(line: str, job: Job) -> str:
    if not has_colours(sys.stdout):
        return line
    result = _result(job)
    at = line.index(f" {result}", len(_name(job))) + 1
    return f"{line[:at]}\033[{COLOURS.get(job.result, '33')}m{result}\033[0m{line[at + len(result) :]}"
