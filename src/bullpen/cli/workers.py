"""`bullpen workers`: every worker with its lease and the details that it reports."""

from datetime import UTC, datetime

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import ago, columns
from bullpen.inventory import Enrolled, Roster, is_suspect, roster
from bullpen.model.limits import CLI_PAGE
from bullpen.model.worker import ACTIVE, Worker, WorkerFate

EPILOG = """
\b
Examples:
  bullpen workers
  bullpen workers --state suspect    workers whose lease has run out, not yet declared lost
  bullpen workers --json | jq '.workers[] | {key, buildId, host}'

`bullpen why KEY` shows the last steps of a worker. Workers that were cleaned up are not listed.
"""
TITLES = ("WORKER", "STATE", "EPOCH", "HEARTBEAT", "LEASE", "DOMAIN", "HOST", "PID", "BUILD", "CAPABILITIES")
UNKNOWN = "–"


@click.command("workers", epilog=EPILOG)
@click.option("--state", type=click.Choice(["active", "inactive", "suspect"]), help="Only workers in this state.")
@click.option(
    "--limit",
    type=click.IntRange(1, CLI_PAGE),
    default=1000,
    show_default=True,
    help="Largest number of workers to list.",
)
@click.option("--after", default="", metavar="KEY", help="Continue after this key, the last one of the previous page.")
@answering_options
def command(given: PoolOptions, state: str | None, limit: int, after: str) -> int:
    """List the workers of the pool: agents, and other programs that send heartbeats.

    Changes nothing.
    """
    settings = given.load().settings
    found = given.query(settings, lambda ports: roster(ports, limit, after, state or ""))
    if given.as_json:
        from bullpen.schema.worker import workers_of

        print_json(workers_of(found))
    else:
        _tell(found, datetime.now(UTC))
    return 0


def _tell(found: Roster, now: datetime) -> None:
    if found.workers:
        say(columns([TITLES, *(_row(one, now) for one in found.workers)]))
    elif not found.next:
        say("no workers")
    if found.next:
        say(f"\nthere may be more workers; continue with --after {found.next}")


def _row(one: Enrolled, now: datetime) -> tuple[str, ...]:
    worker, card = one.worker, one.card
    return (
        worker.id,
        state_of(worker, now),
        str(worker.epoch),
        ago(worker.beat_at, now),
        f"{worker.lease:g}s",
        _shown(worker.domain),
        _shown(card.host),
        str(card.pid or UNKNOWN),
        _shown(card.build_id),
        _shown(" ".join(card.capabilities)),
    )


def _shown(text: str) -> str:
    """Without control characters: an agent that writes its own heartbeat must not control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text) or UNKNOWN


def state_of(worker: Worker, now: datetime) -> str:
    if worker.state is not ACTIVE:
        return "lost, may come back" if worker.fate is WorkerFate.KEEP else "lost"
    if is_suspect(worker, now):
        return "suspect"
    return f"active, leaves {ago(worker.leaving, now)}" if worker.leaving else "active"
