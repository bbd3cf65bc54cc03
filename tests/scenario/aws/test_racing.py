"""Runs that race for one pool on AWS, and tickets that do not fit the run that took them."""

from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids
from scenario.test_racing import race


def test_runs_racing_for_a_pool_that_suffices_share_it_and_launch_nothing(pool: CloudPool) -> None:
    stocked = pool.warm(6)
    before = pool.cloud.calls()
    answers = race(pool, 1, 2, 1, 2, 1)
    assert sorted(id for answer in answers for id in ids(answer)) == stocked
    assert pool.cloud.calls() == before
    assert pool.audit() == []


def test_runs_that_want_more_than_there_is_launch_only_what_is_missing(pool: CloudPool) -> None:
    """Without tickets, so that all of them find the same instances and reach for them at once."""
    stocked = pool.warm(3)
    pool.ledger.lose_tickets()
    one, two = race(pool, 1, 2, 2)
    assert not set(ids(one)) & set(ids(two)), "a double claim"
    assert set(stocked) < {*ids(one), *ids(two)}, "one was left while another was launched"
    assert len(pool.existing()) == 4
    assert pool.audit() == []


def test_of_runs_that_cannot_all_have_theirs_each_gets_all_or_nothing(pool: CloudPool) -> None:
    stocked = pool.warm(3)
    pool.settings["limits.max-instances"] = 3
    commands = [pool.start_provision(f"run-{n}", 2) for n in range(3)]
    codes = [command.wait().code for command in commands]
    assert sorted(codes) in ([0, 1, 1], [1, 1, 1])
    assert len(pool.ids("running")) == 2 * codes.count(0)
    pool.settle()
    assert pool.live() == stocked
    assert pool.audit() == []


def test_tickets_that_do_not_fit_go_back_and_fit_another_run(pool: CloudPool) -> None:
    stocked = pool.warm(2)
    pool.cloud.capacity(0, market="spot")
    pool.refused("spot", 1, "--usage-class", "spot")
    pool.until(lambda: len(pool.ledger.tickets()) == 2, "what was taken and put back is seen again")
    scans = [pool.start_provision(f"spot-{n}", 1, "--usage-class", "spot") for n in range(3)]
    answer = pool.provision("run-1", 2)
    assert (ids(answer), answer["created"]) == (stocked, 0), "those in the hands of others are found all the same"
    assert [scan.wait().code for scan in scans] == [1, 1, 1]
    assert pool.existing() == stocked
    assert pool.audit() == []
