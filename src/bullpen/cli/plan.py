"""`bullpen plan`: what a provision would do now, without doing it."""

import click

from bullpen.cli.arguments import checked_request
from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import answer_width, print_json, say
from bullpen.cli.plan_text import plan_text
from bullpen.cli.provision import request_options

EPILOG = """
\b
Examples:
  bullpen plan --run-id 4711 --count 3
  bullpen plan --run-id 4711 --count 4 --resource-class large --usage-class spot
  bullpen plan --run-id 4711 --count 2 --trust-domain acme/widgets --json

It takes the options of `bullpen provision`, and claims, launches and reserves nothing: a moment later the answer may be
another.
"""


@click.command("plan", epilog=EPILOG)
@request_options
@answering_options
def command(given: PoolOptions, /, allowed_instance_types: str, **options: str | bool | None) -> int:
    """Show what a provision would do now; change nothing.

    Which runners would be claimed and why not the others, which would be launched, the price, and how full the caps
    would be.
    """
    target = given.target()
    request = checked_request(target.settings, allowed_types=allowed_instance_types, **options)  # type: ignore[arg-type]
    found = target.query(lambda pool: pool.plan(request))
    if given.as_json:
        print_json(found)
    else:
        say(plan_text(found, answer_width()))
    return 0
