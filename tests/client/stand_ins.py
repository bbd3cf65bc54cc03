"""Real sockets on loopback that answer as no Bullpen of this version would, with and without TLS."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bullpen import __version__

OURS = {"bullpen-version": __version__, "content-type": "application/json"}
Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def answering(
    answer: Callable[[str, str], Answer], context: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[str]]]:
    """A server whose answer to a method and a path is this one: its host and port, and the requests that it got."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append(f"{self.command} {self.path} {self.headers.get('idempotency-key', '')}".rstrip())
            status, headers, content = answer(self.command, self.path)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_CONNECT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that refuses the certificate
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def speaking(greeting: bytes, pause: float = 0.0) -> Iterator[str]:
    """A port that speaks another protocol: it sends these bytes and hangs up; with a pause, byte by byte."""
    listener, closing = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                for piece in [greeting] if not pause else [bytes([one]) for one in greeting]:
                    try:
                        connection.sendall(piece)
                    except OSError:  # the client has hung up
                        break
                    if closing.wait(pause):
                        break

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        closing.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def certificate(folder: Path, address: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for an address, and what a server needs to use it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bullpen test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, private = folder / "server.pem", folder / "server.key"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, private)
    return file, context
