"""`bullpen serve` as a real process on loopback, and plain sockets to talk to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

PATIENCE = 120.0  # seconds; what is waited for takes far less
PROGRAM = "import sys; from bullpen.cli import main; sys.exit(main())"
T = TypeVar("T")
CHECKOUT = (sys.executable, "-c", PROGRAM)


@dataclass
class ServeProcess:
    home: Path
    process: subprocess.Popen[str]
    url: str

    @property
    def address(self) -> tuple[str, int]:
        found = urlsplit(self.url)
        assert found.hostname is not None
        assert found.port is not None
        return found.hostname, found.port

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        connection = HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers or {})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


def until(look: Callable[[], T | None]) -> T:
    """Look again until the answer is true."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def command(home: Path, *arguments: str, program: Sequence[str] = CHECKOUT) -> list[str]:
    return [*program, "--home", str(home), *arguments]


def end_pool(home: Path) -> None:
    """End every runner of a home, once nothing serves it."""
    subprocess.run(
        command(home, "down", "--yes"), env=environment(), timeout=PATIENCE, check=False, capture_output=True
    )


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}


@contextmanager
def a_server(
    home: Path, *arguments: str, program: Sequence[str] = CHECKOUT, env: Mapping[str, str] | None = None
) -> Iterator[ServeProcess]:
    """Serve a home until the block ends; the log is `serve.log` beside it."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with open(home.parent / "serve.log", "ab") as log:
        process = subprocess.Popen(
            command(home, "serve", "--port", "0", "--json", *arguments, program=program),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment() if env is None else env,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (home.parent / "serve.log").read_text()
        yield ServeProcess(home, process, json.loads(line)["url"])
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
