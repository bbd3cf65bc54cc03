"""`bullpen workers`: every worker with its lease and the details that it reports."""

from datetime import UTC, datetime

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, print_json, say
from bullpen.cli.text import ago, table
from bullpen.model.limits import CLI_PAGE
from bullpen.model.ticket import parse_time
from bullpen.model.worker import ACTIVE
from bullpen.schema.worker import WorkerAnswer, WorkerList

EPILOG = """
\b
Examples:
  bullpen workers
  bullpen workers --state suspect    workers whose lease has run out, not yet declared lost
  bullpen workers --json | jq '.workers[] | {key, buildId, host}'

`bullpen why KEY` shows the last steps of a worker. Workers that were cleaned up are not listed.
"""
TITLES = ("WORKER", "STATE", "EPOCH", "HEARTBEAT", "LEASE", "DOMAIN", "HOST", "PID", "BUILD", "CAPABILITIES")
# What is left out first on a narrow terminal.
SPARE = ("PID", "BUILD", "DOMAIN", "EPOCH", "LEASE", "HOST", "CAPABILITIES")
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
    found = given.target().query(lambda pool: pool.workers(limit, after, state or ""))
    if given.as_json:
        print_json(found)
    else:
        _tell(found, datetime.now(UTC))
    return 0


def _tell(found: WorkerList, now: datetime) -> None:
    if found.workers:
        say(table(TITLES, [_row(one, now) for one in found.workers], answer_width(), SPARE))
    elif not found.next:
        say("no workers")
    if found.next:
        say(f"\nthere may be more workers; continue with --after {found.next}")


def _row(one: WorkerAnswer, now: datetime) -> tuple[str, ...]:
    return (
        one.key,
        state_of(one, now),
        str(one.epoch),
        ago(_time(one.heartbeat_at), now),
        f"{one.lease_seconds:g}s",
        _shown(one.domain),
        _shown(one.host),
        str(one.pid or UNKNOWN),
        _shown(one.build_id),
        _shown(" ".join(one.capabilities)),
    )


def _shown(text: str) -> str:
    """Without control characters: an agent that writes its own heartbeat must not control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text) or UNKNOWN


def state_of(one: WorkerAnswer, now: datetime) -> str:
    if one.state is not ACTIVE:
        return "lost, may come back" if one.may_return else "lost"
    deadline = _time(one.deadline)
    if deadline is not None and deadline <= now:
        return "suspect"
    return f"active, leaves {ago(_time(one.leaving_at), now)}" if one.leaving_at else "active"


def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None
