"""`bullpen resume`: end the pause of a class, or of the whole pool."""

import click

from bullpen.cli.operating import checked_class, class_option, dry_run_option, ordered
from bullpen.cli.options import PoolOptions, answering_options

EPILOG = """
\b
Examples:
  bullpen resume
  bullpen resume --class large
  bullpen resume --class large --dry-run

A class and the whole pool are paused and resumed each by itself: `bullpen status` shows what is paused.
"""


@click.command("resume", epilog=EPILOG)
@class_option
@dry_run_option
@answering_options
def command(given: PoolOptions, resource_class: str | None, dry_run: bool) -> int:
    """End the pause of a class, or of the whole pool.

    Provisions that wait for it begin, and the idle target is kept again. Instances that were drained stay drained.
    """
    name = checked_class(resource_class)
    what = f"class {name}" if name else "the whole pool"
    return ordered(given, lambda pool: pool.resume(name, dry_run=dry_run), f"nothing to do: {what} is not paused")
