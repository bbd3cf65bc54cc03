"""Real commands that wait for room under a cap: in the order in which they came, whatever becomes of the others."""

import signal
import time

import pytest

from scenario.commands import Command
from scenario.pool import Pool
from scenario.test_everyday import ids

PLACES = "SELECT run_id FROM provisions WHERE state = 'open' AND waits_since IS NOT NULL ORDER BY waits_since, id"


def in_queue(pool: Pool) -> list[str]:
    return [run_id for (run_id,) in pool.rows(PLACES)]


def waiting(pool: Pool, run_id: str, count: int = 1, *more: str) -> Command:
    """A command that has its place in the queue."""
    command = pool.start_provision(run_id, count, "--wait", "50s", *more)
    pool.until(lambda: run_id in in_queue(pool), f"{run_id} waits")
    return command


def test_commands_are_served_in_the_order_in_which_they_came(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 2
    pool.provision("busy", 2)
    commands = {run_id: waiting(pool, run_id, count) for run_id, count in (("one", 2), ("two", 1), ("three", 1))}
    assert "1 provision waits in front" not in pool.refused("late", 1)["reason"]
    assert "3 provisions wait in front" in pool.refused("late", 1)["reason"]
    pool.release("busy")
    assert len(ids(commands["one"].wait().answer)) == 2
    assert in_queue(pool) == ["two", "three"]
    pool.release("one")
    for run_id in ("two", "three"):
        assert commands[run_id].wait().code == 0
        assert len(pool.rows("SELECT * FROM machines WHERE ended_at IS NULL")) <= 2
    assert pool.audit() == []


def test_a_race_of_many_waiting_commands_serves_all_and_passes_no_cap(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 2
    commands = [pool.start_provision(f"run-{n}", 1, "--wait", "50s") for n in range(5)]
    served = 0
    left = list(enumerate(commands))
    give_up = time.monotonic() + 300
    while left and time.monotonic() < give_up:
        for number, command in [one for one in left if one[1].has_ended()]:
            assert command.wait().code == 0, command.wait()
            assert len(pool.rows("SELECT * FROM machines WHERE ended_at IS NULL")) <= 2
            pool.release(f"run-{number}")
            left.remove((number, command))
            served += 1
        time.sleep(0.05)
    assert served == 5
    assert in_queue(pool) == []
    assert pool.audit() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_the_queue_at_once(pool: Pool, number: signal.Signals) -> None:
    pool.settings["limits.max-instances"] = 1
    pool.provision("busy", 1)
    command = waiting(pool, "next")
    command.send(number)
    ran = command.wait()
    assert ran.code == 130, ran
    assert in_queue(pool) == []
    assert pool.audit() == []


def test_a_killed_command_does_not_block_the_queue(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 2
    pool.provision("busy", 1)
    pool.provision("before", 1)
    pool.release("before")
    dead = waiting(pool, "dead", 2)
    second = waiting(pool, "second", 1)
    dead.kill()
    assert second.wait().code == 0  # within twice timings.alive
    pool.settle()
    assert in_queue(pool) == []
    assert pool.audit() == []


def test_status_shows_which_runs_wait_and_the_progress_says_for_what(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 1
    pool.provision("busy", 1)
    command = waiting(pool, "next")
    (shown,) = pool.run("status", "--json").answer["waiting"]
    assert (shown["runId"], shown["count"], shown["waitsFor"]) == ("next", 1, "limits.max-instances")
    assert "limits.max-instances" in pool.run("status").out
    pool.release("next")
    ran = command.wait()
    assert ran.code == 1
    assert "its run was released" in ran.answer["reason"]
    assert "waiting for room: limits.max-instances is 1; the total would be 2; in use: 1 small running" in ran.err


def test_a_run_waits_for_its_runners_too(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 1
    pool.provision("busy", 1)
    command = pool.start("run", "--run-id", "job", "--count", "1", "--wait", "50s", "--", "true")
    pool.until(lambda: in_queue(pool) == ["job"], "the run waits")
    pool.release("busy")
    assert command.wait().code == 0
    assert pool.audit() == []
