"""`bullpen status`: every instance, and the claimable ones of each class."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import complain, print_json, say
from bullpen.cli.text import ago, columns
from bullpen.errors import BullpenError
from bullpen.inventory import InstanceView, Silence, Status, status
from bullpen.model.provision import Provision
from bullpen.model.worker import ACTIVE, WorkerFate
from bullpen.ports.health import Limit

EPILOG = """
\b
Examples:
  bullpen status
  bullpen status --json | jq '.instances[] | {id, state, pid}'
"""
INSTANCES = ("INSTANCE", "STATE", "RUN", "CLASS", "TYPE", "UNTIL", "HEARTBEAT", "PID")
SILENT = ("SILENT WORKER", "STATE", "EPOCH", "HEARTBEAT", "JOBS")
WAITING = ("WAITING", "RUN", "RUNNERS", "CLASS", "FOR", "SINCE")
FAILING = ("FAILING LOOP", "SERVICE", "SINCE", "LAST ERROR")
POOLS = ("POOL", "TICKETS", "CLAIMABLE")


@click.command("status", epilog=EPILOG)
@answering_options
def command(given: PoolOptions) -> int:
    """Show every instance, the tickets and claimable instances of each class, and waiting provisions.

    Changes nothing.
    """
    settings = given.load().settings
    from bullpen.wiring import rate_limits

    found = given.query(settings, lambda ports: status(ports, settings))
    limits: Sequence[Limit] = ()
    try:
        limits = asyncio.run(rate_limits(settings)) if settings.on_github else ()
    except BullpenError as exc:  # the pool is shown without them
        complain(f"GitHub's rate limits are not known: {exc}", exc.remedy)
    if given.as_json:
        from bullpen.schema.status import pool_status_of

        print_json(pool_status_of(found, limits))
    else:
        _tell(found, limits, datetime.now(UTC))
    return 0


def _tell(found: Status, limits: Sequence[Limit], now: datetime) -> None:
    _table(INSTANCES, [_row(view, now) for view in found.instances])
    _table(SILENT, [_silence(one, now) for one in found.silent])
    _table(WAITING, [_waiting(one, now) for one in found.waiting])
    if found.hold:
        say(f"no worker is declared lost: {found.hold}\n")
    _table(FAILING, [(f.loop, f.process, ago(f.since, now), f.error) for f in found.failing])
    say(columns([POOLS, *((p.resource_class, str(p.tickets), str(p.claimable)) for p in found.pools)]))
    if any(pool.counts_expired and pool.tickets > pool.claimable for pool in found.pools):
        say("\nTICKETS includes expired tickets, which SQS counts until they are received")
    if limits:
        say("\nGitHub rate limits: " + ", ".join(_left(one, now) for one in limits))


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        say(columns([titles, *rows]) + "\n")


def _left(one: Limit, now: datetime) -> str:
    return f"{one.resource} {one.remaining} of {one.limit} requests left (resets {ago(one.resets_at, now)})"


def _waiting(one: Provision, now: datetime) -> tuple[str, ...]:
    since = one.place.since if one.place else None
    return one.id, one.run_id, str(one.want), one.needs.resource_class, one.waits_for, ago(since, now)


def _silence(one: Silence, now: datetime) -> tuple[str, ...]:
    worker = one.worker
    state = "suspect" if worker.state is ACTIVE else "lost, may come back" if worker.fate is WorkerFate.KEEP else "lost"
    return worker.id, state, str(worker.epoch), ago(worker.beat_at, now), " ".join(one.jobs) or "–"


def _row(view: InstanceView, now: datetime) -> tuple[str, ...]:
    one, heartbeat = view.instance, view.pulse.heartbeat
    state = "idle, cleaning" if one.state.value == "idle" and not one.attested else one.state.value
    if view.activity:
        state += f", job {view.activity.job}" if view.activity.job else ", busy"
    if view.leaving:
        state += f", leaves {ago(view.leaving, now)}"
    return (
        one.id,
        state,
        one.run_id or "–",
        one.resource_class,
        one.instance_type,
        ago(one.threshold, now),
        ago(heartbeat.at if heartbeat else None, now),
        str(view.pid or "–"),
    )
