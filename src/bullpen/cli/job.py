"""`bullpen job`: submit, list, show and cancel the jobs of a run, and print their logs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from bullpen.cli.arguments import checked_id, checked_job, checked_run_id
from bullpen.cli.options import PoolOptions, answering_options, pool_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import ago, columns
from bullpen.inventory import require_run
from bullpen.model.job import FINISHED, Job
from bullpen.model.ticket import format_time
from bullpen.model.transition import StoryLine
from bullpen.ports import Ports

FOLLOW_EVERY = 0.25  # seconds
BY = "job"
EPILOG = """
\b
Examples:
  bullpen job submit --run-id 4711 --name unit -- make test
  bullpen job list --run-id 4711
  bullpen job logs j-0123456789abcdef --follow
  bullpen job cancel j-0123456789abcdef
"""
WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


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
    settings = given.load().settings
    request = checked_job(run_id, words, **options)
    from bullpen import jobs

    jobs.check_served(settings)

    async def submit_checked(ports: Ports) -> Job:
        await require_run(ports, request.run_id)
        (job,) = await jobs.submit(ports, [request], by=BY)
        return job

    job = given.query(settings, submit_checked)
    return _answer(given, job, f"{job.id} is queued for {job.run_id}")


@command.command("list")
@click.option("--run-id", required=True, metavar="ID", help="Run whose jobs to list.")
@answering_options
def list_(given: PoolOptions, run_id: str) -> int:
    """List the jobs of a run, in the order of submission."""
    settings = given.load().settings
    run_id = checked_run_id(run_id)
    from bullpen import jobs

    found = given.query(settings, lambda ports: jobs.of_run(ports, run_id))
    if given.as_json:
        from bullpen.schema.job import jobs_of

        print_json(jobs_of(run_id, found))
    elif not found:
        say(f"{run_id}: no jobs")
    else:
        now = datetime.now(UTC)
        titles = ("JOB", "NAME", "STATE", "RESULT", "EXIT", "LOST", "INSTANCE", "SUBMITTED")
        say(columns([titles, *(_row(job, now) for job in found)]))
    return 0


@command.command("show")
@click.argument("id")
@answering_options
def show(given: PoolOptions, id: str) -> int:
    """Show a job and its last steps: assignments, losses and result."""
    settings = given.load().settings
    id = checked_id(id)
    from bullpen import jobs

    async def look(ports: Ports) -> tuple[Job, list[StoryLine]]:
        return await jobs.find(ports, id), (await ports.records.stories([id])).get(id, [])

    job, lines = given.query(settings, look)
    head = f"{job.id} {job.name} is {_standing(job)}".replace("  ", " ")
    story = columns([(format_time(x.at), x.step, f"→ {x.state}", x.by, x.why) for x in lines], indent="  ")
    return _answer(given, job, f"{head}\n  command   {' '.join(job.command)}\n{story}", lines)


@command.command("logs")
@click.argument("id")
@click.option("--follow", is_flag=True, help="Keep printing until the job has ended.")
@answering_options
def logs(given: PoolOptions, id: str, follow: bool) -> int:
    """Print the output of a job, attempt by attempt."""
    settings = given.load().settings
    id = checked_id(id)
    lines: list[str] = []

    async def read(ports: Ports) -> Job:
        from bullpen import jobs
        from bullpen.jobs.log_tail import JobLogTail

        follower = JobLogTail(ports, id)
        while True:
            job = await jobs.find(ports, id)
            while new := await follower.new_lines(job):
                for line in new:
                    lines.append(line) if given.as_json else say(line)
            if job.state is FINISHED or not follow:
                return job
            await ports.signals.wait(FOLLOW_EVERY)

    job = given.query(settings, read)
    if given.as_json:
        from bullpen.schema.job import log_of

        print_json(log_of(job, lines))
    return 0


@command.command("cancel")
@click.argument("id")
@answering_options
def cancel(given: PoolOptions, id: str) -> int:
    """Cancel a job. A queued job ends at once, a running one with all its processes."""
    settings = given.load().settings
    id = checked_id(id)
    from bullpen import jobs

    why = "requested by an operator"
    job = given.query(settings, lambda ports: jobs.cancel(ports, settings, id, by=BY, why=why))
    return _answer(given, job, f"{job.id} is {_standing(job)}")


def _answer(given: PoolOptions, job: Job, text: str, story: Sequence[StoryLine] = ()) -> int:
    if given.as_json:
        from bullpen.schema.job import job_of

        print_json(job_of(job, story))
    else:
        say(text)
    return 0


def _standing(job: Job) -> str:
    if job.state is FINISHED:
        code = "" if job.exit_code is None else f" with {job.exit_code}"
        return f"{job.result}{code}" + (f": {job.reason}" if job.reason else "")
    return "being cancelled" if job.cancelling else job.state.value


def _row(job: Job, now: datetime) -> tuple[str, ...]:
    return (
        job.id,
        job.name or "–",
        "cancelling" if job.cancelling and job.state is not FINISHED else job.state.value,
        job.result.value or "–",
        "–" if job.exit_code is None else str(job.exit_code),
        str(job.losses),
        job.instance_id or "–",
        ago(job.queued_at, now),
    )
