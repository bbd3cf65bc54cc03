"""`bullpen run`: get runners, run jobs on them, stream their output, and release the runners."""

import asyncio
import secrets
import sys
from dataclasses import replace
from pathlib import Path

import click

from bullpen.cli.arguments import checked_artifacts, checked_job, checked_request, checked_retries, checked_run_id
from bullpen.cli.artifacts import Collected, checked_out, collect
from bullpen.cli.backend import Backend
from bullpen.cli.jobfile import read_jobs
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import complain, print_json, say
from bullpen.cli.provision import count_option, runner_options
from bullpen.cli.run_display import RunDisplay
from bullpen.cli.run_summary import summary_of
from bullpen.cli.runs import refusal
from bullpen.cli.sync import note_unsent, work_tree_of
from bullpen.model.progress import Tell
from bullpen.run import RunOptions, RunOutcome, numbered

EPILOG = """
\b
Examples:
  bullpen run --count 3 -- echo 'shard {index} of 3'
  bullpen run --count 2 --timeout 60 --retries 1 -- sh -c 'test -d /tmp && uname -n'
  bullpen run --count 4 --fail-fast --name shard -- sh -c 'echo "number $BULLPEN_JOB_INDEX"'
  echo '{"name": "host", "command": ["uname", "-a"]}' | bullpen run --count 1 --jobs -

In a git work tree, every job starts in a fresh copy of it: tracked files, and untracked ones that are not ignored.
Elsewhere it starts in an empty directory. --sync DIR names a directory to copy, --no-sync none.

With --artifact the files of a job's directory that match come back, into DIR/<name of the job>: regular files only; *
stays in one directory, ** crosses them.

Without --jobs the command runs N times, once on each runner. {index} in its words, and the variable BULLPEN_JOB_INDEX,
is 0 to N-1.

With --jobs FILE, each line, or each entry of one JSON list, describes a job, and every runner takes the next one that
waits.

\b
Only command is required in a job:
  {"name": "unit", "command": ["make", "test"], "timeout": 600, "capability": "docker", "side-effects": true}

If a runner is lost, it is replaced and its job runs again. With --retries a job that exits with another code than 0, or
times out, runs again too, on another runner if one is free; its last result counts. With --fail-fast the first job that
has failed, after its last try, cancels the others. If the command is interrupted, it cancels the jobs and releases the
runners.

\b
Exit codes:
  0       every job succeeded
  1-255   the highest of all jobs; with --fail-fast that of the job that failed first
  1       not enough runners; everything acquired was given back
  2       a mistake in the options, the settings or the file; nothing was changed
  75      a service was unreachable or throttled the request; try again
  124     a job timed out
  126     a job's command cannot be executed; its log says why
  127     a job's command was not found; its log says where it was looked for
  130     the run was interrupted, or a job was cancelled
"""


@click.command("run", epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@count_option
@click.option("--run-id", metavar="ID", help="Id of the run [a random one].")
@click.option("--jobs", "jobs_file", metavar="FILE", help="Jobs as JSON lines or a JSON list; - reads stdin.")
@click.option("--name", default="", metavar="NAME", help="Name of the jobs; their number is added.")
@click.option("--timeout", metavar="SECONDS", help="End each job and all its processes after this time.")
@click.option("--retries", default="0", metavar="N", help="Run a job that failed again, up to N times [0].")
@click.option("--fail-fast", is_flag=True, help="Cancel the other jobs when one has failed.")
@click.option(
    "--capability", default="", metavar="WORD", help="Capability that a runner must have, see agent.capabilities."
)
@click.option("--sync", "sync_dir", metavar="DIR", help="Directory to copy to every job [the git work tree].")
@click.option("--no-sync", is_flag=True, help="Start jobs in an empty directory.")
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="GLOB", help="Bring files of the jobs back; repeatable."
)
@click.option(
    "--out", metavar="DIR", help="Directory for artifacts, with one subdirectory per job [artifacts/<run id>]."
)
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
    retries: str,
    fail_fast: bool,
    capability: str,
    sync_dir: str | None,
    no_sync: bool,
    artifacts: tuple[str, ...],
    out: str | None,
    side_effects: bool,
    words: tuple[str, ...],
    allowed_instance_types: str,
    **options: str | bool | None,
) -> int:
    """Get N runners, run jobs on them, stream their output, and release the runners."""
    target = given.target()
    settings = target.settings
    target.check_served()
    run_id = checked_run_id(run_id) if run_id is not None else f"run-{secrets.token_hex(4)}"
    request = checked_request(settings, run_id=run_id, allowed_types=allowed_instance_types, **options)  # type: ignore[arg-type]
    how = RunOptions(one_each=jobs_file is None, retries=checked_retries(retries), fail_fast=fail_fast)
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
    directory = checked_out(out, artifacts, run_id)
    wanted = [checked_artifacts(replace(job, artifacts=artifacts)) for job in wanted]
    tree = work_tree_of(settings, given.directory, sync_dir, no_sync)
    if tree is None and not no_sync:
        note_unsent(settings, Path.cwd())
    display = RunDisplay([job.name for job in wanted], as_json=given.as_json)

    async def work(pool: Backend, stop: asyncio.Event, tell: Tell) -> tuple[RunOutcome, Collected]:
        ran = await pool.run(request, wanted, tree=tree, stop=stop, options=how, tell=tell, write=display.write)
        found = await collect(pool, ran.jobs, directory) if artifacts else Collected(directory)
        return replace(ran, files=found.files), found

    ran, collected = target.perform(work, stops=True, display=display)
    if not ran.outcome.succeeded:
        if given.as_json:
            from bullpen.schema.provision import provision_of

            print_json(provision_of(ran.outcome))
        else:
            complain(f"{run_id}: {ran.outcome.reason}", target.on_this_pool(ran.outcome.remedy))
        return ran.outcome.exit_code
    if given.as_json:
        from bullpen.schema.run import run_result_of

        print_json(run_result_of(ran))
    else:
        say(summary_of(ran, given.invocation))
        if artifacts and (summary := collected.summary(artifacts)):
            say(summary)
    for problem in collected.problems:
        complain(f"artifacts of {problem}")
    return ran.exit_code or bool(collected.problems)
