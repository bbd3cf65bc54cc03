"""A server on loopback whose answers a test decides, for failures that a real server rarely has."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROGRESS = {"phase": "acquire", "text": "0 of 1 ready", "done": 0, "total": 1, "waiting": {}, "about": ""}
OPERATION = {"id": "op-1", "kind": "provision", "runId": "4711", "state": "running", "progress": PROGRESS}
Answer = tuple[int, dict[str, Any]] | tuple[int, dict[str, Any], dict[str, str]]


@dataclass
class StubServer:
    """`answer` is called with method and path; `asked` lists them, each with the token that was shown."""

    answer: Callable[[str, str], Answer]
    url: str = ""
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def answering(answer: Callable[[str, str], Answer]) -> Iterator[StubServer]:
    stub = StubServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            stub.asked.append(f"{self.command} {path}")
            stub.tokens.append(self.headers.get("authorization", ""))
            stub.keys.append(self.headers.get("idempotency-key", ""))
            status, body, *headers = stub.answer(self.command, path)
            content = json.dumps(body).encode()
            self.send_response(status)
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # the client is gone
                self.wfile.write(content)

        do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
