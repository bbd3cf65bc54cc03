"""`serve` takes over changed `liveness.*`: in this process, and as a real one after a changed file or a SIGHUP."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import NOW
from bullpen.config import Liveness, Settings
from bullpen.controllers import Service
from bullpen.settings import load
from bullpen.settings.reloading import Reloader
from server.fixtures import a_house
from server.served import PATIENCE, ServeProcess, a_server, command, environment

LONG = "[liveness]\nmin-lease = 15\ndefault-lease = 333\n"


async def test_beats_are_granted_leases_by_the_values_in_force(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.beat("a")).json()["grantedLeaseSeconds"] == 60
        house.app.adopt(Settings(liveness=Liveness(default_lease=333.0)))
        assert (await house.beat("b")).json()["grantedLeaseSeconds"] == 333
        assert house.context.settings.liveness.default_lease == 333.0


async def test_status_says_what_needs_a_restart_and_what_was_refused(tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text("")

    def read() -> Any:
        return load({}, config=str(file))

    async with a_house(tmp_path) as house:
        shown = (await house.ask("GET", "/v1/status")).json()["settings"]
        assert shown == {"file": "", "restartNeeded": [], "refused": ""}
        house.context.reloader = reloader = Reloader(read(), read)
        file.write_text("[timings]\nidle = 60\n")
        reloader.reread()
        shown = (await house.ask("GET", "/v1/status")).json()["settings"]
        assert shown == {"file": str(file), "restartNeeded": ["timings.idle"], "refused": ""}
        file.write_text("[liveness]\nconfirm = 1\n")
        reloader.reread()
        assert "liveness.confirm" in (await house.ask("GET", "/v1/status")).json()["settings"]["refused"]


async def test_settings_that_are_adopted_or_refused_are_in_the_activity(tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text("")

    def read() -> Any:
        return load({}, config=str(file))

    async with a_house(tmp_path) as house:
        service = Service(house.ports, Settings(), Reloader(read(), read), process="serve")
        for text in (LONG, "[liveness]\nconfirm = 1\n", "[liveness]\nconfirm = 1\n"):
            file.write_text(text)
            for _ in range(3):  # it is read once it has stopped changing
                await service._read_settings()
        await service.activity.flush()
        refused, adopted = (await house.ports.history.actions(NOW, NOW + timedelta(days=9999), 10)).rows
        assert (adopted.did, adopted.subject, adopted.is_done) == ("adopt settings", str(file), True)
        assert (refused.is_done, "liveness.confirm" in refused.reason) == (False, True)


# ---- as a real process


def granted(served: ServeProcess, key: str) -> float:
    status, answer = served.ask("POST", "/v1/heartbeats", {"workerInstanceKey": key})
    assert status == 200, answer
    return float(answer["grantedLeaseSeconds"])


def comes_true(question: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if question():
            return True
        time.sleep(0.1)
    return False


def is_logged(tmp_path: Path, text: str) -> bool:
    return text in (tmp_path / "serve.log").read_text()


@pytest.mark.slow
@pytest.mark.real_loop
def test_a_changed_file_is_taken_over_by_the_running_process(tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text("")
    with a_server(tmp_path / "home", "--config", str(file)) as served:
        assert granted(served, "a") == 60
        file.write_text(LONG + "[timings]\nidle = 99\n")
        assert comes_true(lambda: is_logged(tmp_path, "name=liveness.default-lease"))
        assert granted(served, "b") == 333
        assert served.ask("GET", "/v1/status")[1]["settings"]["restartNeeded"] == ["timings.idle"]
        assert is_logged(tmp_path, "timings.idle")


@pytest.mark.slow
@pytest.mark.real_loop
def test_sighup_has_the_settings_read_again_and_a_mistake_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "pool.toml"
    file.write_text("")
    arguments = ("--config", str(file), "--set", "liveness.max-lease=3000")
    with a_server(tmp_path / "home", *arguments) as served:
        file.write_text(LONG + "max-lease = 400\n")
        served.process.send_signal(signal.SIGHUP)
        assert comes_true(lambda: is_logged(tmp_path, "name=liveness.default-lease"))
        assert granted(served, "a") == 333
        body = {"workerInstanceKey": "b", "leaseSeconds": 3600}
        assert served.ask("POST", "/v1/heartbeats", body)[1]["grantedLeaseSeconds"] == 3000  # the option wins
        file.write_text("[liveness]\ndefault-lease = 1\n")
        served.process.send_signal(signal.SIGHUP)
        assert comes_true(lambda: is_logged(tmp_path, "liveness.default-lease (1) must be at least liveness.min-lease"))
        assert granted(served, "c") == 333
        assert served.end() == 0


@pytest.mark.slow
@pytest.mark.real_loop
def test_a_service_whose_terminal_is_closed_stops(tmp_path: Path) -> None:
    """It is not an operator's SIGHUP: without its terminal, no user would see that it still runs."""
    terminal, theirs = pty.openpty()
    attach = "import fcntl, os, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    program = f"{attach} os.execv({sys.executable!r}, {command(tmp_path / 'home', 'serve', '--port', '0', '--json')!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    os.close(theirs)
    try:
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        os.close(terminal)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
