"""Signals to a provision at work: the first makes it give back what it holds, the second leaves that to others."""

import signal
import time

import pytest

from scenario.pool import Command, Pool
from scenario.test_racing import stock


@pytest.fixture
def at_work(pool: Pool) -> Command:
    """A provision that has claimed two and created one, and waits for the one to boot."""
    stock(pool, 2)
    pool.settings |= {"agent.pre-runner-script": "sleep 15", "agent.pre-runner-timeout": 18}
    command = pool.start_provision("run-1", 3)
    pool.until(lambda: len(pool.ids("claimed")) == 2 and len(pool.ids("created")) == 1, "two claimed, one created")
    return command


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
