"""What a webhook of Gitea arrives at: it keeps each delivery as it came, for tests to verify and to look at."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fakes.gitea.waiting import until


@dataclass(frozen=True, slots=True)
class GiteaDelivery:
    """Names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["x-gitea-event"]

    @property
    def payload(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def is_signed_with(self, secret: str) -> bool:
        """Whether both of its signatures are: Gitea's own, and the one in GitHub's form."""
        right = hmac.new(secret.encode(), self.body, hashlib.sha256).hexdigest()
        own, as_github = self.headers["x-gitea-signature"], self.headers["x-hub-signature-256"]
        return hmac.compare_digest(own, right) and hmac.compare_digest(as_github, f"sha256={right}")


class GiteaHookReceiver:
    def __init__(self, url: str) -> None:
        self.url = url
        self.deliveries: list[GiteaDelivery] = []

    def delivered(self, event: str, **has: Any) -> GiteaDelivery:
        """The first delivery of this event whose job or run has these fields: `status="queued"`."""
        return until(
            lambda: next((one for one in self.deliveries if _is(one, event, has)), None), f"{event} with {has} arrives"
        )


@contextmanager
def receiving_hooks() -> Iterator[GiteaHookReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.deliveries.append(GiteaDelivery(headers, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = GiteaHookReceiver(f"http://127.0.0.1:{server.server_port}/hooks")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _is(one: GiteaDelivery, event: str, has: Mapping[str, Any]) -> bool:
    return one.event == event and has.items() <= one.payload[event].items()
