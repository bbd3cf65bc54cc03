"""GitHub's own client as a process: it reports what it does, line by line."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120.0  # seconds; what is waited for takes milliseconds


class GoClient:
    """`events` is everything that it has reported."""

    def __init__(self, program: Path, command: str, url: str, token: str, *options: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [program, command, "--url", url, "--token", token, *options], stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, event: str, **said: Any) -> dict[str, Any]:
        """The first report of this kind that says so."""
        ends = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                for one in self.events:
                    if one["event"] == event and said.items() <= one.items():
                        return one
                left = ends - time.monotonic()
                if left <= 0 or (self._process.poll() is not None and not self._reader.is_alive()):
                    raise TimeoutError(f"no {event} {said} among {self.events}")
                self._changed.wait(min(left, 1.0))

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        """Its exit code, once it has ended and everything that it reported is here."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.events.append(json.loads(line))
                self._changed.notify_all()
        self._process.stdout.close()


@contextmanager
def a_go_client(program: Path, command: str, url: str, token: str, *options: str) -> Iterator[GoClient]:
    """It is killed at the end, if it still runs."""
    client = GoClient(program, command, url, token, *options)
    try:
        yield client
    finally:
        client.kill()
        client.wait()
