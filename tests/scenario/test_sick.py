"""Instances that fall silent or die: replaced, ended, and never handed out."""

import signal
import time

from scenario import processes
from scenario.commands import LONGEST
from scenario.pool import Pool
from scenario.test_everyday import ids
from scenario.test_racing import stock


def test_a_mute_instance_is_replaced_and_ended(pool: Pool) -> None:
    pool.settings |= {"timings.registration": 3, "timings.hedge": 0.3}
    mute, other = stock(pool, 2)
    pool.signal(mute, signal.SIGSTOP)
    answer = pool.provision("run-1", 2)
    assert mute not in ids(answer)
    assert other in ids(answer)
    assert answer["created"] == 1
    assert [(one["instanceId"], one["outcome"]) for one in answer["discarded"]] == [(mute, "terminated")]
    assert mute not in {process.instance_id for process in processes.of_home(pool.home)}
    pool.settle()
    assert pool.audit() == []


def test_a_spare_instance_stands_in_for_a_mute_one_at_once(pool: Pool) -> None:
    """The hedge: with one more on offer nothing is created, and no run waits for the registration to time out."""
    given_up = {"timings.registration": 500, "timings.validation": 600, "timings.provision": 700}
    assert given_up["timings.registration"] > 2 * LONGEST  # a run that waited for that would not end in the test's time
    # Nor does the age of its last heartbeat give the mute one away: only the hedge is left.
    pool.settings |= {**given_up, "timings.hedge": 0.2, "timings.alive": 500}
    stocked = stock(pool, 2)
    for id in stocked:
        pool.signal(id, signal.SIGSTOP)
    pool.signal(stocked[0], signal.SIGCONT)
    answer = pool.provision("run-1", 1)
    assert (ids(answer), answer["created"]) == ([stocked[0]], 0)
    pool.settle()
    assert pool.audit() == []


def test_a_dead_idle_instance_is_not_used_and_refresh_removes_its_record(pool: Pool) -> None:
    dead, other = stock(pool, 2)
    pool.signal(dead, signal.SIGKILL)
    assert ids(pool.provision("run-1", 1, "--allow-partial")) != [dead]
    pool.release("run-1")
    pool.refresh()
    assert dead not in pool.live()
    assert other in pool.live()
    pool.settle()
    assert pool.audit() == []


def test_refresh_alone_notices_a_dead_idle_instance(pool: Pool) -> None:
    dead, other = stock(pool, 2)
    pool.signal(dead, signal.SIGKILL)
    actions = pool.refresh()
    assert [(one["what"], one["reason"]) for one in actions if one["subject"] == dead] == [
        ("terminate", "its machine is gone")
    ]
    assert pool.on_offer() == [other]
    pool.settle()
    assert pool.audit() == []


def test_refresh_ends_and_replaces_a_mute_idle_instance(pool: Pool) -> None:
    pool.settings |= {"timings.heartbeat": 1, "timings.lease": 5, "liveness.confirm": 3, "classes.small.idle-target": 2}
    mute, other = stock(pool, 2)
    pool.signal(mute, signal.SIGSTOP)
    lease = "SELECT 1 FROM workers WHERE instance_id = ? AND deadline < ?"
    pool.until(lambda: bool(pool.rows(lease, mute, time.time() * 1e6)), "its lease is out")
    actions = pool.refresh()
    assert [one["what"] for one in actions if one["subject"].startswith(mute)] == ["sweep lease", "terminate"]
    assert [one["subject"] for one in actions if one["what"] == "create"] == ["1 × small"]
    assert mute not in {process.instance_id for process in processes.of_home(pool.home)}
    assert other in pool.on_offer()
    pool.until(lambda: pool.refresh() is not None and len(pool.on_offer()) == 2, "the new one is on offer")
    assert pool.audit() == []


def test_a_refresh_whose_clock_is_three_hours_ahead_ends_nothing_and_says_so(pool: Pool) -> None:
    serving = ids(pool.provision("run-1", 2))
    ran = pool.start("refresh", "--json", skewed=3 * 3600.0).wait()
    assert ran.code == 1
    assert "ahead of that of the agents: nothing is ended" in ran.answer["reason"]
    assert pool.ids("running") == serving
    assert [action for action in pool.refresh() if action["what"] == "terminate"] == []
    pool.settle()
    assert pool.audit() == []


def test_an_instance_that_dies_under_its_run_is_found_and_its_registration_goes(pool: Pool) -> None:
    (dead,) = ids(pool.provision("run-1", 1))
    pool.signal(dead, signal.SIGKILL)
    pool.settle()
    assert pool.live() == []
    pool.settle()
    assert pool.audit() == []


def test_an_agent_that_is_stopped_while_it_cleans_is_ended_and_its_reason_shown(pool: Pool) -> None:
    (silent,) = ids(pool.provision("run-1", 1))
    pool.signal(silent, signal.SIGSTOP)
    pool.settings["timings.cleaning"] = 0.5
    assert pool.release("run-1")["terminated"] == [silent]
    assert "did not attest in time" in pool.story(silent)
    pool.settle()
    assert pool.audit() == []
