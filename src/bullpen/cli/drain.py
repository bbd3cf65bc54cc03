"""`bullpen drain`: take instances, or a class, out of use."""

import click

from bullpen.cli.arguments import checked_id
from bullpen.cli.operating import NOTE_HELP, checked_class, checked_note, class_option, dry_run_option, ordered
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.errors import ConfigError
from bullpen.model import limits

EPILOG = """
\b
Examples:
  bullpen drain i-0123456789abcdef
  bullpen drain i-0123456789abcdef i-fedcba9876543210 --note 'disk is full'
  bullpen drain --class large --note 'moving to arm64'
  bullpen drain --class large --dry-run

--class pauses the class as well, so that nothing is launched in its place: `bullpen resume --class NAME` ends that.
To replace instances instead, use `bullpen rotate`.
"""


@click.command("drain", epilog=EPILOG)
@click.argument("instances", nargs=-1, metavar="[INSTANCE]...")
@class_option
@click.option("--note", default="", metavar="TEXT", help=NOTE_HELP)
@dry_run_option
@answering_options
def command(
    given: PoolOptions, instances: tuple[str, ...], resource_class: str | None, note: str, dry_run: bool
) -> int:
    """Take instances, or a class, out of use: each is ended once it is free.

    An idle instance is ended at once. A busy one finishes its run: when that is released, the instance is ended instead
    of offered.
    """
    name, text, ids = checked_class(resource_class), checked_note(note), [checked_id(id) for id in instances]
    if bool(ids) is bool(name):
        raise ConfigError(
            "INSTANCE: name some, or a class with --class, and not both",
            remedy="Run `bullpen status` to list the instances.",
            field="INSTANCE",
        )
    if len(ids) > limits.DRAINED_AT_ONCE:
        raise ConfigError(f"INSTANCE: at most {limits.DRAINED_AT_ONCE} at once", field="INSTANCE")
    return ordered(
        given,
        lambda pool: pool.drain(ids, name, text, dry_run=dry_run),
        f"nothing to do: class {name} is paused, and all of its instances are drained",
    )
