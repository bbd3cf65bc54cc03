"""`bullpen release`: give the runners of a run back to the pool."""

import asyncio

import click

from bullpen.cli.arguments import checked_run_id
from bullpen.cli.backend import Backend
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import plural
from bullpen.errors import Interrupted
from bullpen.model.progress import Tell
from bullpen.schema.release import ReleaseAnswer

EPILOG = """
\b
Examples:
  bullpen release --run-id 4711
  bullpen release --run-id 4711 --json
  bullpen release --run-id 4711-2     the label of --label-by attempt
  bullpen release --run-id https://github.com/acme/widgets/actions/runs/4711

If the command is interrupted, run it again. A runner that executes a GitHub job is not interrupted: after the job,
`serve`, the next refresh, provision or release gives it back.
"""


@click.command("release", epilog=EPILOG)
@click.option("--run-id", required=True, metavar="ID", help="Id of the run or label, or the URL of the run's page.")
@answering_options
def command(given: PoolOptions, run_id: str) -> int:
    """Give the runners of a run back to the pool.

    Each one is deregistered and cleaned, attests that it is clean, and is on offer again. One that does not attest is
    ended instead.
    """
    target = given.target()
    run_id = checked_run_id(run_id)

    async def work(pool: Backend, stop: asyncio.Event, tell: Tell) -> tuple[ReleaseAnswer, bool]:
        return await pool.release(run_id, stop=stop, tell=tell), stop.is_set()

    target.require()
    released, interrupted = target.perform(work, stops=True)
    if given.as_json:
        print_json(released)
    elif not (released.offered or released.terminated or released.pending or released.busy):
        say(f"{run_id}: holds no runners; nothing to release")
    else:
        say(f"{run_id}: {plural(len(released.offered), 'runner')} on offer again in {released.duration_seconds:.2f} s")
        for label, ids in (
            ("ended", released.terminated),
            ("still cleaning", released.pending),
            ("busy: it goes back after the job that it executes", released.busy),
        ):
            for id in ids:
                say(f"  {id} {label}")
    return Interrupted.exit_code if interrupted else 0
