"""Signals to a command at work: the first makes it give back what it holds, the second leaves that to others. A closed
terminal counts as the first."""

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scenario.commands import LONGEST
from scenario.pool import Command, Pool
from scenario.test_racing import stock
from terminals import PROGRAM


@pytest.fixture
def at_work(pool: Pool) -> Command:
    """A provision that has claimed two and created one, and waits for the one to boot."""
    stock(pool, 2)
    pool.settings |= {"agent.pre-runner-script": "sleep 15", "agent.pre-runner-timeout": 18}
    command = pool.start_provision("run-1", 3)
    pool.until(lambda: len(pool.ids("claimed")) == 2 and len(pool.ids("created")) == 1, "two claimed, one created")
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_makes_provision_give_everything_back(pool: Pool, at_work: Command, number: signal.Signals) -> None:
    at_work.send(number)
    ran = at_work.wait()
    assert ran.code == 130, ran
    assert ran.answer["state"] == "failed"
    assert "stopped" in ran.answer["reason"]
    assert ran.answer["instances"] == []
    assert len(ran.answer["discarded"]) == 3
    assert "Traceback" not in ran.err
    assert pool.rows("SELECT state FROM provisions WHERE run_id = 'run-1'") == [("aborted",)]
    assert pool.ids("claimed") == pool.ids("created") == []
    pool.settle()
    assert len(pool.on_offer()) == 2
    assert pool.audit() == []


def test_a_second_signal_ends_it_at_once_and_refresh_pays_what_is_left(pool: Pool, at_work: Command) -> None:
    # Frozen, it meets both at once: else it might be through with the first before the second is sent.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        at_work.send(number)
    ran = at_work.wait()
    assert ran.code == 130, ran
    assert ran.answer["state"] == "failed"
    assert "twice" in ran.answer["reason"]
    pool.settle()
    assert len(pool.on_offer()) == 2
    assert pool.audit() == []


def test_a_terminal_whose_end_is_reported_twice_is_no_second_signal(pool: Pool, at_work: Command) -> None:
    at_work.send(signal.SIGHUP)  # from the system
    pool.until(lambda: "ShdPnd:\t0000000000000000" in status_of(at_work), "the signal was delivered")
    at_work.send(signal.SIGHUP)  # from the shell
    ran = at_work.wait()
    assert ran.code == 130, ran
    assert "twice" not in ran.answer["reason"]
    assert len(ran.answer["discarded"]) == 3


def status_of(command: Command) -> str:
    return Path(f"/proc/{command.pid}/status").read_text()


def test_a_run_whose_terminal_is_closed_gives_its_runners_back(pool: Pool) -> None:
    stocked = stock(pool, 2)
    with run_on_a_terminal(pool, "--count", "2", "--", "sleep", "600") as (process, terminal):
        pool.until(lambda: pool.rows("SELECT state FROM jobs") == 2 * [("running",)], "both jobs run")
        os.close(terminal)
        assert process.wait(LONGEST) == 130
    pool.settle()
    assert pool.on_offer() == stocked
    assert pool.audit() == []


def test_below_nohup_a_run_outlives_its_terminal(pool: Pool) -> None:
    stock(pool, 1)
    go = pool.folder / "go"
    os.mkfifo(go)
    words = ["--count", "1", "--", "sh", "-c", f"read line < {go}"]
    with run_on_a_terminal(pool, *words, below=("nohup",)) as (process, terminal):
        pool.until(lambda: pool.rows("SELECT state FROM jobs") == [("running",)], "the job runs")
        os.close(terminal)
        go.write_text("go\n")
        assert process.wait(LONGEST) == 0


def test_a_run_that_hears_nothing_of_its_closed_terminal_gives_its_runners_back_with_the_next_line(pool: Pool) -> None:
    stocked = stock(pool, 1)
    go = pool.folder / "go"
    os.mkfifo(go)
    words = ["--count", "1", "--", "sh", "-c", f"read line < {go}; echo a line; exec sleep 600"]
    deaf = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
    with run_on_a_terminal(pool, *words, below=deaf) as (process, terminal):
        pool.until(lambda: pool.rows("SELECT state FROM jobs") == [("running",)], "the job runs")
        os.close(terminal)
        go.write_text("go\n")
        assert process.wait(LONGEST) == 1
    pool.settle()
    assert pool.on_offer() == stocked
    assert pool.audit() == []


def test_a_run_whose_reader_is_gone_gives_its_runners_back(pool: Pool) -> None:
    """As below `bullpen run … 2>&1 | head -1`."""
    stocked = stock(pool, 1)
    reader, writer = os.pipe()
    os.close(reader)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    line = [*PROGRAM, *pool.line("run", "--run-id", "run-1", "--no-sync", "--count", "1", "--", "true")]
    subprocess.run(line, stdout=writer, stderr=writer, env=environ, cwd=pool.folder, timeout=LONGEST, check=False)
    os.close(writer)
    assert pool.rows("SELECT id FROM instances WHERE state = 'running'") == []
    pool.settle()
    assert pool.on_offer() == stocked


@contextmanager
def run_on_a_terminal(
    pool: Pool, *words: str, below: tuple[str, ...] = ()
) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """`bullpen run` as the first process of a terminal: the system tells it when that is closed."""
    terminal, program = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
    line = ["setsid", "--ctty", *below, *PROGRAM, *pool.line("run", "--no-sync", *words)]
    with subprocess.Popen(line, stdin=program, stdout=program, stderr=program, env=environ, cwd=pool.folder) as process:
        os.close(program)
        try:
            yield process, terminal
        finally:
            process.kill()


def test_a_signal_at_any_moment_of_a_provision_leaves_all_or_nothing(pool: Pool) -> None:
    stocked = stock(pool, 2)
    began = time.monotonic()
    pool.provision("measured", 2)
    duration = time.monotonic() - began
    pool.release("measured")
    for k in range(12):
        command = pool.start_provision(f"run-{k}", 2)
        ran = command.after(duration * k / 12, signal.SIGINT)
        assert ran.code in (0, 130), ran
        assert ran.answer["state"] == ("failed" if ran.code else "succeeded"), ran
        assert "Traceback" not in ran.err, ran
        pool.settle()
        assert pool.audit() == [], f"after {duration * k / 12:.3f} s"
        assert pool.live() == stocked
        pool.release(f"run-{k}")


def test_a_signalled_release_says_what_is_pending_and_refresh_finishes_it(pool: Pool) -> None:
    pool.provision("run-1", 2)
    slow, _ = pool.ids("running")
    pool.signal(slow, signal.SIGSTOP)
    command = pool.start("release", "--run-id", "run-1", "--json")
    pool.until(lambda: len(pool.on_offer()) == 1, "one is on offer again, one is awaited")
    command.send(signal.SIGTERM)
    ran = command.wait()
    assert ran.code == 130, ran
    assert ran.answer["pending"] == [slow]
    pool.signal(slow, signal.SIGCONT)
    pool.settle()
    assert len(pool.on_offer()) == 2
    assert pool.audit() == []
