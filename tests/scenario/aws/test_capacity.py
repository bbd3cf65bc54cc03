"""Where EC2 has less than was asked: all or nothing, with the cause, and what a class may do about it."""

from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids


def test_a_fleet_that_falls_short_is_ended_and_its_cause_shown(pool: CloudPool) -> None:
    pool.refresh()
    pool.cloud.capacity(1)
    answer = pool.refused("run-1", 3)
    assert "InsufficientInstanceCapacity" in answer["reason"]
    assert pool.existing() == pool.live() == []
    assert len(pool.cloud.instances()) == 1, "it was launched, and ended"
    assert pool.audit() == []


def test_a_class_may_try_again_and_may_fall_back_from_spot(pool: CloudPool) -> None:
    """The first fleet is short, the second finds no spot capacity at all, the third is on demand."""
    pool.refresh()
    pool.settings |= {"classes.small.attempts": 2, "classes.small.spot-fallback": "true"}
    pool.cloud.capacity(1, market="spot")
    answer = pool.provision("run-1", 2, "--usage-class", "spot")
    markets = sorted(one["market"] for one in pool.cloud.instances().values())
    assert markets == ["on-demand", "spot"]
    assert pool.existing() == ids(answer)
    assert pool.audit() == []


def test_a_shortage_that_passes_costs_one_more_attempt(pool: CloudPool) -> None:
    pool.refresh()
    pool.settings["classes.small.attempts"] = 2
    pool.cloud.spoil("InsufficientInstanceCapacity", launches=1)
    answer = pool.provision("run-1", 2)
    assert [fleet["asked"] for fleet in pool.cloud.fleets().values()] == [2, 1]
    assert pool.existing() == ids(answer)
    assert pool.audit() == []
