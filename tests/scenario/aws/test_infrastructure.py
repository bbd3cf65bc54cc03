"""Lost tickets, a lost queue, and an infrastructure that refresh must not change."""

from collections import Counter

from scenario.aws.pool import CloudPool
from scenario.test_everyday import ids


def test_lost_tickets_are_sent_again_by_the_second_refresh_that_misses_them(pool: CloudPool) -> None:
    pool.warm(2)
    pool.ledger.lose_tickets()
    assert not any(one["what"] == "send tickets" for one in pool.refresh()), "it may be a count that lags"
    assert any(one["what"] == "send tickets" for one in pool.refresh())
    assert len(pool.ledger.tickets()) == 2
    assert pool.audit() == []


def test_a_queue_deleted_underneath_is_named_and_what_was_in_it_is_found_without_it(pool: CloudPool) -> None:
    stocked = pool.warm(2)
    pool.ledger.sqs.delete_queue(QueueUrl=pool.ledger.queue())
    answer = pool.refused("run-1", 2)
    assert f"queue {pool.name}-small" in answer["reason"]
    assert "bullpen refresh" in answer["remedy"]
    assert pool.on_offer() == stocked
    assert "make queue" in [one["what"] for one in pool.refresh()]
    answer = pool.provision("run-2", 2)
    assert (ids(answer), answer["created"]) == (stocked, 0), "a last look finds what has no ticket"
    assert pool.audit() == []


def test_an_infrastructure_that_terraform_manages_is_checked_and_left_alone(pool: CloudPool) -> None:
    pool.refresh()
    pool.settings["aws.manage"] = "external"
    before = Counter(pool.cloud.calls())
    assert pool.refresh() == []
    made = Counter(pool.cloud.calls()) - before
    assert all(name.startswith("Describe") for name in made), made
    pool.ledger.sqs.delete_queue(QueueUrl=pool.ledger.queue("medium"))
    pool.settings["classes.large.cpu"] = 8  # another template
    ran = pool.run("refresh")
    assert ran.code == 2, ran
    assert "make queue medium" in ran.err
    assert "make template" in ran.err
    assert "Terraform" in ran.err
    assert len(pool.ledger.queues()) == 2
    assert Counter(pool.cloud.calls())["CreateLaunchTemplate"] == before["CreateLaunchTemplate"]
