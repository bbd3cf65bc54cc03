"""Orders of operators on real processes: paused, drained, rotated, and killed in the middle."""

import json

from scenario.commands import Ran
from scenario.pool import Pool
from scenario.test_everyday import ids

DRAINED = "SELECT id FROM instances WHERE image_generation = 0 AND state <> 'terminated' ORDER BY id"


def order(pool: Pool, *words: str) -> Ran:
    ran = pool.run(*words, "--json")
    assert ran.code == 0, ran
    return ran


def test_a_paused_class_starts_nothing_and_a_waiting_command_begins_at_the_resume(pool: Pool) -> None:
    pool.refresh()
    order(pool, "pause", "--note", "the image is broken")
    assert "the image is broken" in pool.refused("now", 1)["reason"]
    waiter = pool.start_provision("later", 1, "--wait", "100s")
    pool.until(lambda: bool(pool.rows("SELECT 1 FROM provisions WHERE waits_for = 'a resume'")), "it waits")
    order(pool, "resume")
    assert len(ids(waiter.wait().answer)) == 1
    assert pool.audit() == []


def test_a_drained_instance_finishes_its_run_and_is_ended(pool: Pool) -> None:
    one, other = sorted(ids(pool.provision("busy", 2)))
    answer = order(pool, "drain", one, "--note", "disk is full").answer
    assert [action["what"] for action in answer["actions"]] == ["drain"]
    assert pool.run_job("busy", "exit 0") in (one, other)
    assert pool.ids("running") == [one, other]
    pool.release("busy")
    assert pool.live() == [other]
    assert pool.on_offer() == [other]
    assert pool.audit() == []


def test_the_drain_of_a_class_that_is_killed_is_finished_by_refresh(pool: Pool) -> None:
    pool.provision("busy", 3)
    command = pool.start("drain", "--class", "small")
    pool.until(lambda: bool(pool.rows("SELECT 1 FROM pauses WHERE drains = 1")), "the class drains")
    command.kill()
    pool.refresh()
    assert len(pool.rows(DRAINED)) == 3
    pool.release("busy")
    assert pool.live() == []
    assert json.loads(pool.run("status", "--json").out)["pauses"][0]["drains"]
    assert pool.audit() == []


def test_a_rotated_pool_has_other_instances_and_keeps_its_target(pool: Pool) -> None:
    pool.settings["classes.small.idle-target"] = 2
    pool.refresh()

    def warm() -> bool:
        pool.refresh()
        return len(pool.on_offer()) >= 2

    pool.until(warm, "the target is on offer")
    old = pool.on_offer()
    order(pool, "rotate", "--class", "small")

    def is_rotated() -> bool:
        pool.refresh()
        assert len(pool.on_offer()) >= 2
        return not {*pool.live()} & {*old} and len(pool.on_offer()) == 2

    pool.until(is_rotated, "all are replaced")
    pool.refresh()
    assert json.loads(pool.run("status", "--json").out)["rotations"] == []
    assert pool.audit() == []
