"""`bullpen run`: get runners, run jobs on them, stream their output, and release the runners."""

import secrets
import sys
from dataclasses import replace

import click

from bullpen.cli.arguments import checked_job, checked_request, checked_run_id
from bullpen.cli.jobfile import read_jobs
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import complain, print_json, say
from bullpen.cli.provision import runner_options
from bullpen.cli.runs import refusal
from bullpen.cli.sync import sending, work_tree_of
from bullpen.cli.text import columns, plural
from bullpen.jobs import check_served
from bullpen.model.job import Job
from bullpen.run import RunOutcome, exit_code_of, numbered, run

EPILOG = """
\b
Examples:
  bullpen run --count 3 -- make test SHARD={index}
  bullpen run --count 2 --jobs jobs.jsonl
  bullpen run --count 1 --resource-class large --timeout 600 -- ./bench.sh

In a git work tree, every job starts in a fresh copy of it: tracked files, and untracked ones that are not ignored.
--sync DIR names another directory, --no-sync starts jobs in an empty one.

Without --jobs the command runs N times. {index} in its words, and the variable BULLPEN_JOB_INDEX, is 0 to N-1.

\b
With --jobs FILE, each line, or each entry of one JSON list, describes a job. Only command is required:
  {"name": "unit", "command": ["make", "test"], "timeout": 600, "capability": "docker", "side-effects": true}

If a runner is lost, it is replaced and its job runs again. The exit code is the highest of all jobs. If the command is
interrupted, it cancels the jobs and releases the runners.
"""


@click.command(
    "run", epilog=EPILOG, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option("--run-id", metavar="ID", help="Id of the run [a random one].")
@click.option("--jobs", "jobs_file", metavar="FILE", help="Jobs as JSON lines or a JSON list; - reads stdin.")
@click.option("--name", default="", metavar="NAME", help="Name of the jobs; their number is added.")
@click.option("--timeout", metavar="SECONDS", help="End each job and all its processes after this time.")
@click.option(
    "--capability", default="", metavar="WORD", help="Capability that a runner must have, see agent.capabilities."
)
@click.option("--sync", "sync_dir", metavar="DIR", help="Directory that jobs get a copy of [the git work tree].")
@click.option("--no-sync", is_flag=True, help="Start jobs in an empty directory.")
@click.option("--side-effects", is_flag=True, help="Repeat a job only after its lost machine is confirmed gone.")
@runner_options
@click.argument("words", nargs=-1, metavar="[-- COMMAND...]")
@answering_options
def command(
    given: PoolOptions,
    /,
    run_id: str | None,
    jobs_file: str | None,
    name: str,
    timeout: str | None,
    capability: str,
    sync_dir: str | None,
    no_sync: bool,
    side_effects: bool,
    words: tuple[str, ...],
    allowed_instance_types: str,
    **options: str | bool | None,
) -> int:
    """Get N runners, run jobs on them, stream their output, and release the runners."""
    settings = given.load().settings
    check_served(settings)
    run_id = checked_run_id(run_id) if run_id is not None else f"run-{secrets.token_hex(4)}"
    request = checked_request(settings, run_id=run_id, allowed_types=allowed_instance_types, **options)  # type: ignore[arg-type]
    if jobs_file is None:
        template = checked_job(
            run_id, words, name=name, timeout=timeout, capability=capability, side_effects=side_effects
        )
        wanted = numbered(run_id, words, request.count, template)
    elif words or name or timeout or capability or side_effects:
        remedy = "Remove --jobs, or the command, --name, --timeout, --capability and --side-effects."
        raise refusal("--jobs", "each job of the file has its own command and options", remedy=remedy)
    else:
        wanted = [replace(job, run_id=run_id) for job in read_jobs(jobs_file, sys.stdin)]
    tree = work_tree_of(settings, sync_dir, no_sync)
    width = max(len(job.name) for job in wanted)

    def write(job: Job, line: str) -> None:
        print(f"{job.name:<{width}} | {line}", file=sys.stderr if given.as_json else sys.stdout, flush=True)

    ran = given.perform(
        settings,
        lambda ports, stop, tell: run(
            ports,
            settings,
            request,
            wanted,
            stop=stop,
            tell=tell,
            write=write,
            files=sending(ports, settings, given.directory, tree, stop, tell),
        ),
        stops=True,
    )
    if not ran.outcome.succeeded:
        if given.as_json:
            from bullpen.schema.provision import provision_of

            print_json(provision_of(ran.outcome))
        else:
            complain(f"{run_id}: {ran.outcome.reason}", ran.outcome.remedy)
        return ran.outcome.exit_code
    if given.as_json:
        from bullpen.schema.run import run_result_of

        print_json(run_result_of(ran))
    else:
        _tell(ran)
    return ran.exit_code


def _tell(ran: RunOutcome) -> None:
    good = sum(exit_code_of(job) == 0 for job in ran.jobs)
    lost = sum(job.losses for job in ran.jobs)
    summary = f"{ran.outcome.run_id}: {good} of {plural(len(ran.jobs), 'job')} succeeded"
    again = f"; {plural(lost, 'runner')} lost, and {'its job' if lost == 1 else 'their jobs'} ran again"
    say(summary + (again if lost else ""))
    bad = [job for job in ran.jobs if exit_code_of(job) != 0]
    if bad:
        say(columns([(job.id, job.name or "–", job.result.value or job.state.value, job.reason) for job in bad], "  "))
