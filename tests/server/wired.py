"""One connection of `bullpen serve` without a socket: what a client sends goes in by hand."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import uvicorn
from uvicorn.server import ServerState

from bullpen.server.app import ServerApp
from bullpen.server.protocol import MOST_CONNECTIONS, Connection, connections_for
from server.fixtures import House

HIGH_WATER = 4096  # bytes kept for a client before the connection is asked to wait


class Wire(asyncio.Transport):
    """The client's end. `reads` is whether it takes what is written to it."""

    def __init__(self, house: House, state: ServerState | None = None, most: int = MOST_CONNECTIONS) -> None:
        super().__init__()
        self.connection = cast(Any, _connection(house.app, state or ServerState(), most))
        self.received = bytearray()
        self.reads = True
        self.paused = self.closed = self.half_closed = self.aborted = False
        self._unsent = 0
        self.connection.connection_made(self)

    def send(self, *parts: bytes) -> None:
        """Send as a socket would: nothing arrives while reading is paused."""
        for part in parts:
            assert not self.paused, "the server does not read"
            self.connection.data_received(part)

    async def turns(self, count: int = 10) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    @property
    def statuses(self) -> list[int]:
        return [int(part[:3]) for part in bytes(self.received).split(b"HTTP/1.1 ")[1:]]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 4711) if name in ("peername", "sockname") else default

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def write(self, data: Any) -> None:
        self.received += data
        if not self.reads:
            self._unsent += len(data)
            if self._unsent > HIGH_WATER:
                self.connection.pause_writing()

    def drain(self) -> None:
        """The client reads again."""
        self.reads, self._unsent = True, 0
        self.connection.resume_writing()

    def write_eof(self) -> None:
        self.half_closed = True

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def _connection(app: ServerApp, state: ServerState, most: int) -> Connection:
    kind = connections_for(app.heartbeats, app.gate, most)
    config = uvicorn.Config(app, http=kind, ws="none", lifespan="off", log_config=None, access_log=False)
    config.load()
    return kind(config, state, {}, asyncio.get_running_loop())


def request(path: str, body: bytes | None = b"", *headers: str, method: str = "POST") -> bytes:
    """With a body of declared length; with None, chunks follow."""
    framing = "Transfer-Encoding: chunked" if body is None else f"Content-Length: {len(body)}"
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", framing, *headers]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def beat(key: str = "w", *headers: str) -> bytes:
    return request("/v1/heartbeats", json.dumps({"workerInstanceKey": key}).encode(), *headers)


def chunks(content: bytes, size: int = 1) -> bytes:
    """A chunked body, to its end."""
    parts = (content[at : at + size] for at in range(0, len(content), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def bearer(house: House, name: str) -> str:
    return f"Authorization: Bearer {house.token(name)}"
