"""`bullpen down`: no instance of this home is left."""

import click

from bullpen.cli.answers import print_json
from bullpen.cli.given import Given, json_option, pool_options
from bullpen.cli.output import say
from bullpen.cli.session import perform
from bullpen.cli.text import plural

EPILOG = """
\b
Examples:
  bullpen down
  bullpen --home /srv/pool down --json
"""


@click.command("down", epilog=EPILOG)
@json_option
@pool_options
@click.pass_obj
def command(given: Given, as_json: bool) -> int:
    """End every instance of this home, running jobs included, and every process that belongs to one."""
    settings = given.load().settings
    from bullpen.down import down
    from bullpen.wiring import is_unused

    ended: list[str] = []
    if not is_unused(given.directory):
        ended = perform(
            given.directory, settings, lambda ports, stop, tell: down(ports, settings, tell=tell), as_json=as_json
        )
    if as_json:
        print_json({"state": "success", "terminated": ended})
    else:
        say("\n".join([f"{plural(len(ended), 'instance')} ended", *(f"  {id}" for id in ended)]))
    return 0
