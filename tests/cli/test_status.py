"""`bullpen status`: what it shows of a pool, on any terminal, once or again and again."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from builders import NOW, on_offer, open_provision, running, wait
from bullpen import inventory
from bullpen.cli.status_text import status_text
from bullpen.cli.text import cut, table
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.schema.status import PoolStatus, pool_status_of
from bullpen.wiring import opened
from command_line import CommandLine
from made_homes import with_database

PROGRAM = [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())"]
ID = "i-0123456789abcdef"


def a_pool() -> PoolStatus:
    """A run with a runner, a run that waits, and an instance on offer."""

    async def look() -> PoolStatus:
        ports = Memory().ports()
        await ports.records.apply(open_provision())
        for change in (*running(ID), *on_offer("i-2", provision_id="p-1")):
            await ports.records.apply(change)
        (waiting,) = await ports.records.apply(open_provision("p-2", run_id="later", want=3))
        await ports.records.apply(wait(waiting, until=9e8))
        return pool_status_of(await inventory.status(ports, Settings()), location="/srv/pool")

    return asyncio.run(look())


# ---- text


def test_the_first_line_names_the_pool() -> None:
    assert status_text(a_pool(), NOW).splitlines()[0] == "Pool: /srv/pool"


def test_runs_are_listed_before_instances() -> None:
    lines = status_text(a_pool(), NOW).splitlines()
    assert lines[2].split() == ["RUN", "STATE", "RUNNERS", "CLASS", "JOBS", "SINCE"]
    assert lines[3].split()[:7] == ["later", "waiting", "for", "limits.max-instances", "0", "of", "3"]
    assert lines[4].split()[:5] == ["run-1", "provisioning", "1", "of", "1"]
    assert lines[6].startswith("INSTANCE")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_text_fits_the_terminal_and_ids_stay_whole(width: int) -> None:
    text = status_text(a_pool(), NOW, width)
    assert max(map(len, text.splitlines())) <= width
    assert ID in text


@pytest.mark.parametrize("length", [45, 128])
def test_a_long_run_id_loses_its_middle_where_the_terminal_is_narrow(length: int) -> None:
    id = "acme-widgets-".ljust(length - 5, "x") + "-4711"
    found = msgspec.structs.replace(a_pool(), scale_sets=[])
    found = msgspec.structs.replace(found, runs=[msgspec.structs.replace(found.runs[1], id=id)])
    found = msgspec.structs.replace(found, instances=[msgspec.structs.replace(found.instances[0], run_id=id)])
    text = status_text(found, NOW, 60)
    assert max(map(len, text.splitlines())) <= 60
    assert "RUNNERS" in text
    assert text.count("acme-") == text.count("-4711") == text.count("...") == 2
    assert id in status_text(found, NOW)


def test_a_pipe_gets_every_column() -> None:
    assert "PID" in status_text(a_pool(), NOW)
    assert "PID" not in status_text(a_pool(), NOW, 60)


def test_only_the_last_column_of_a_table_is_cut() -> None:
    text = table(("ID", "WHY"), [("i-1", "a long reason that does not fit"), ("i-2", "short")], 16)
    assert text.splitlines() == ["ID   WHY", "i-1  a long rea…", "i-2  short"]


def test_a_table_that_cannot_fit_keeps_its_ids() -> None:
    assert table(("ID", "RUN"), [("i-0123456789", "run-1")], 8).splitlines()[1] == "i-0123456789  run-1"


# ---- filters, on a real home


@pytest.fixture
def home(bullpen: CommandLine) -> CommandLine:
    """Two runs that are provisioned, one of each class, and one that waits."""

    async def make() -> None:
        async with opened(with_database(bullpen.folder / ".bullpen"), Settings()) as ports:
            later = ports.clock.now() + timedelta(seconds=600)
            for number, kind in enumerate(("small", "large")):
                needs = Settings().requirements(kind)
                change = open_provision(f"p-{number}", run_id=f"run-{kind}", needs=needs, deadline=later)
                await ports.records.apply(change)
                for step in running(f"i-{number}", f"run-{kind}", provision_id="p-x", resource_class=kind):
                    await ports.records.apply(step)

    asyncio.run(make())
    return bullpen


@pytest.mark.parametrize(
    ("options", "runs", "instances"),
    [
        ((), ["run-large", "run-small"], ["i-0", "i-1"]),
        (("--run", "run-small"), ["run-small"], ["i-0"]),
        (("--class", "large"), ["run-large"], ["i-1"]),
        (("--state", "provisioning"), ["run-large", "run-small"], []),
        (("--state", "running"), [], ["i-0", "i-1"]),
        (("--state", "running", "--class", "small"), [], ["i-0"]),
    ],
)
def test_filters_choose_runs_and_instances(
    home: CommandLine, options: tuple[str, ...], runs: list[str], instances: list[str]
) -> None:
    answer = home("status", "--json", *options).answer
    assert [one["id"] for one in answer["runs"]] == runs
    assert [one["id"] for one in answer["instances"]] == instances
    text = home("status", *options).out
    assert [id for id in ("i-0", "i-1") if f"\n{id} " in text] == instances


def test_the_answer_names_the_home(home: CommandLine) -> None:
    assert home("status", "--json").answer["location"] == f"{home.folder}/.bullpen"
    assert home("status").out.startswith(f"Pool: {home.folder}/.bullpen\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--state", "idel"), "'idle'"),
        (("--class", "smal"), "must be one of small, medium, large"),
        (("--class", "?"), "must be one of small, medium, large"),
        (("--run", "a b"), "--run-id 'a b'"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_is_allowed(home: CommandLine, options: tuple[str, ...], said: str) -> None:
    ran = home("status", *options)
    assert ran.code == 2
    assert said in ran.err


def test_a_run_that_was_never_provisioned_is_not_found(home: CommandLine) -> None:
    ran = home("status", "--run", "run-smal", "--json")
    assert (ran.code, ran.answer["cause"]) == (1, "not-found")


# ---- watch, with the real program


@pytest.fixture
def started(home: CommandLine) -> Iterator[list["subprocess.Popen[str]"]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def change_the_pool(folder: Path) -> None:
    async def change() -> None:
        async with opened(folder / ".bullpen", Settings()) as ports:
            for step in on_offer("i-9", provision_id="p-x"):
                await ports.records.apply(step)

    asyncio.run(change())


@pytest.mark.slow
def test_watch_on_a_pipe_prints_again_when_something_changed(
    home: CommandLine, started: list["subprocess.Popen[str]"]
) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "status", "--watch", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started.append(process)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert [one["id"] for one in first["instances"]] == ["i-0", "i-1"]
    change_the_pool(home.folder)
    second = json.loads(process.stdout.readline())
    assert [one["id"] for one in second["instances"]] == ["i-0", "i-1", "i-9"]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.slow
def test_watch_ends_when_the_reader_of_its_pipe_has_gone(
    home: CommandLine, started: list["subprocess.Popen[str]"]
) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "status", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started.append(process)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("large"):  # the last line: nothing is being written now
        pass
    process.stdout.close()
    assert (process.wait(60), process.stderr and process.stderr.read()) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_watch_on_a_small_terminal_never_scrolls(
    home: CommandLine, started: list["subprocess.Popen[str]"], locale: str
) -> None:
    rows, columns = 6, 24
    terminal, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environ = {**os.environ, "TERM": "xterm", "LC_ALL": locale} | {"COLUMNS": str(columns), "LINES": str(rows)}
    environ.pop("PYTHONIOENCODING", None), environ.pop("PYTHONUTF8", None)
    process = subprocess.Popen([*PROGRAM, "status", "--watch"], stdout=program, stderr=program, text=True, env=environ)
    started.append(process)
    os.close(program)
    seen = b""
    while seen.count(b"\033[H") < 2:
        seen += os.read(terminal, 65536)
    os.close(terminal)
    screen = seen.decode().split("\033[H")[1].replace("\033[K", "").replace("\033[J", "").replace("\r", "")
    assert screen.count("\n") == rows - 1  # the cursor stands in the last row, and the first one is still there
    assert max(map(len, screen.splitlines())) <= columns
    assert "more lines" in screen
    # A terminal erases the last character of its line, if text as wide as the terminal stands before this.
    assert not re.search(r"[^\n\033H]\033\[[KJ]", seen.decode().split("\033[H", 1)[1])


@pytest.mark.slow
def test_watch_on_a_terminal_draws_in_place(home: CommandLine, started: list["subprocess.Popen[str]"]) -> None:
    terminal, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environ = {**os.environ, "TERM": "xterm"} | {"COLUMNS": "60", "LINES": "24"}
    process = subprocess.Popen([*PROGRAM, "status", "--watch"], stdout=program, stderr=program, text=True, env=environ)
    started.append(process)
    os.close(program)
    seen = b""
    while seen.count(b"\033[H") < 2:  # the second time because time has passed
        seen += os.read(terminal, 65536)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode == 0
    assert seen.startswith(b"\033[2J\033[H")
    screen = seen.decode().split("\033[H")[1].replace("\033[K", "").replace("\r", "")
    assert screen.startswith(cut(f"Pool: {home.folder / '.bullpen'}", 60))
    assert max(len(line) for line in screen.replace("\033[J", "").splitlines()) <= 60
    os.close(terminal)
