"""`bullpen serve` on the embedded engine, for steps that have an operator's token."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server.served import ServeProcess, a_server, command, environment


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[tuple[ServeProcess, dict[str, str]]]:
    """A server on the embedded engine, and the inputs that reach it with an operator's token."""
    create = command(home, "token", "create", "--scope", "operate")
    token = subprocess.run(create, env=environment(), capture_output=True, check=True, text=True).stdout.strip()
    try:
        with a_server(home, *arguments) as served:
            yield served, {"server": served.url, "server-token": token}
    finally:
        subprocess.run(command(home, "down"), env=environment(), check=True, capture_output=True)


def states(served: ServeProcess, token: str, label: str) -> list[str]:
    _, found = served.ask("GET", f"/v1/runs/{label}", headers={"authorization": f"Bearer {token}"})
    return [one["state"] for one in found["instances"]]
