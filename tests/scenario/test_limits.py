"""Where no more machines can be launched: a named failure, and nothing kept."""

from scenario.pool import Pool
from scenario.test_everyday import ids
from scenario.test_racing import stock


def test_a_host_without_room_fails_the_whole_request(pool: Pool) -> None:
    pool.settings["local.capacity"] = 2
    answer = pool.refused("run-1", 3)
    assert "capacity" in answer["reason"].lower()
    assert pool.live() == []
    assert pool.audit() == []


def test_what_was_selected_before_the_room_ran_out_is_on_offer_again(pool: Pool) -> None:
    pool.settings["local.capacity"] = 2
    stocked = stock(pool, 1)
    answer = pool.refused("run-1", 3)
    assert "capacity" in answer["reason"].lower()
    assert pool.on_offer() == pool.live() == stocked
    assert pool.audit() == []
    assert pool.provision("run-2", 1)["created"] == 0


def test_with_allow_partial_a_host_gives_what_it_has(pool: Pool) -> None:
    pool.settings["local.capacity"] = 2
    answer = pool.provision("run-1", 3, "--allow-partial")
    assert (answer["requested"], len(ids(answer))) == (3, 2)
    assert pool.audit() == []


def test_the_cap_of_the_pool_is_a_named_failure_that_launches_nothing(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 2
    answer = pool.refused("run-1", 3)
    assert "limits.max-instances is 2" in answer["reason"]
    assert pool.rows("SELECT * FROM machines") == []
    assert pool.provision("run-2", 2)["created"] == 2
    assert "limits.max-instances" in pool.refused("run-3", 1)["reason"]
    assert pool.audit() == []


def test_the_cap_of_a_class_holds_beside_that_of_the_pool(pool: Pool) -> None:
    pool.settings["classes.small.max-instances"] = 1
    assert "classes.small.max-instances is 1" in pool.refused("run-1", 2)["reason"]
    pool.provision("run-2", 1)
    pool.provision("run-3", 1, "--resource-class", "medium")
    assert pool.audit() == []


def test_two_runs_racing_at_the_cap_do_not_exceed_it(pool: Pool) -> None:
    pool.settings["limits.max-instances"] = 2
    commands = [pool.start_provision(f"run-{n}", 2) for n in range(3)]
    codes = sorted(command.wait().code for command in commands)
    assert codes in ([0, 1, 1], [1, 1, 1])
    assert len(pool.rows("SELECT * FROM machines")) <= 2
    pool.settle()
    assert pool.audit() == []


def test_idle_runners_of_another_class_make_room_at_the_cap(pool: Pool) -> None:
    pool.settings |= {"limits.max-instances": 2, "local.capacity": 2}
    idle = ids(pool.provision("before", 2, "--resource-class", "medium"))
    pool.release("before")
    answer = pool.provision("run-1", 1)
    assert answer["created"] == 1
    assert len(set(pool.live()) & set(idle)) == 1
    assert pool.audit() == []
