"""`bullpen down`: no instance of this home is left."""

import click

from bullpen.cli.answers import print_json
from bullpen.cli.given import Given, json_option, pool_options
from bullpen.cli.output import complain, say
from bullpen.cli.session import perform
from bullpen.cli.text import plural
from bullpen.errors import BullpenError

EPILOG = """
\b
Examples:
  bullpen down
  bullpen --home /srv/pool down --json
"""


REMEDY = "Run it again; `bullpen status` shows the process of each that is left."


@click.command("down", epilog=EPILOG)
@json_option
@pool_options
@click.pass_obj
def command(given: Given, as_json: bool) -> int:
    """End every instance of this home, running jobs included, and every process that belongs to one."""
    settings = given.load().settings
    from bullpen.down import TakenDown, down
    from bullpen.wiring import is_unused

    done = TakenDown((), ())
    if not is_unused(given.directory, settings):
        done = perform(
            given.directory, settings, lambda ports, stop, tell: down(ports, settings, tell=tell), as_json=as_json
        )
    reason = f"{plural(len(done.left), 'instance')} would not end: {', '.join(done.left)}" if done.left else ""
    if as_json:
        answer = {"state": "success", "terminated": list(done.ended), "left": list(done.left)}
        print_json(answer | {"state": "failed", "reason": reason, "remedy": REMEDY} if reason else answer)
    else:
        say("\n".join([f"{plural(len(done.ended), 'instance')} ended", *(f"  {id}" for id in done.ended)]))
    if reason:
        complain(reason, REMEDY)
        return BullpenError.exit_code
    return 0
