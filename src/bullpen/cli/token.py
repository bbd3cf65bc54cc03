"""`bullpen token`: operator tokens for `bullpen serve`."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import PoolOptions, json_option, pool_options
from bullpen.cli.output import print_json, say
from bullpen.errors import ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from bullpen.ports import StoredToken

UNITS = {"m": 60, "h": 3600, "d": 86400}
LONGEST = 3650 * 86400

EPILOG = """
\b
Examples:
  bullpen token create --scope read --name dashboard
  bullpen token create --scope admin --expires 90d
  bullpen token list
  bullpen token revoke dashboard

A token is printed once, when it is created; the store of the pool keeps only its hash. It is valid on every host that
serves the pool. A revoked token is refused everywhere within a few seconds.
"""


@click.group("token", epilog=EPILOG)
@pool_options
def command() -> None:
    """Create, list and revoke operator tokens for `bullpen serve`."""


@command.command("create", epilog=EPILOG)
@click.option(
    "--scope", required=True, type=click.Choice(["read", "operate", "admin"]), help="Permissions of the token."
)
@click.option("--name", metavar="NAME", default="", help="Unique name of the token [a random one].")
@click.option("--expires", metavar="TIME", help="Lifetime, such as 30m, 12h or 90d [unlimited].")
@json_option
@pool_options
@click.pass_obj
def create(given: PoolOptions, scope: str, name: str, expires: str | None, as_json: bool) -> int:
    """Create a token and print it. It is not shown again."""
    from bullpen.wiring import create_token

    lasts = _lasting(expires) if expires is not None else None
    settings = given.load().settings
    try:
        made = asyncio.run(create_token(given.directory, settings, scope, lasts, name))
    except Conflict as exc:
        remedy = "Choose another name: names are not reused, even after the token was revoked."
        raise ConfigError(f"--name {name!r}: a token with this name exists", remedy=remedy, field="--name") from exc
    if as_json:
        from bullpen.schema.upkeep import created_token_of

        print_json(created_token_of(made.token, made.stored, datetime.now(UTC)))
    else:
        say(made.token)
    return 0


@command.command("list", epilog=EPILOG)
@json_option
@pool_options
@click.pass_obj
def list_all(given: PoolOptions, as_json: bool) -> int:
    """List the tokens with name, scope and state. Their secrets are not stored."""
    from bullpen.wiring import list_tokens

    found = asyncio.run(list_tokens(given.directory, given.load().settings))
    if as_json:
        from bullpen.schema.upkeep import TokenList, token_of

        print_json(TokenList([token_of(token, datetime.now(UTC)) for token in found]))
    elif found:
        rows = [("NAME", "SCOPE", "STATE", "CREATED", "EXPIRES")]
        rows += [
            (one.name, one.scope, _state(one), _time(one.created) or "", _time(one.expires) or "never") for one in found
        ]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        for row in rows:
            say("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    else:
        say("no tokens")
    return 0


@command.command("revoke", epilog=EPILOG)
@click.argument("name")
@json_option
@pool_options
@click.pass_obj
def revoke(given: PoolOptions, name: str, as_json: bool) -> int:
    """Revoke the token with this name."""
    from bullpen.wiring import revoke_token

    if not asyncio.run(revoke_token(given.directory, given.load().settings, name)):
        raise NotFound(f"token {name[:70]!r}: no token has this name", remedy="`bullpen token list` lists them.")
    if as_json:
        from bullpen.schema.upkeep import RevokedToken

        print_json(RevokedToken(name))
    else:
        say(f"revoked {name}")
    return 0


def _state(token: "StoredToken") -> str:
    from bullpen.schema.upkeep import token_state

    return token_state(token, datetime.now(UTC)).value


def _time(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


def _lasting(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 10:
        seconds = int(number) * UNITS[unit]
        if 0 < seconds <= LONGEST:
            return timedelta(seconds=seconds)
    allowed = "a number with m, h or d, such as 90d, and at most ten years"
    raise ConfigError(f"--expires {text[:40]!r}: must be {allowed}", field="--expires")
