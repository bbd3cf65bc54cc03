"""`bullpen doctor`: is this machine fit, and if not, what to do."""

from collections.abc import Iterator

import click

from bullpen.cli.answers import print_json
from bullpen.cli.checks import Finding, Health, check_capacity, check_leftovers, check_machine
from bullpen.cli.given import Given, json_option, pool_options
from bullpen.cli.output import say
from bullpen.cli.session import perform
from bullpen.cli.text import columns
from bullpen.errors import BullpenError, ConfigError
from bullpen.inventory import status
from bullpen.settings import Loaded
from bullpen.wiring import is_unused

EPILOG = """
\b
Examples:
  bullpen doctor
  bullpen --home /srv/pool doctor --json
"""


@click.command("doctor", epilog=EPILOG)
@json_option
@pool_options
@click.pass_obj
def command(given: Given, as_json: bool) -> int:
    """Check this machine, the settings and the pool; say what to do where something is amiss. Changes nothing."""
    findings = list(_examine(given))
    failed = any(one.health is Health.FAILED for one in findings)
    if as_json:
        checks = [{"name": f.name, "state": f.health.value, "found": f.found, "remedy": f.remedy} for f in findings]
        print_json({"state": "failed" if failed else "success", "checks": checks})
    else:
        say(
            columns(
                (one.name, one.health.value, one.found + (f" → {one.remedy}" if one.remedy else "")) for one in findings
            )
        )
    return 1 if failed else 0


def _examine(given: Given) -> Iterator[Finding]:
    yield from check_machine(given.directory)
    try:
        loaded = given.load()
    except ConfigError as exc:
        yield Finding("settings", Health.FAILED, str(exc), exc.remedy or "Correct that value.")
        return
    changed = sum(value.origin != "default" for value in loaded.values.values())
    yield Finding("settings", Health.OK, f"{changed} of {len(loaded.values)} set, file: {loaded.file or 'none'}")
    yield check_capacity(loaded.settings)
    if not is_unused(given.directory):
        yield from _examine_pool(given, loaded)


def _examine_pool(given: Given, loaded: Loaded) -> Iterator[Finding]:
    settings = loaded.settings
    try:
        found = perform(given.directory, settings, lambda ports, stop, tell: status(ports, settings))
    except BullpenError as exc:
        yield Finding("pool", Health.FAILED, str(exc), exc.remedy or "Try again.")
        return
    claimable = sum(pool.claimable for pool in found.pools)
    yield Finding("pool", Health.OK, f"{len(found.instances)} instances, {claimable} on offer")
    yield from check_leftovers(given.directory, found)
