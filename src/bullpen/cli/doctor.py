"""`bullpen doctor`: checks of the machine or the AWS account, the settings, the CI and the pool, with remedies."""

import asyncio
from collections.abc import Iterator

import click

from bullpen.cli.doctor_checks import check_capacity, check_leftovers, check_machine, check_python, check_work_dir
from bullpen.cli.doctor_repositories import check_set_repositories
from bullpen.cli.doctor_sets import check_set_labels, check_set_settings, check_sets
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, arrow, print_json, say
from bullpen.cli.progress import ProgressDisplay
from bullpen.cli.text import columns, plural
from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError
from bullpen.inventory import Status, status
from bullpen.model.progress import Tell
from bullpen.one_off_calls import examine_ci
from bullpen.ports import Ports
from bullpen.ports.health import Finding, Health
from bullpen.settings import Loaded
from bullpen.wiring import is_unused

EPILOG = """
\b
Examples:
  bullpen doctor
  bullpen --home /srv/pool doctor --json
"""


@click.command("doctor", epilog=EPILOG)
@answering_options
def command(given: PoolOptions) -> int:
    """Check this machine or the AWS account, the settings, the CI and the pool.

    Prints a remedy for each problem. Changes nothing. Exit code 1 if a check failed.
    """
    findings = list(_examine(given))
    failed = any(one.health is Health.FAILED for one in findings)
    if given.as_json:
        from bullpen.schema.upkeep import doctor_of

        print_json(doctor_of(findings))
    else:
        say(
            columns(
                [
                    (one.name, one.health.value, one.found + (f" {arrow()} {one.remedy}" if one.remedy else ""))
                    for one in findings
                ],
                width=answer_width(),
            )
        )
    return 1 if failed else 0


def _examine(given: PoolOptions) -> Iterator[Finding]:
    given.refuse_server()
    try:
        loaded = given.load()
    except ConfigError as exc:
        yield from check_machine(given.directory)
        yield Finding("settings", Health.FAILED, str(exc), exc.remedy or "Correct this value.")
        return
    is_embedded = loaded.settings.engines.pool == "embedded"
    yield from check_machine(given.directory) if is_embedded else [check_python()]
    changed = sum(value.origin != "default" for value in loaded.values.values())
    yield Finding("settings", Health.OK, f"{changed} of {len(loaded.values)} set; file: {loaded.file or 'none'}")
    yield from check_set_settings(loaded.settings)
    if is_embedded:
        yield check_capacity(loaded.settings)
        yield from check_work_dir(loaded.settings)
        yield from _examine_ci(loaded.settings)
        if not is_unused(given.directory, loaded.settings):
            yield from _examine_pool(given, loaded)
    else:
        yield from _examine_account(given, loaded)


def _examine_ci(settings: Settings) -> list[Finding]:
    """Checks of the CI for an embedded pool. On AWS they are part of the checks of the infrastructure."""
    try:
        return asyncio.run(examine_ci(settings))
    except ConfigError as exc:  # such as a client that is not installed
        return [Finding("github", Health.FAILED, str(exc), exc.remedy)]


def _examine_pool(given: PoolOptions, loaded: Loaded) -> Iterator[Finding]:
    settings = loaded.settings

    async def examine(ports: Ports, stop: asyncio.Event, tell: Tell) -> tuple[Status, list[Finding]]:
        found = await status(ports, settings)
        return found, await _of_sets(ports, settings, found)

    try:
        found, of_sets = given.perform(settings, examine)
    except BullpenError as exc:
        yield Finding("pool", Health.FAILED, str(exc), exc.remedy or "Try again.")
        return
    yield _counts(found)
    yield from of_sets
    yield from check_leftovers(given.directory, found)


async def _of_sets(ports: Ports, settings: Settings, found: Status) -> list[Finding]:
    return [
        *await check_set_repositories(ports, settings),
        *await check_set_labels(ports, settings),
        *await check_sets(ports, settings, found.sets),
    ]


def _examine_account(given: PoolOptions, loaded: Loaded) -> Iterator[Finding]:
    """The infrastructure on AWS; if nothing failed there, the pool itself."""
    settings = loaded.settings

    async def examine(ports: Ports, stop: asyncio.Event, tell: Tell) -> list[Finding]:
        findings = await ports.infrastructure.examine()
        if any(one.health is Health.FAILED for one in findings):
            return findings
        try:
            found = await status(ports, settings)
            return [*findings, _counts(found), *await _of_sets(ports, settings, found)]
        except BullpenError as exc:
            return [*findings, Finding("pool", Health.FAILED, str(exc), exc.remedy or "Try again.")]

    try:
        yield from given.perform(settings, examine, display=ProgressDisplay(text="checking the AWS account"))
    except BullpenError as exc:  # such as a client that is not installed
        yield Finding("aws", Health.FAILED, str(exc), exc.remedy)


def _counts(found: Status) -> Finding:
    claimable = sum(pool.claimable for pool in found.pools)
    return Finding("pool", Health.OK, f"{plural(len(found.instances), 'instance')}, {claimable} on offer")
