"""`bullpen token`: who may use `bullpen serve`."""

from datetime import UTC, datetime, timedelta

import click

from bullpen.cli.answers import print_json
from bullpen.cli.given import Given, json_option, pool_options
from bullpen.cli.output import say
from bullpen.errors import ConfigError

UNITS = {"m": 60, "h": 3600, "d": 86400}
LONGEST = 3650 * 86400

EPILOG = """
\b
Examples:
  bullpen token create --scope read
  bullpen token create --scope admin --expires 90d

The token is printed once; the home keeps only its hash, one line of `tokens`. Taking the line out revokes it.
"""


@click.group("token", epilog=EPILOG)
@pool_options
def command() -> None:
    """Make tokens for operators of `bullpen serve`."""


@command.command("create", epilog=EPILOG)
@click.option("--scope", required=True, type=click.Choice(["read", "operate", "admin"]), help="What it allows.")
@click.option("--expires", metavar="TIME", help="After so long, such as 30m, 12h or 90d [never].")
@json_option
@pool_options
@click.pass_obj
def create(given: Given, scope: str, expires: str | None, as_json: bool) -> int:
    """Make a token and print it, this once."""
    from bullpen.wiring import create_token

    until = datetime.now(UTC) + _lasting(expires) if expires is not None else None
    token = create_token(given.directory, scope, until)
    if as_json:
        print_json({"token": token, "scope": scope, "expires": until.isoformat(timespec="seconds") if until else None})
    else:
        say(token)
    return 0


def _lasting(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 10:
        seconds = int(number) * UNITS[unit]
        if 0 < seconds <= LONGEST:
            return timedelta(seconds=seconds)
    raise ConfigError(f"--expires {text[:40]!r}: must be a number with m, h or d, up to ten years")
