"""One process of `bullpen serve`: the API on a socket, and the controllers beside it."""

import asyncio
import gc
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from bullpen.auth.token_files import import_files
from bullpen.auth.tokens import Keys
from bullpen.concurrency import gather_or_cancel
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.errors import ConfigError
from bullpen.one_off_calls import check_ci
from bullpen.ports import Ports
from bullpen.server.app import ServerApp
from bullpen.server.authentication import check_bind
from bullpen.server.context import Context
from bullpen.server.protocol import MOST_CONNECTIONS, Connection, connections_for
from bullpen.settings.reloading import Reloader
from bullpen.structured_log import get_logger
from bullpen.wiring import opened, verifiers

KEEP_ALIVE = 75  # seconds that an idle connection is kept: several beats of the default lease come over one
RESERVED = 200  # file descriptors that no connection gets: the store's files and the instances' must open too
COLLECTED_AFTER = 20_000  # objects made and not freed again
LEAVING = 10.0  # seconds for requests in flight when the service stops

log = get_logger("bullpen.server")


async def serve(
    home: Path,
    settings: Settings,
    host: str,
    sockets: Sequence[Any],
    stop: asyncio.Event,
    listening: Callable[[], None],
    reloader: Reloader | None = None,
) -> None:
    """Serve a home on sockets bound to `host`; `listening` is called when the first request would be answered. What
    the `reloader` finds new in the settings is taken over.

    Raise ConfigError if others could reach it and there are no tokens.
    """
    await check_ci(settings)  # an unreadable secret is reported now, and not to every agent
    async with opened(home, settings) as ports:
        service = Service(ports, settings, reloader, process=f"serve on {os.uname().nodename} ({os.getpid()})")
        keys = await _keys(home, ports, service)
        strangers_here = settings.on_github and settings.engines.pool == "embedded"
        check_bind(keys, ports.clock.now().timestamp(), host, strangers_here=strangers_here)
        context = Context(home, ports, settings, service, keys, verifiers(settings), reloader)
        context.doorkeeper.settle(str(one.getsockname()[0]) for one in sockets)
        app = ServerApp(context)
        if reloader is not None:
            reloader.adopt = app.adopt
            app.adopt(reloader.settings)  # a reload may have been asked for before the server was ready
        server = _Server(app, listening)
        await gather_or_cancel(
            [
                context.service.run(stop),
                keys.keep_current(ports.clock, stop),
                server.serve(sockets=list(sockets)),
                server.watch_the_slow(stop),
                _leave(context, app, server, stop),
            ]
        )


async def _keys(home: Path, ports: Ports, service: Service) -> Keys:
    """The keys in the store. In a pool that has no store yet, its infrastructure is made first."""
    try:
        await import_files(home, ports.tokens)
        return await Keys.opened(ports.tokens)
    except ConfigError:
        await next(loop for loop in service.loops if loop.name == "infrastructure").run_once()
        await import_files(home, ports.tokens)
        return await Keys.opened(ports.tokens)


async def _leave(context: Context, app: ServerApp, server: "_Server", stop: asyncio.Event) -> None:
    """Shut down in order: long polls and streams at once, operations as by a signal, then requests in flight."""
    await stop.wait()
    log.info("stopping")
    server.should_exit = True
    await context.close()
    await app.heartbeats.close()


class _Server(uvicorn.Server):
    """Signals are handled by the command: they end the controllers and the operations too."""

    def __init__(self, app: ServerApp, listening: Callable[[], None]) -> None:
        self._listening = listening
        super().__init__(
            uvicorn.Config(
                app,
                http=connections_for(app.heartbeats, app.gate, most_connections()),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=int(LEAVING),
                backlog=2048,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            # What start-up has made stays, and what a request makes goes without the collector: it holds no cycle. With
            # hundreds of beats under way it would run after every few dozen, and find nothing.
            gc.freeze()
            gc.set_threshold(COLLECTED_AFTER, *gc.get_threshold()[1:])
            self._listening()

    async def watch_the_slow(self, stop: asyncio.Event) -> None:
        """Close the connections of slow and idle clients; one check of all per second is cheaper than a timer each."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            now = loop.time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, Connection):
                    connection.check(now)
            try:
                async with asyncio.timeout(1.0):
                    await stop.wait()
            except TimeoutError:
                continue


def most_connections() -> int:
    """How many connections this process can hold, after asking for as many descriptors as it may have and can use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + RESERVED
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_CONNECTIONS
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(soft - RESERVED, soft // 2)
