"""A small HTTP server that answers as it is told, in this process and on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes
    connection: int  # counts the connections, from 1 on


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """`hangs_up`: the request is read, and the connection closed without a word."""

    status: int = 200
    body: bytes | str | dict[str, Any] = b""
    hangs_up: bool = False

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (json.dumps(self.body) if isinstance(self.body, dict) else self.body).encode()


@dataclass(slots=True)
class AnsweringService:
    url: str
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0


@contextmanager
def answering(answer: Callable[[Asked], StoreAnswer]) -> Iterator[AnsweringService]:
    """Serve until the end of the block; `answer` is called for each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10

        def setup(self) -> None:
            super().setup()
            service.connections += 1
            self.number = service.connections

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body, self.number)
            service.asked.append(asked)
            said = answer(asked)
            if said.hangs_up:
                self.close_connection = True
                return
            with suppress(ConnectionError):  # the client has given up
                self.send_response(said.status)
                self.send_header("content-length", str(len(said.content)))
                self.end_headers()
                self.wfile.write(said.content)

        do_GET = do_PUT = do_POST = handle_any

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        service = AnsweringService(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield service
        server.shutdown()
        thread.join()
