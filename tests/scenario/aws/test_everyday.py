"""The everyday story on AWS: from an empty account to a warm pool, and back to nothing."""

from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids


def test_from_an_empty_account_to_a_pool_that_launches_nothing_twice(pool: CloudPool) -> None:
    made = {action["what"] for action in pool.refresh()}
    assert {"make table", "make queue", "make template", "store agent"} <= made
    cold = pool.provision("run-1", 2)
    assert (cold["selected"], cold["created"]) == (0, 2)
    assert ids(cold) == pool.existing()
    assert sorted(pool.release("run-1")["offered"]) == ids(cold)
    assert pool.audit() == []
    before = pool.cloud.calls()
    warm = pool.provision("run-2", 2)
    assert (warm["created"], ids(warm)) == (0, ids(cold))
    assert pool.cloud.calls() == before, "a warm provision has nothing to ask of EC2"
    assert pool.audit() == []
    assert pool.run("down", "--yes", "--json").answer["terminated"] == ids(cold)
    assert pool.existing() == pool.live() == []
    assert pool.audit() == []
