"""kill -9 at many moments: whatever a command was doing, a refresh finishes it, and nothing is lost on the way.

The moments are spread evenly over the measured duration of the command, and only a kill that met it at work counts.
Each starts from where the last one left the pool; after each the pool is settled and audited.
"""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from scenario.pool import Command, Pool, Ran
from scenario.test_racing import stock

KILLS = 25  # of each kind, twice as many of release
GOLDEN = 0.6180339887


def duration_of(command: Command) -> float:
    ran = command.wait()
    assert ran.code == 0, ran
    return time.monotonic() - command.began


class Kills:
    """So many kills of a command that takes so long."""

    def __init__(self, duration: float, left: int) -> None:
        self._duration, self._left, self._moment = duration, left, 0.0

    def moments(self) -> Iterator[tuple[int, float]]:
        """Numbered, each in the widest gap that is left: any number is a fair spread."""
        for number in range(4 * self._left):
            self._moment = self._duration * (number * GOLDEN % 1.0)
            yield number, self._moment
            if self._left == 0:
                return
        pytest.fail("most of the commands ended before they were killed")

    def count(self, ran: Ran) -> None:
        if ran.code == -signal.SIGKILL:
            self._left -= 1
        else:  # It takes no longer than this: the machine was busy when it was measured.
            self._duration = (self._duration + self._moment) / 2


@pytest.mark.parametrize("more", [0, 1], ids=["warm", "half-cold"])
def test_a_killed_provision_leaves_nothing_that_a_refresh_does_not_finish(pool: Pool, more: int) -> None:
    """It claims what the pool has, and creates one `more`: a kill may hit the claims, the launch, the commit."""
    stock(pool, 2)
    duration = duration_of(pool.start_provision("measured", 2 + more))
    pool.release("measured")
    kills = Kills(duration, KILLS)
    for number, moment in kills.moments():
        if len(pool.on_offer()) > 4:
            pool.run("down", "--yes")
            stock(pool, 2)
        before = pool.on_offer()
        ran = pool.start_provision(f"run-{number}", len(before) + more).after(moment, signal.SIGKILL)
        has_committed = bool(
            pool.rows("SELECT 1 FROM provisions WHERE run_id = ? AND members <> '[]'", f"run-{number}")
        )
        pool.settle()
        assert pool.audit() == [], f"killed after {moment:.3f} s"
        assert len(pool.ids("running")) == (len(before) + more if has_committed else 0), f"killed after {moment:.3f} s"
        assert set(before) <= set(pool.live()), f"killed after {moment:.3f} s: lost what it had claimed"
        pool.release(f"run-{number}")
        kills.count(ran)


def test_a_killed_release_leaves_nothing_that_a_refresh_does_not_finish(pool: Pool) -> None:
    members = stock(pool, 2)
    pool.provision("measured", 2)
    duration = duration_of(pool.start("release", "--run-id", "measured"))
    kills, run_id = Kills(duration, 2 * KILLS), ""
    for number, moment in kills.moments():
        if not pool.ids("running"):  # killed before it decided anything, the last one left its run as it was
            run_id = f"run-{number}"
            assert pool.provision(run_id, 2)["created"] == 0
        ran = pool.start("release", "--run-id", run_id).after(moment, signal.SIGKILL)
        pool.settle()
        assert pool.audit() == [], f"killed after {moment:.3f} s"
        assert pool.live() == members, f"killed after {moment:.3f} s"
        kills.count(ran)


def a_provision_has_opened(pool: Pool) -> bool:
    return bool(pool.rows("SELECT 1 FROM provisions WHERE state = 'open'"))


def a_fleet_is_planned(pool: Pool) -> bool:
    return bool(pool.rows("SELECT 1 FROM provisions WHERE state = 'open' AND fleets <> '[]'"))


def a_machine_is_booked(pool: Pool) -> bool:
    return bool(pool.rows("SELECT 1 FROM machines WHERE ended_at IS NULL AND id NOT IN (SELECT id FROM instances)"))


def one_is_claimed(pool: Pool) -> bool:
    return bool(pool.ids("claimed"))


def one_is_created(pool: Pool) -> bool:
    return bool(pool.ids("created"))


def it_has_committed(pool: Pool) -> bool:
    return bool(pool.rows("SELECT 1 FROM provisions WHERE state = 'committed' AND run_id = 'run-2'"))


STATES = (
    a_provision_has_opened,
    a_fleet_is_planned,
    a_machine_is_booked,
    one_is_claimed,
    one_is_created,
    it_has_committed,
)


@pytest.mark.parametrize("state", STATES)
def test_a_provision_killed_as_soon_as(pool: Pool, state: Callable[[Pool], bool]) -> None:
    pool.provision("run-1", 1)
    pool.release("run-1")
    (idle,) = pool.on_offer()
    command = pool.start_provision("run-2", 2)
    pool.until(lambda: state(pool) or command.has_ended(), "the state is reached")
    command.kill()
    has_committed = it_has_committed(pool)
    pool.settle()
    assert pool.audit() == []
    assert idle in pool.live()
    assert len(pool.ids("running")) == (2 if has_committed else 0)


def test_in_real_time_a_refresh_after_the_deadline_finishes_it_too(pool: Pool) -> None:
    """No clock is put ahead here: the deadlines are short, and pass."""
    pool.provision("run-1", 1)
    pool.release("run-1")
    (idle,) = pool.on_offer()
    pool.settings |= {
        "timings.provision": 4,
        "timings.validation": 3.8,
        "timings.registration": 3.5,
        "timings.claim-grace": 0.5,
        "timings.settle": 0.5,
        "timings.takeover": 0.1,
        "timings.orphan": 0.1,
        "agent.pre-runner-script": "sleep 2",
        "agent.pre-runner-timeout": 3,
    }
    command = pool.start_provision("run-2", 2)
    pool.until(lambda: bool(pool.ids("claimed") and pool.ids("created")), "one is claimed, one created")
    command.kill()
    assert pool.audit() != []

    def is_well() -> bool:
        pool.refresh()
        return pool.audit() == []

    pool.until(is_well, "refresh has finished what the killed one left")
    assert pool.live() == [idle]


def test_releasing_the_run_of_a_killed_provision_gives_everything_back(pool: Pool) -> None:
    pool.provision("run-1", 2)
    pool.release("run-1")
    idle = pool.on_offer()
    pool.settings |= {"agent.pre-runner-script": "sleep 5", "agent.pre-runner-timeout": 10}
    command = pool.start_provision("run-2", 3)
    pool.until(lambda: len(pool.ids("claimed")) == 2 and len(pool.ids("created")) == 1, "two claimed, one created")
    command.kill()
    released = pool.release("run-2")
    assert sorted(released["offered"]) == idle
    assert len(released["terminated"]) == 1
    assert pool.on_offer() == idle
    pool.settle()
    assert pool.audit() == []


def test_a_provision_stopped_for_long_and_continued_does_no_harm(pool: Pool) -> None:
    """It wakes after its run was released and others took its instances: every write of it must fail."""
    pool.provision("run-1", 2)
    pool.release("run-1")
    idle = pool.on_offer()
    pool.settings |= {"agent.pre-runner-script": "sleep 3", "agent.pre-runner-timeout": 3.5}
    pool.settings |= {"timings.validation": 5, "timings.registration": 3}
    command = pool.start_provision("run-2", 3)
    pool.until(lambda: len(pool.ids("claimed")) == 2 and len(pool.ids("created")) == 1, "two claimed, one created")
    pool.send(command.pid, signal.SIGSTOP)
    pool.release("run-2")
    del pool.settings["agent.pre-runner-script"]
    assert pool.provision("run-3", 2)["created"] == 0
    command.send(signal.SIGCONT)
    ran = command.wait()
    assert ran.code == 1, ran
    assert pool.ids("running") == idle
    pool.settle()
    assert pool.audit() == []
