"""`bullpen top` on a real terminal: what it shows, and that it gives the terminal back however it ends."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import on_offer, open_provision, running
from bullpen.auth.tokens import Scope
from bullpen.cli.full_screen import LEAVE
from bullpen.config import Settings
from bullpen.wiring import opened
from command_line import CommandLine
from emulated_terminal import ALTERNATE, EmulatedTerminal
from made_homes import with_database
from made_tokens import make_token
from server.served import a_server
from terminals import PROGRAM

pytestmark = pytest.mark.slow
FAULTY = """
import sys
from bullpen.cli import main
from bullpen.cli.top_screen import TopScreen
frame, drawn = TopScreen.frame, []
def broken(self, *args):
    drawn.append(1)
    if len(drawn) > 2: raise ZeroDivisionError("on purpose")
    return frame(self, *args)
TopScreen.frame = broken
sys.exit(main())
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """40 instances of one run, and one on offer."""

    async def make() -> Path:
        home = with_database(tmp_path / ".bullpen")
        async with opened(home, Settings()) as ports:
            await ports.records.apply(open_provision())
            for number in range(40):
                for change in running(f"i-{number:04}"):
                    await ports.records.apply(change)
            for change in on_offer("i-idle", provision_id="p-1"):
                await ports.records.apply(change)
        return home

    return asyncio.run(make())


@pytest.fixture
def top(home: Path) -> Iterator[EmulatedTerminal]:
    with EmulatedTerminal([*PROGRAM, "top"], home.parent) as terminal:
        terminal.until_text("q quit")
        yield terminal


def test_it_shows_the_pool_and_q_gives_the_terminal_back(top: EmulatedTerminal) -> None:
    assert top.picture.lines[0].startswith("1 run, 41 instances  /")
    assert top.picture.modes[ALTERNATE]
    top.press("3")
    top.until_text("i-0000")
    top.press("\033[6~")
    top.until_text("i-0019")
    top.press("/idle\r")
    top.until(lambda picture: "1 of 1  /idle" in picture.lines[1] and picture.lines[3].startswith("i-idle"))
    top.press("\r")
    top.until_text("i-idle is on offer")
    top.press("\033")
    top.until_text("q quit")
    top.press("q")
    assert top.ended() == 0
    top.assert_restored()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back(top: EmulatedTerminal, number: signal.Signals) -> None:
    if number is signal.SIGINT:
        top.press("\003")
    else:
        top.signal(number)
    assert top.ended() == 0
    top.assert_restored()


def test_a_fault_gives_the_terminal_back_before_it_is_reported(home: Path) -> None:
    with EmulatedTerminal([sys.executable, "-c", FAULTY, "top"], home.parent) as terminal:
        assert terminal.ended() == 70
        terminal.assert_restored()
        behind = terminal.received.partition(LEAVE.encode())[2]
        assert b"unexpected ZeroDivisionError: on purpose" in behind


def test_a_closed_terminal_ends_it(top: EmulatedTerminal) -> None:
    top.hang_up()
    assert top.ended() in (0, 1)


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again(home: Path) -> None:
    shell = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with EmulatedTerminal(shell, home.parent, PS1="ready> ", HISTFILE="") as terminal:
        terminal.until_text("ready>")
        terminal.press(f"{sys.executable} -c '{PROGRAM[2]}' top\n")
        terminal.until_text("q quit")
        terminal.press("\032")
        terminal.until(lambda picture: not picture.modes[ALTERNATE])
        terminal.until_text("Stopped")
        terminal.press("echo o''n its own; stty -a\n")
        terminal.until_text("on its own")
        terminal.until_text(" icanon")
        terminal.received = b""
        terminal.press("fg\n")
        terminal.until(lambda picture: picture.modes[ALTERNATE] and "q quit" in picture.lines[-1])
        terminal.received = b""
        terminal.press("q")
        terminal.until_text("ready>")  # what is typed before belongs to the program that ends
        assert not terminal.picture.modes[ALTERNATE]
        terminal.press("echo c''ode $?\n")
        terminal.until_text("code 0")
        terminal.press("exit\n")
        assert terminal.ended() == 0


def test_another_size_is_drawn_again(top: EmulatedTerminal) -> None:
    for columns, rows in ((60, 20), (132, 50), (20, 5)):
        top.resize(columns, rows)
        top.until(lambda picture: picture.lines[0].startswith("1 run, 41 instances"))
        top.press("3")
    top.resize(60, 20)
    picture = top.until(lambda picture: "q quit" in picture.lines[-1])
    assert picture.lines[2].split() == ["INSTANCE", "STATE", "RUN", "CLASS", "UNTIL", "HEARTBEAT"]
    assert len([line for line in picture.lines if line.startswith("i-")]) == 16


def test_a_change_of_the_pool_is_shown(top: EmulatedTerminal, home: Path) -> None:
    top.press("3/later\r")
    top.until_text("No row contains 'later'.")

    async def add() -> None:
        async with opened(home, Settings()) as ports:
            for change in on_offer("i-later", provision_id="p-1"):
                await ports.records.apply(change)

    asyncio.run(add())
    top.until_text("i-later")


def test_no_color_draws_without_styles_and_marks_the_selected_row(home: Path) -> None:
    with EmulatedTerminal([*PROGRAM, "top"], home.parent, NO_COLOR="1") as terminal:
        terminal.until_text("q quit")
        terminal.press("3j")
        terminal.until(lambda picture: any(line.startswith(">i-0001") for line in picture.lines))
        assert set(terminal.picture.styles) <= {"0"}


def test_an_idle_pool_sends_nothing(top: EmulatedTerminal) -> None:
    top.press("3")
    top.until_text("i-0000")
    while top.read_some(1.5):  # what is still on its way
        pass
    before = len(top.received)
    assert not top.read_some(4.0)
    assert len(top.received) == before


def test_a_server_shows_the_same(home: Path) -> None:
    token = make_token(home, Scope.READ)
    with (
        a_server(home) as served,
        EmulatedTerminal([*PROGRAM, "top", "--server", served.url], home.parent, BULLPEN_TOKEN=token) as terminal,
    ):
        terminal.until_text("q quit")
        assert f"  {served.url}" in terminal.picture.lines[0]
        terminal.press("3")
        terminal.until_text("i-0000")
        terminal.press("4")
        terminal.until(lambda picture: "booting" in "\n".join(picture.lines))  # the cause of the open provision's wait
        terminal.press("q")
        assert terminal.ended() == 0
        terminal.assert_restored()


def test_a_server_that_is_lost_and_found_is_seen(home: Path) -> None:
    with (
        a_server(home) as served,
        EmulatedTerminal([*PROGRAM, "top", "--server", served.url], home.parent) as terminal,
    ):
        terminal.until_text("q quit")
        served.process.send_signal(signal.SIGSTOP)
        try:
            terminal.until_text("the rows are from before")  # long before a client stops to try again
            assert "not read" not in terminal.picture.lines[-1]
            terminal.press("3")
            terminal.until_text("i-0000")
        finally:
            served.process.send_signal(signal.SIGCONT)
        terminal.until_text("q quit")
        terminal.press("q")
        assert terminal.ended() == 0


# ---- no terminal


@pytest.mark.parametrize(
    ("variables", "found"),
    [({"TERM": "dumb"}, "TERM=dumb"), ({"TERM": ""}, "TERM is not set")],
)
def test_a_terminal_that_cannot_be_drawn_on_is_refused(home: Path, variables: dict[str, str], found: str) -> None:
    with EmulatedTerminal([*PROGRAM, "top"], home.parent, 80, 24, **variables) as terminal:
        assert terminal.ended() == 2
        assert found in terminal.printed
        assert "`bullpen status --watch`" in " ".join(terminal.printed.split())
        assert not terminal.picture.modes[ALTERNATE]


def test_a_pipe_is_refused_with_what_to_use_instead(home: Path) -> None:
    ran = subprocess.run(
        [*PROGRAM, "top"], cwd=home.parent, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "bullpen status --json" in ran.stderr


def test_no_pool_is_an_error_as_for_every_query(bullpen: CommandLine) -> None:
    with EmulatedTerminal([*PROGRAM, "top"], bullpen.folder) as terminal:
        assert terminal.ended() == 1
        assert "there is no pool in" in terminal.printed
        terminal.assert_restored()
