"""A receiver of webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    id: str
    event: str
    signature: str
    body: bytes

    @property
    def payload(self) -> Any:
        return json.loads(self.body)

    @property
    def name(self) -> str:
        return f"{self.event}.{self.payload.get('action', '')}"


class Receiver:
    """Keeps what it is sent, and answers `status`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.status = 202
        self.all: list[Received] = []

    def names(self) -> list[str]:
        """event.action, without the ping that comes first."""
        return [one.name for one in self.all if one.event != "ping"]


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            head = self.headers
            signature = head["X-Hub-Signature-256"]
            receiver.all.append(Received(head["X-GitHub-Delivery"], head["X-GitHub-Event"], signature, body))
            self.send_response(receiver.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}/v1/github/webhook")
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
