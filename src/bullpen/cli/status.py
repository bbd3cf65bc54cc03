"""`bullpen status`: the runs, every instance, and the claimable ones of each class; once, or whenever they change."""

import asyncio
import os
import select
import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from bullpen.cli.arguments import checked_run_id
from bullpen.cli.backend import Backend
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, legible, print_json, say
from bullpen.cli.status_text import status_text
from bullpen.cli.text import cut
from bullpen.errors import ConfigError, Interrupted
from bullpen.model.instance import ABSENT
from bullpen.model.instance import State as InstanceState
from bullpen.model.provision import RunState
from bullpen.schema.status import PoolStatus
from bullpen.settings.redaction import shortened
from bullpen.settings.setting import nearest

EPILOG = """
\b
Examples:
  bullpen status
  bullpen status --watch                     redraw whenever something changes, until Ctrl-C
  bullpen status --run 4711                  one run and its instances
  bullpen status --state idle --class small
  bullpen status --json | jq '.instances[] | {id, state, pid}'
  bullpen status --json --watch              one object a line, whenever something changed

--state takes the state of an instance (created, idle, claimed, running, terminated) or of a run
(waiting, provisioning, running, releasing).
"""
STATES = list(dict.fromkeys([*(one.value for one in InstanceState if one is not ABSENT), *(s.value for s in RunState)]))
REDRAWN_AFTER = 2.0  # seconds: ages move on although nothing changed
SHORTEST = 1.0  # seconds between two redraws: a pool at work changes many times a second


@click.command("status", epilog=EPILOG)
@click.option("--run", "run_id", metavar="ID", help="Only this run and its instances.")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only runs and instances in this state.")
@click.option("--class", "resource_class", metavar="NAME", help="Only this resource class.")
@click.option("--watch", is_flag=True, help="Show it again whenever something changes, until Ctrl-C.")
@answering_options
def command(given: PoolOptions, run_id: str | None, state: str | None, resource_class: str | None, watch: bool) -> int:
    """Show the runs, the scale sets, every instance, the claimable instances of each class, waiting provisions, pauses
    and rotations.

    The first line names the pool's home or table. Changes nothing.
    """
    target = given.target()
    wanted = Filter(checked_run_id(run_id) if run_id is not None else "", state or "", resource_class or "")
    screen = Screen(given.as_json, wanted)

    async def read(pool: Backend) -> PoolStatus:
        found = await pool.status()
        # Also those that are no longer configured, as long as their queue is there.
        _check_class(wanted.resource_class, [one.resource_class for one in found.pools])
        if wanted.run_id and not watch and wanted.run_id not in [one.id for one in found.runs]:
            await pool.require_run(wanted.run_id)
        return wanted.applied(found)

    async def keep_showing(pool: Backend) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            found = await read(pool)
            if not screen.is_read():
                return
            screen.show(found)
            await pool.wait_for_change(REDRAWN_AFTER)
            await asyncio.sleep(max(0.0, SHORTEST - (loop.time() - began)))

    if watch:
        with suppress(Interrupted):  # the only way to end it, and so no failure
            target.query(keep_showing, prints=True)
        return 0
    found = target.query(read)
    if given.as_json:
        print_json(found)
    else:
        say(wanted.text(found, answer_width()))
    return 0


class Filter(msgspec.Struct, frozen=True):
    """What to show of the pool. An empty field shows all."""

    run_id: str = ""
    state: str = ""
    resource_class: str = ""

    def applied(self, found: PoolStatus) -> PoolStatus:
        """Without what was not asked for. Silent workers and failing loops stay: they concern all users of the pool."""
        run, state, kind = self.run_id, self.state, self.resource_class
        return msgspec.structs.replace(
            found,
            counts={name: counts for name, counts in found.counts.items() if kind in ("", name)},
            pools=[one for one in found.pools if kind in ("", one.resource_class)],
            runs=[
                one
                for one in found.runs
                if run in ("", one.id) and state in ("", one.state) and (not kind or kind in one.resource_classes)
            ],
            instances=[
                one
                for one in found.instances
                if run in ("", one.run_id) and state in ("", one.state) and kind in ("", one.resource_class)
            ],
            scale_sets=[one for one in found.scale_sets if kind in ("", one.resource_class) and not run and not state],
            pauses=[one for one in found.pauses if kind in ("", one.resource_class) or not one.resource_class],
            rotations=[one for one in found.rotations if kind in ("", one.resource_class)],
            waiting=[
                one
                for one in found.waiting
                if run in ("", one.run_id) and state in ("", RunState.WAITING) and kind in ("", one.resource_class)
            ],
        )

    def text(self, found: PoolStatus, width: int) -> str:
        text = status_text(found, datetime.now(UTC), width)
        if self.run_id and not found.runs and not found.instances:
            return f"{text}\n\nrun {self.run_id}: nothing to show; `bullpen why {self.run_id}` has its last steps"
        return text


class Screen:
    """Where `--watch` shows the pool: drawn in place on a terminal; elsewhere printed again whenever it has changed."""

    def __init__(self, as_json: bool, wanted: Filter) -> None:
        self._as_json = as_json
        self._wanted = wanted
        self._in_place = not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._shown: Any = None

    def show(self, found: PoolStatus) -> None:
        if self._in_place:
            self._draw(self._wanted.text(found, answer_width()).splitlines())
            return
        essence = _essence(found)
        if essence == self._shown:
            return
        if self._as_json:
            print_json(found)
        else:
            say(("\n" if self._shown is not None else "") + self._wanted.text(found, 0))
        self._shown = essence

    def _draw(self, lines: list[str]) -> None:
        width, height = shutil.get_terminal_size()
        height -= 1  # the cursor stands below: a line break in the last line would scroll the first one away
        if len(lines) > height:
            lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines; choose with --run or --class"]
        erase = "\033[H" if self._shown else "\033[2J\033[H"
        self._shown = True
        width -= len(legible("…", sys.stdout)) - 1
        # A line that is too long would take two, so that the last ones scroll. What stood there before is erased first:
        # behind a line as wide as the terminal, the cursor still stands on its last character.
        *upper, lowest = [cut(legible(line, sys.stdout), width) for line in lines]
        say(erase + "".join(f"\033[K{line}\n" for line in upper) + f"\033[J{lowest}")

    def is_read(self) -> bool:
        """False once the reader of a pipe has closed it: without a change, no write would find out."""
        with suppress(OSError, ValueError):  # no file of the system
            outputs = select.poll()
            outputs.register(sys.stdout.fileno(), 0)
            return not outputs.poll(0)
        return True


def _essence(found: PoolStatus) -> Any:
    """What counts as a change: not a heartbeat, nor time that passes."""
    return (
        [(one.id, one.state, one.held, one.wanted, one.queued_jobs, one.running_jobs) for one in found.runs],
        [
            (one.id, one.state, one.run_id, one.attested, one.image_generation, one.leaving_at, one.job)
            for one in found.instances
        ],
        [(one.key, one.state, one.job_ids) for one in found.silent_workers],
        [one.id for one in found.waiting],
        (found.pauses, found.rotations),
        [msgspec.structs.replace(one, heard_at=None) for one in found.scale_sets],
        [(one.process, one.loop, one.error) for one in found.failing_loops],
        (found.pools, found.hold),
    )


def _check_class(name: str, known: list[str]) -> None:
    if name and name not in known:
        meant = nearest(name, known)
        raise ConfigError(
            f"--class {shortened(name)}: must be one of {', '.join(known)}",
            remedy=f"Did you mean {meant}?" if meant else "",
            field="--class",
        )
