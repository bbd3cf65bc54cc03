"""`bullpen serve`: the pool over HTTP, and the loops that keep it."""

import asyncio
import json
import os
import signal
import socket

import click

from bullpen.cli.options import PoolOptions, answering_options
from bullpen.cli.output import say
from bullpen.cli.unix_signals import SIGNALS, finish, hold
from bullpen.errors import ConfigError
from bullpen.extras import missing_extra
from bullpen.settings.reloading import Reloader

EPILOG = """
\b
Examples:
  bullpen serve                             listen on 127.0.0.1:8420; without tokens, open to this machine
  bullpen token create --scope admin        create the first token, needed for anything but loopback
  bullpen serve --host 0.0.0.0 --port 80    listen on all addresses
  bullpen serve --log-format json           log one JSON object a line on stderr

Any number of servers may serve one pool. The settings file is read again when it changes, and on
SIGHUP: `liveness.*` applies at once, all other settings need a restart.

GET /v1/openapi.json describes the API; /healthz and /readyz report whether the process is
alive and ready.
"""


@click.command("serve", epilog=EPILOG)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", default=8420, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes any free one."
)
@answering_options
def command(given: PoolOptions, host: str, port: int) -> int:
    """Serve the pool over HTTP and run its background controllers.

    They pay debts, sweep leases, end overdue instances and keep each class at its idle target."""
    loaded = given.load()
    settings = loaded.settings
    try:
        import uvloop

        from bullpen.server.serve import serve
    except ImportError as exc:
        raise missing_extra("bullpen serve", exc, "serve") from exc
    listening = _bound(host, port)
    where = _url(listening)
    given.set_up_log("info", brief=False)

    def announce() -> None:
        say(json.dumps({"state": "listening", "url": where}) if given.as_json else f"listening on {where}")

    reloader = Reloader(loaded, given.load)
    had_terminal = _has_terminal()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop.set)

        def hang_up() -> None:
            """Stop if the terminal of this process was closed; otherwise an operator wants the settings read again."""
            if had_terminal and not _has_terminal():
                stop.set()
            else:
                reloader.reread()

        loop.add_signal_handler(signal.SIGHUP, hang_up)
        try:
            await serve(given.directory, settings, host, [listening], stop, announce, reloader)
        finally:
            hold()

    try:
        uvloop.run(run())
    finally:
        finish()
    return 0


def _has_terminal() -> bool:
    try:
        os.tcgetpgrp(0)
    except OSError:
        return False
    return True


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, or ConfigError with what is in the way."""
    try:
        (family, kind, protocol, _, address) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as exc:
        raise ConfigError(f"--host {host} --port {port}: cannot listen there ({exc.strerror})") from exc
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
