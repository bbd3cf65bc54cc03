"""`bullpen rotate`: replace every instance of a class."""

import click

from bullpen.cli.operating import checked_class, class_option, dry_run_option, ordered
from bullpen.cli.options import PoolOptions, answering_options

EPILOG = """
\b
Examples:
  bullpen rotate --class large
  bullpen rotate
  bullpen rotate --class large --dry-run

`serve`, or each `bullpen refresh`, goes on with it. `bullpen status` shows how far it is.
"""


@click.command("rotate", epilog=EPILOG)
@class_option
@dry_run_option
@answering_options
def command(given: PoolOptions, resource_class: str | None, dry_run: bool) -> int:
    """Replace every instance of a class, or of the whole pool.

    Idle ones are replaced a quarter of the idle target at a time: others are launched first, so the target is kept.
    That needs room under the caps. Busy ones are ended after their run.
    """
    name = checked_class(resource_class)
    what = f"class {name}" if name else "the pool"
    return ordered(given, lambda pool: pool.rotate(name, dry_run=dry_run), f"nothing to do: {what} has no instances")
