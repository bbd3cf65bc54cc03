"""`bullpen job`: submit, list, show and cancel the jobs of a run, and print their logs."""

from datetime import UTC, datetime
from typing import Any

import click

from bullpen.cli.arguments import checked_id, checked_job, checked_run_id
from bullpen.cli.backend import Backend
from bullpen.cli.options import PoolOptions, answering_options, pool_options
from bullpen.cli.output import answer_width, pass_on, print_json, say
from bullpen.cli.text import ago, table, wrapped
from bullpen.cli.why_text import steps_text
from bullpen.model.job import FINISHED, Result
from bullpen.model.ticket import parse_time
from bullpen.schema.job import JobAnswer, log_of

EPILOG = """
\b
Examples:
  bullpen job submit --run-id 4711 --name unit -- uname -a
  bullpen job list --run-id 4711
  bullpen job show j-0123456789abcdef
  bullpen job logs j-0123456789abcdef --follow
  bullpen job cancel j-0123456789abcdef
"""
TITLES = ("JOB", "NAME", "STATE", "RESULT", "EXIT", "LOST", "INSTANCE", "SUBMITTED")
SPARE = ("INSTANCE", "LOST", "SUBMITTED")
"""Columns that a narrow terminal does without, the first one first."""
WORDS = {"allow_interspersed_args": False}  # what follows the first word belongs to the job


@click.group("job", epilog=EPILOG)
@pool_options
def command() -> None:
    """Run commands on the runners of a run. A job runs at least once and has exactly one result."""


@command.command("submit", context_settings=WORDS)
@click.option("--run-id", required=True, metavar="ID", help="Run whose runners execute the job.")
@click.option("--name", default="", metavar="NAME", help="Name of the job in logs and lists.")
@click.option("--timeout", metavar="SECONDS", help="End the job and all its processes after this time.")
@click.option(
    "--capability", default="", metavar="WORD", help="Capability that its runner must have, see agent.capabilities."
)
@click.option("--side-effects", is_flag=True, help="Repeat the job only after its lost machine is confirmed gone.")
@click.argument("words", nargs=-1, metavar="-- COMMAND...")
@answering_options
def submit(given: PoolOptions, run_id: str, words: tuple[str, ...], **options: Any) -> int:
    """Queue a command for the runners of a run.

    The run must have been provisioned before. The job waits for a free runner of the run that has the capability. If
    the run has no runners any more, it fails after liveness.wait-for-runner.
    """
    target = given.target()
    request = checked_job(run_id, words, **options)
    target.check_served()
    (job,) = target.query(lambda pool: pool.submit([request]))
    return _answer(given, job, f"{job.id} is queued for {job.run_id}")


@command.command("list")
@click.option("--run-id", required=True, metavar="ID", help="Run whose jobs to list.")
@answering_options
def list_(given: PoolOptions, run_id: str) -> int:
    """List the jobs of a run, in the order of submission."""
    target = given.target()
    run_id = checked_run_id(run_id)
    found = target.query(lambda pool: pool.jobs(run_id))
    if given.as_json:
        print_json(found)
    elif not found.jobs:
        say(f"{run_id}: no jobs")
    else:
        now = datetime.now(UTC)
        say(table(TITLES, [_row(job, now) for job in found.jobs], answer_width(), SPARE))
    return 0


@command.command("show")
@click.argument("id")
@answering_options
def show(given: PoolOptions, id: str) -> int:
    """Show a job and its last steps: assignments, losses and result."""
    target = given.target()
    id = checked_id(id)
    job = target.query(lambda pool: pool.job(id))
    width = answer_width()
    lines = wrapped(" ".join(filter(None, (job.id, job.name, standing_of(job)))), width, "    ")
    lines += [f"  command   {' '.join(job.command)}", steps_text(job.story, width)]
    return _answer(given, job, "\n".join(lines))


@command.command("logs")
@click.argument("id")
@click.option("--follow", is_flag=True, help="Keep printing until the job has ended.")
@answering_options
def logs(given: PoolOptions, id: str, follow: bool) -> int:
    """Print the output of a job, attempt by attempt."""
    target = given.target()
    id = checked_id(id)
    lines: list[str] = []

    async def read(pool: Backend) -> JobAnswer:
        async for line in pool.job_lines(id, follow=follow):
            lines.append(line) if given.as_json else pass_on(line)
        return await pool.job(id)

    job = target.query(read, prints=not given.as_json)
    if given.as_json:
        print_json(log_of(job, lines))
    return 0


@command.command("cancel")
@click.argument("id")
@answering_options
def cancel(given: PoolOptions, id: str) -> int:
    """Cancel a job. A queued job ends at once, a running one with all its processes."""
    target = given.target()
    id = checked_id(id)
    job = target.query(lambda pool: pool.cancel_job(id))
    return _answer(given, job, f"{job.id} {standing_of(job)}")


def _answer(given: PoolOptions, job: JobAnswer, text: str) -> int:
    if given.as_json:
        print_json(job)
    else:
        say(text)
    return 0


def standing_of(job: JobAnswer) -> str:
    if job.state is not FINISHED:
        return "is being cancelled" if job.cancelling else f"is {job.state}"
    verb = "was" if job.result is Result.CANCELLED else "has"
    code = f"exit code {job.exit_code}"
    with_code = "" if job.exit_code is None or job.reason == code else f" with {code}"
    return f"{verb} {job.result.replace('-', ' ')}{with_code}" + (f": {job.reason}" if job.reason else "")


def _row(job: JobAnswer, now: datetime) -> tuple[str, ...]:
    return (
        job.id,
        job.name or "–",
        "cancelling" if job.cancelling and job.state is not FINISHED else job.state.value,
        job.result.value or "–",
        "–" if job.exit_code is None else str(job.exit_code),
        str(job.losses),
        job.instance_id or "–",
        ago(parse_time(job.queued_at) if job.queued_at else None, now),
    )
