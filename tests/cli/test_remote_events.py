"""A command that watches a server hears of changes, also after the server was away."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from bullpen.cli.remote_pool import RemotePool
from bullpen.client import AsyncClient
from bullpen.errors import Unavailable


class Streams:
    """A server whose first stream ends for good, and whose second one has an event after a second."""

    def __init__(self) -> None:
        self.opened = 0

    async def events(self) -> AsyncIterator[Any]:
        self.opened += 1
        if self.opened == 1:
            raise Unavailable("the server was away for too long")
        await asyncio.sleep(1)
        yield "instances"
        await asyncio.Event().wait()


async def test_a_stream_that_has_ended_is_opened_again() -> None:
    streams = Streams()
    pool = RemotePool(cast(AsyncClient, streams))
    clock = asyncio.get_running_loop().time
    began = clock()
    await pool.wait_for_change(5)
    assert clock() - began == 5
    await pool.wait_for_change(5)
    assert clock() - began == 6
    assert streams.opened == 2
    await pool.close()
