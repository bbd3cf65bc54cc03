"""A receiver of OTLP over HTTP, in this process: it decodes what exporters send."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE = 120.0


class OtlpReceiver:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.arrived = threading.Event()
        self.hangs = threading.Event()  # set: answers are given at once
        self.hangs.set()
        self.url = ""

    def spans(self) -> dict[str, Span]:
        """By name."""
        return {span.name: span for span in self._spans()}

    def resource(self) -> dict[str, str | int]:
        request = ExportTraceServiceRequest.FromString(self.bodies[0])
        return attributes(request.resource_spans[0].resource.attributes)

    def _spans(self) -> Iterator[Span]:
        for body in self.bodies:
            for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in one.scope_spans:
                    yield from scope.spans


def attributes(found: object) -> dict[str, str | int]:
    known: list[KeyValue] = list(found)  # type: ignore[call-overload]
    return {one.key: one.value.string_value or one.value.int_value for one in known}


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.hangs.wait(PATIENCE)
            if receiver.status == 200:
                receiver.bodies.append(body)
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()
            receiver.arrived.set()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.hangs.set()
        server.shutdown()
        thread.join()
        server.server_close()
