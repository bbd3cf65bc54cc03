"""`bullpen down`: names what it ended, and fails if an instance is left."""

import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import bullpen.down
import bullpen.wiring
from bullpen.down import TakenDown
from command_line import CommandLine
from server.served import a_server, command, environment

ON_ITS_OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal to it
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One instance ends and another does not."""

    async def down(*_: Any, **__: Any) -> TakenDown:
        return TakenDown(("i-1",), ("i-2",), ("i-2: switch its protection off",))

    async def serving(*_: Any) -> list[str]:
        return []

    monkeypatch.setattr(bullpen.down, "down", down)
    monkeypatch.setattr(bullpen.down, "serving", serving)
    monkeypatch.setattr(bullpen.wiring, "is_unused", lambda home, settings: False)


@pytest.mark.usefixtures("ends")
def test_an_instance_that_does_not_end_is_named_as_a_failure(bullpen: CommandLine) -> None:
    ran = bullpen("down")
    assert ran.code == 1
    assert "1 instance ended\n  i-1" in ran.out
    assert "1 instance did not end: i-2 (i-2: switch its protection off)" in ran.err
    assert "process" in ran.err


@pytest.mark.usefixtures("ends")
def test_on_aws_the_remedy_does_not_mention_processes(bullpen: CommandLine) -> None:
    needed = (
        "engines.pool=aws",
        "aws.pool=ci-pool",
        "aws.image=ami-0c10d000000000a64",
        "aws.instance-profile=agent",
        "aws.region=us-east-1",
        "aws.subnets=subnet-0123456789abcdef0",
    )
    ran = bullpen("down", *(word for setting in needed for word in ("--set", setting)))
    assert ran.code == 1
    assert "did not end: i-2" in ran.err
    assert "process" not in ran.err


@pytest.mark.usefixtures("ends")
def test_the_json_of_down_names_the_failure(bullpen: CommandLine) -> None:
    ran = bullpen("down", "--json")
    assert ran.code == 1
    assert (ran.answer["state"], ran.answer["cause"]) == ("failed", "refused")
    assert (ran.answer["terminated"], ran.answer["left"]) == (["i-1"], ["i-2"])
    assert "i-2" in ran.answer["reason"]


# ---- beside `bullpen serve`


@pytest.mark.slow
def test_beside_a_running_serve_it_refuses_without_yes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with a_server(home):
        refused = subprocess.run(command(home, "down", "--json"), capture_output=True, text=True, env=environment())
        assert refused.returncode == 2
        answer = json.loads(refused.stdout)
        assert (answer["cause"], answer["field"]) == ("configuration", "--yes")
        assert re.fullmatch(r"serve on \S+ \(\d+\): is running, and will warm the pool again", answer["reason"])
        agreed = subprocess.run(command(home, "down", "--yes"), capture_output=True, text=True, env=environment())
        assert (agreed.returncode, agreed.stdout) == (0, "0 instances ended\n")
    stopped = subprocess.run(command(home, "down"), capture_output=True, text=True, env=environment())
    assert (stopped.returncode, stopped.stderr) == (0, "bullpen: 0 ended, 0 left\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("n\n", 2, "nothing was ended"),
        ("y\n", 0, "0 instances ended"),
        ("\n", 2, "nothing was ended"),
        ("\x04", 2, "nothing was ended"),
        ("\x03", 130, "Nothing was ended."),
        ("closed", 130, ""),
    ],
)
def test_beside_a_running_serve_it_asks_on_a_terminal(tmp_path: Path, answer: str, code: int, said: str) -> None:
    home = tmp_path / "home"
    with a_server(home):
        mine, its = pty.openpty()
        run = [sys.executable, "-c", ON_ITS_OWN_TERMINAL, *command(home, "down")]
        process = subprocess.Popen(run, stdin=its, stdout=its, stderr=its, env=environment(), start_new_session=True)
        os.close(its)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(mine, 4096)
        if answer != "closed":
            os.write(mine, answer.encode())
            with suppress(OSError):  # the terminal is closed at its end
                while part := os.read(mine, 4096):
                    seen += part
        os.close(mine)
        assert process.wait(60) == code, seen
        if answer == "closed":
            return
        assert said in seen.decode(), seen
        assert code != 130 or re.search(rb"\^C\r\n\S*bullpen: error:\S* interrupted\r\n", seen), seen
