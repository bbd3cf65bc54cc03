"""kill -9 at chosen requests on AWS: whatever a command was doing, refresh finishes it, and no machine is forgotten.

Several commands are killed at once, each of a run of its own and at a request of its own, before it reached its service
and after; so they are in each other's way as well. Then the pool is settled and audited.
"""

import signal
from collections.abc import Sequence
from contextlib import ExitStack

from bullpen.engines.aws.session import ATTEMPTS
from scenario.aws.pool import CloudPool
from scenario.aws.trap import a_trap
from scenario.test_everyday import ids

Moment = tuple[str, int, bool]  # the operation, which of its requests, and whether that one still does its work

CLAIMS = [
    (operation, number, lands)
    for operation, number in (
        ("UpdateItem", 1),  # opens the provision
        ("ReceiveMessage", 1),
        ("DeleteMessageBatch", 1),
        ("UpdateItem", 2),  # claims
        ("UpdateItem", 3),  # commits
        ("UpdateItem", 4),  # runs, or what is left of it
    )
    for lands in (False, True)
]
LAUNCHES = [
    (operation, number, lands)
    for operation, number in (
        ("UpdateItem", 2),  # stores the fleet's token
        ("CreateFleet", 1),
        ("TransactWriteItems", 1),  # registers what it launched
    )
    for lands in (False, True)
]
RELEASES = [
    (operation, number, lands)
    for operation, number in (
        ("UpdateItem", 1),  # says that the run is over
        ("UpdateItem", 2),  # gives its instance back
        ("UpdateItem", 4),  # puts it on offer
        ("SendMessageBatch", 1),
    )
    for lands in (False, True)
]


def kill_all(pool: CloudPool, moments: Sequence[Moment], *arguments: str) -> None:
    """One command for each moment, all at once: each of run-0, run-1, ...; all of them are killed."""
    with ExitStack() as stack:
        traps = [stack.enter_context(a_trap(pool, at, lands=lands, only=only)) for only, at, lands in moments]
        commands = [trap.catch(pool, *arguments, "--run-id", f"run-{n}") for n, trap in enumerate(traps)]
        ran = [command.wait() for command in commands]
    survived = [(moment, one) for moment, one in zip(moments, ran, strict=True) if one.code != -signal.SIGKILL]
    assert not survived


def test_a_provision_killed_at_any_step_of_a_claim_loses_nothing(pool: CloudPool) -> None:
    idle = pool.warm(len(CLAIMS))
    kill_all(pool, CLAIMS, "provision", "--count", "1")
    committed = [n for n in range(len(CLAIMS)) if pool.has_committed(f"run-{n}")]
    # On a busy machine a claim may be hedged, and the number of its writes says less about which of them commits.
    first_commit = CLAIMS.index(("UpdateItem", 3, True))
    assert committed, "by its last steps a provision has committed"
    assert min(committed) >= first_commit, "by its first steps it has not"
    pool.settle()
    assert pool.audit() == []
    assert pool.live() == idle, "lost what it had claimed, or launched what lay ready"
    assert len(pool.ids("running")) == len(committed)


def test_a_provision_killed_around_create_fleet_leaves_no_machine_without_a_record(pool: CloudPool) -> None:
    pool.refresh()
    kill_all(pool, LAUNCHES, "provision", "--count", "1")
    assert len(pool.existing()) == 3, "two were launched and not registered, one was registered"
    assert len(pool.live()) == 1
    pool.settle()
    assert pool.existing() == pool.live() == []
    assert pool.audit() == []


def test_answers_of_create_fleet_that_are_lost_buy_nothing_twice(pool: CloudPool) -> None:
    pool.refresh()
    pool.cloud.lose_answer("CreateFleet", times=ATTEMPTS)  # all attempts of one call: then the caller calls again
    answer = pool.provision("run-1", 1)
    assert pool.cloud.calls()["CreateFleet"] > ATTEMPTS
    assert len(pool.cloud.fleets()) == 1
    assert pool.existing() == ids(answer)
    assert pool.audit() == []


def test_a_release_killed_at_any_step_loses_nothing(pool: CloudPool) -> None:
    members = pool.warm(len(RELEASES))
    for command in [pool.start_provision(f"run-{n}", 1) for n in range(len(RELEASES))]:
        assert command.wait().code == 0
    kill_all(pool, RELEASES, "release")
    pool.settle()
    assert pool.audit() == []
    assert pool.live() == members
    assert len(pool.ids("running")) == 1, "only one was killed before anything said that its run is over"
