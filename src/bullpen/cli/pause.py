"""`bullpen pause`: start nothing new in a class, or in the whole pool."""

import click

from bullpen.cli.operating import NOTE_HELP, checked_class, checked_note, class_option, dry_run_option, ordered
from bullpen.cli.options import PoolOptions, answering_options

EPILOG = """
\b
Examples:
  bullpen pause --note 'image 12 does not boot'
  bullpen pause --class large --note 'image 12 does not boot'
  bullpen pause --class large --note 'until 18:00' --dry-run

`bullpen status` shows every pause with its note. `bullpen resume` ends it. Pause again to change the note.
"""


@click.command("pause", epilog=EPILOG)
@click.option("--note", required=True, metavar="TEXT", help=NOTE_HELP)
@class_option
@dry_run_option
@answering_options
def command(given: PoolOptions, note: str, resource_class: str | None, dry_run: bool) -> int:
    """Start nothing new in a class, or in the whole pool.

    A provision fails with the note, or waits for the resume with --wait. Nothing is launched or kept warm, and scale
    sets get no further jobs. What runs goes on; a provision that has begun finishes.
    """
    name, text = checked_class(resource_class), checked_note(note, is_needed=True)
    return ordered(
        given, lambda pool: pool.pause(name, text, dry_run=dry_run), "nothing to do: it is paused with this note"
    )
