"""The independent emulator of the service of scale sets, as a process of its own, and how a test controls it."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

TOKEN = "ghp_emulator"
GROUP = "special"  # a runner group beside the default one
STARTING_TAKES = 120.0  # seconds; it takes milliseconds
LONG_POLL = 0.3  # seconds


class Emulator:
    """`url` stands for github.com's; every scope exists."""

    token = TOKEN

    def __init__(self, url: str, control: str) -> None:
        self.url = url
        self._control = httpx.Client(base_url=control, trust_env=False, timeout=STARTING_TAKES)

    def close(self) -> None:
        self._control.close()

    def queue(self, set_id: int, *labels: str) -> int:
        """A job that waits for a set; what acquiring takes."""
        return int(self._ask("POST", "/jobs", {"scaleSetId": set_id, "labels": list(labels)})["runnerRequestId"])

    def start_job(self, job: int, runner: str) -> None:
        self._ask("POST", f"/jobs/{job}/start", {"runnerName": runner})

    def complete_job(self, job: int, result: str = "succeeded") -> None:
        self._ask("POST", f"/jobs/{job}/complete", {"result": result})

    def fail(self, endpoint: str, status: int, *, times: int = 1, retry_after: int | None = None) -> None:
        """The next calls of an endpoint (getMessage, sessions, …) are answered so, and nothing is done."""
        response: dict[str, Any] = {"kind": "status", "status": status}
        if retry_after is not None:
            response |= {"kind": "rateLimit", "retryAfterSecs": retry_after, "primary": False}
        self._ask("POST", "/faults", {"endpoint": endpoint, "response": response, "times": times})

    def revoke_jwts(self) -> None:
        self._ask("POST", "/expire/admin-tokens")

    def end_queue_token(self, set_id: int) -> None:
        self._ask("POST", f"/expire/queue-token/{set_id}")

    def drop_session(self, set_id: int) -> None:
        self._ask("POST", f"/expire/session/{set_id}")

    def state(self) -> dict[str, Any]:
        return self._ask("GET", "/state")

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self._control.request(method, path, json=body)
        assert answer.is_success, f"the emulator refused {method} {path}: {answer.text}"
        return dict(answer.json()) if answer.content else {}


@contextmanager
def emulating(program: Path) -> Iterator[Emulator]:
    """It listens on a free port of 127.0.0.1."""
    options = ["--port", "0", "--pat", TOKEN, "--long-poll-ms", str(int(1000 * LONG_POLL)), "--runner-group", GROUP]
    process = subprocess.Popen([program, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert select.select([process.stdout], [], [], STARTING_TAKES)[0], "the emulator did not start"
        found = json.loads(process.stdout.readline())
        emulator = Emulator(found["url"], found["control_url"])
        yield emulator
        emulator.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
