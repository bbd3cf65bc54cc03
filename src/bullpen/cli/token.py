"""`bullpen token`: operator tokens for `bullpen serve`."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bullpen.cli.options import NO_POOL, PoolOptions, answering_options, pool_options
from bullpen.cli.output import print_json, say
from bullpen.cli.text import columns
from bullpen.config import Settings
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
@answering_options
def create(given: PoolOptions, scope: str, name: str, expires: str | None) -> int:
    """Create a token and print it. It is not shown again."""
    lasts = _lasting(expires) if expires is not None else None
    settings = given.load().settings
    try:
        stored, token = asyncio.run(create_token(given.directory, settings, scope, lasts, name))
    except Conflict as exc:
        remedy = "Choose another name: names are not reused, even after the token was revoked."
        raise ConfigError(f"--name {name!r}: a token with this name exists", remedy=remedy, field="--name") from exc
    if given.as_json:
        from bullpen.schema.upkeep import created_token_of

        print_json(created_token_of(token, stored, datetime.now(UTC)))
    else:
        say(token)
    return 0


@command.command("list", epilog=EPILOG)
@answering_options
def list_all(given: PoolOptions) -> int:
    """List the tokens with name, scope and state. Their secrets are not stored."""
    found = asyncio.run(list_tokens(given.directory, given.load().settings))
    if given.as_json:
        from bullpen.schema.upkeep import TokenList, token_of

        print_json(TokenList([token_of(token, datetime.now(UTC)) for token in found]))
    elif found:
        say(columns([("NAME", "SCOPE", "STATE", "CREATED", "EXPIRES"), *map(_row, found)]))
    else:
        say("no tokens")
    return 0


@command.command("revoke", epilog=EPILOG)
@click.argument("name")
@answering_options
def revoke(given: PoolOptions, name: str) -> int:
    """Revoke the token with this name."""
    if not asyncio.run(revoke_token(given.directory, given.load().settings, name)):
        raise NotFound(f"token {name[:70]!r}: no token has this name", remedy="Run `bullpen token list` to list them.")
    if given.as_json:
        from bullpen.schema.upkeep import RevokedToken

        print_json(RevokedToken(name))
    else:
        say(f"revoked {name}")
    return 0


async def create_token(
    home: Path, settings: Settings, scope: str, lasts: timedelta | None, name: str
) -> "tuple[StoredToken, str]":
    """What the store keeps of a new token, and the token itself. Raise Conflict if the name is taken."""
    from bullpen.auth.tokens import Scope, drawn
    from bullpen.wiring import opened_tokens

    now = datetime.now(UTC)
    stored, token = drawn(Scope(scope), now, now + lasts if lasts else None, name)
    async with opened_tokens(home, settings, new=True) as tokens:
        assert tokens is not None
        await tokens.add(stored)
    return stored, token


async def list_tokens(home: Path, settings: Settings) -> "tuple[StoredToken, ...]":
    from bullpen.wiring import opened_tokens

    async with opened_tokens(home, settings) as tokens:
        if tokens is None:
            raise _no_pool(home)
        return (await tokens.read()).tokens


async def revoke_token(home: Path, settings: Settings, name: str) -> bool:
    from bullpen.wiring import opened_tokens

    async with opened_tokens(home, settings) as tokens:
        if tokens is None:
            raise _no_pool(home)
        return await tokens.revoke(name, datetime.now(UTC))


def _no_pool(home: Path) -> NotFound:
    return NotFound(f"there is no pool in {home.absolute()}", remedy=NO_POOL)


def _row(token: "StoredToken") -> tuple[str, ...]:
    from bullpen.model.ticket import format_time
    from bullpen.schema.upkeep import token_state

    created, expires = (format_time(at) if at else "" for at in (token.created, token.expires))
    return token.name, token.scope, token_state(token, datetime.now(UTC)).value, created, expires or "never"


def _lasting(text: str) -> timedelta:
    number, unit = text[:-1], text[-1:]
    if unit in UNITS and number.isascii() and number.isdigit() and len(number) < 10:
        seconds = int(number) * UNITS[unit]
        if 0 < seconds <= LONGEST:
            return timedelta(seconds=seconds)
    allowed = "a number with m, h or d, such as 90d, and at most ten years"
    raise ConfigError(f"--expires {text[:40]!r}: must be {allowed}", field="--expires")
