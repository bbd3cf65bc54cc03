"""The turnstile: one holder at a time, in order, freed by death."""

import fcntl
import sqlite3
import threading
from pathlib import Path

import pytest

from bullpen.engines.sqlite.turnstile import Turnstile, TurnstileTimeout, connect
from engines.sqlite.processes import a_line_of, a_process

HOLD_FOR_EVER = """
import sys, pathlib
from bullpen.engines.sqlite.turnstile import Turnstile
with Turnstile(pathlib.Path(sys.argv[1])).hold():
    print("held", flush=True)
    sys.stdin.read()
"""

HOLD_OFTEN = """
import sys, pathlib, time
from bullpen.engines.sqlite.turnstile import Turnstile
home, name, rounds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
turnstile = Turnstile(home)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(rounds):
    with turnstile.hold(timeout=240), open(home / "log", "a") as log:
        log.write(name)
        log.flush()
        time.sleep(0.001)  # a hold takes as long as a commit
"""


def test_a_held_turnstile_keeps_other_threads_out_and_says_so_in_time(tmp_path: Path) -> None:
    held, other = Turnstile(tmp_path).hold(), Turnstile(tmp_path)
    with held, pytest.raises(TurnstileTimeout, match=str(tmp_path)), other.hold(timeout=0.01):
        pass


def test_killing_the_holder_frees_the_turnstile(tmp_path: Path) -> None:
    with a_process(HOLD_FOR_EVER, tmp_path) as holder:
        assert a_line_of(holder) == "held"
        with pytest.raises(TurnstileTimeout), Turnstile(tmp_path).hold(timeout=0.01):
            pass
        holder.kill()
        with Turnstile(tmp_path).hold(timeout=30):
            pass


def test_a_turn_that_comes_after_the_time_out_is_given_back(tmp_path: Path) -> None:
    impatient = Turnstile(tmp_path)
    with Turnstile(tmp_path).hold(), pytest.raises(TurnstileTimeout), impatient.hold(timeout=0.01):
        pass
    with Turnstile(tmp_path).hold(timeout=30):
        pass


def test_however_often_one_loses_patience_it_stands_in_line_once(tmp_path: Path) -> None:
    impatient = Turnstile(tmp_path)
    before = threading.active_count()
    with Turnstile(tmp_path).hold():
        for _ in range(5):
            with pytest.raises(TurnstileTimeout), impatient.hold(timeout=0.001):
                pass
        assert threading.active_count() == before + 1
    with impatient.hold(timeout=30):
        pass


def test_an_error_inside_frees_the_turnstile(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path)
    with pytest.raises(ZeroDivisionError), turnstile.hold():
        raise ZeroDivisionError
    with turnstile.hold(timeout=0.01):
        pass


def test_a_waiting_process_passes_before_one_that_comes_again(tmp_path: Path) -> None:
    order: list[str] = []

    def wait_and_pass() -> None:
        with Turnstile(tmp_path).hold(timeout=30):
            order.append("waiter")

    again = Turnstile(tmp_path)
    for _ in range(20):
        with again.hold():
            waiter = threading.Thread(target=wait_and_pass)
            waiter.start()
            assert is_taken(tmp_path / "turn.lock")
        with again.hold(timeout=30):
            order.append("again")
        waiter.join()
    assert order == ["waiter", "again"] * 20


def is_taken(lock: Path) -> bool:
    """Whether a process holds the lock within a while."""
    for _ in range(60_000):
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
        threading.Event().wait(0.001)
    return False


@pytest.mark.slow
def test_no_process_starves_while_others_want_the_turnstile_all_the_time(tmp_path: Path) -> None:
    """While both compete, turns alternate; a lock without a line gives one of them long rows, every time. So does a
    busy processor that leaves one of them waiting for its turn to ask, but not every time."""
    rounds = 300
    rows = []
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        rows.append(longest_row_of_two(folder, rounds))
        if rows[-1] <= rounds // 10:
            return
    raise AssertionError(f"rows of {rows}")


def longest_row_of_two(folder: Path, rounds: int) -> int:
    """How often one of two processes had its turn again while the other wanted it, at most."""
    with a_process(HOLD_OFTEN, folder, "a", rounds) as a, a_process(HOLD_OFTEN, folder, "b", rounds) as b:
        for process in (a, b):
            assert a_line_of(process) == "ready"
        for process in (a, b):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert a.wait(240) == b.wait(240) == 0
    log = (folder / "log").read_text()
    assert sorted(log) == ["a"] * rounds + ["b"] * rounds
    both_compete = log[log.index("b") if log[0] == "a" else log.index("a") : min(log.rindex("a"), log.rindex("b"))]
    return max(len(row) for row in both_compete.replace("ab", "a b").replace("ba", "b a").split())


def test_a_connection_is_durable_and_checks_foreign_keys(tmp_path: Path) -> None:
    connection = connect(tmp_path / "a.db", create=True)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert connection.isolation_level is None
    connection.close()


def test_connecting_to_a_missing_database_does_not_make_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connect(tmp_path / "missing.db")
    assert list(tmp_path.iterdir()) == []
