"""Runs that race for one pool: an instance goes to one of them, and no run launches a machine while one is on offer."""

from scenario.commands import Commands
from scenario.pool import Pool
from scenario.test_everyday import ids

ROUNDS = 20


def stock(pool: Commands, count: int, *more: str) -> list[str]:
    """Put so many instances on offer."""
    pool.provision("stock", count, *more)
    pool.release("stock")
    return pool.on_offer()


def race(pool: Commands, number: int, *counts: int) -> list[dict[str, object]]:
    """One run per count, all at once; all must succeed."""
    commands = [pool.start_provision(f"run-{number}-{n}", count) for n, count in enumerate(counts)]
    ran = [command.wait() for command in commands]
    assert [one.code for one in ran] == [0] * len(counts), ran
    return [one.answer for one in ran]


def finish(pool: Commands, number: int, runs: int) -> None:
    for command in [pool.start("release", "--run-id", f"run-{number}-{n}") for n in range(runs)]:
        assert command.wait().code == 0


def test_two_runs_racing_for_a_pool_that_suffices_share_it_and_create_nothing(pool: Pool) -> None:
    stocked = stock(pool, 2)
    for number in range(ROUNDS):
        one, two = race(pool, number, 1, 1)
        assert sorted(ids(one) + ids(two)) == stocked, f"round {number}"
        assert (one["created"], two["created"]) == (0, 0), f"round {number}"
        finish(pool, number, 2)
    assert pool.audit() == []


def test_two_runs_that_want_more_than_there_is_create_only_what_is_missing(pool: Pool) -> None:
    for number in range(5):
        stocked = stock(pool, 3)
        one, two = race(pool, number, 2, 2)
        assert not set(ids(one)) & set(ids(two)), f"round {number}: a double claim"
        assert set(stocked) <= {*ids(one), *ids(two)}, f"round {number}: one was left while another was created"
        assert pool.audit() == []
        pool.run("down", "--yes")


def test_a_release_racing_a_provision_loses_nothing(pool: Pool) -> None:
    stocked = stock(pool, 2)
    for number in range(10):
        pool.provision(f"old-{number}", 2)
        releasing = pool.start("release", "--run-id", f"old-{number}")
        answer = pool.provision(f"new-{number}", 1)
        assert releasing.wait().code == 0
        assert set(stocked) <= set(pool.live()), f"round {number}"
        assert answer["state"] == "succeeded"
        pool.release(f"new-{number}")
        if len(pool.live()) > 4:  # it may come before anything is on offer, and then creates: that is no loss
            pool.run("down", "--yes")
            stocked = stock(pool, 2)
    assert pool.audit() == []


def test_a_run_that_scans_the_queue_for_something_else_makes_no_other_run_launch_cold(pool: Pool) -> None:
    """It takes tickets that it cannot use and puts them back, hidden for a while; the others find the instances."""
    stocked = stock(pool, 2)
    pool.settings["local.spot-capacity"] = 0
    for number in range(10):
        scans = [
            pool.start_provision(f"spot-{number}", 1, "--usage-class", "spot"),
            pool.start_provision(f"big-{number}", 1, "--cpu", "64"),
            pool.start_provision(f"fork-{number}", 1, "--allowed-instance-types", "c*"),
        ]
        answer = pool.provision(f"run-{number}", 2)
        assert answer["created"] == 0, f"round {number}"
        assert [scan.wait().code for scan in scans] == [1, 1, 1]
        pool.release(f"run-{number}")
        assert pool.live() == stocked
    pool.settle()
    assert pool.audit() == []
