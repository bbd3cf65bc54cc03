"""Supply decides by the CI's counts and by what living agents report, and by nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bullpen.model.activity import Activity, Listening
from bullpen.model.instance import CLAIMED, DRAINED, RUNNING, State
from bullpen.model.scale_set import ScaleSet, SetEvents
from bullpen.model.served_set import served
from bullpen.model.ticket import Requirements
from bullpen.ports.demand import JobDemand, JobStart
from bullpen.scale_sets.members import REPORTED, MemberState, SetMember
from bullpen.scale_sets.supply import (
    BETWEEN_JOBS,
    GHOST,
    GHOST_AGAIN,
    OUTAGE,
    PHANTOM,
    PROBED,
    QUEUED,
    UNANNOUNCED,
    QueuedHint,
    SupplyMemory,
    SupplyPlan,
    plan,
)
from set_builders import a_ready_set, engaged, retiring
from set_builders import rules as some_rules

TIME = 100_000.0
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVED = engaged()[-1].after
NEEDS = Requirements(SERVED.resource_class, SERVED.usage_class, image_generation=SERVED.image_generation)
DIGEST = served(a_ready_set(rules=some_rules())).digest
IDLE, BUSY, STARTING, CLEANING = MemberState.IDLE, MemberState.BUSY, MemberState.STARTING, MemberState.CLEANING


def a_demand(assigned: int = 0, running: int = 0, **changed: Any) -> JobDemand:
    fields = {"counted_at": TIME, "heard_at": TIME, "listens_since": TIME - PROBED, **changed}
    return JobDemand(assigned, running, **fields)


def a_member(
    id: str,
    state: MemberState = IDLE,
    for_: float = 0.0,
    threshold: timedelta | None = None,
    rules: str = DIGEST,
    *,
    is_heard: bool = True,
) -> SetMember:
    instance = replace(engaged(id)[-1].after, threshold=NOW + (threshold or timedelta(days=1)))
    runner = f"pool.{id}.{instance.round[:8]}.1"
    listening = Listening(runner, 1, rules) if state is IDLE else None
    activity = Activity("octo/repo", "99", 1, instance.run_id, runner) if state is BUSY else None
    return SetMember(instance, state, TIME - for_, listening, activity, is_heard=is_heard)


def planned(
    demand: JobDemand | None,
    *members: SetMember,
    memory: SupplyMemory | None = None,
    claiming: int = 0,
    scale_set: ScaleSet | None = None,
    **rules: Any,
) -> SupplyPlan:
    one = scale_set or a_ready_set(rules=some_rules(**{"min": 0, "max": 10, **rules}))
    given: dict[str, Any] = {"needs": NEEDS, "claiming": claiming, "linger": 60.0, "time": TIME, "now": NOW}
    return plan(one, demand, members, memory or SupplyMemory(), **given)


@pytest.mark.parametrize(
    ("assigned", "running", "idle", "claims"), [(3, 0, 0, 3), (3, 3, 0, 0), (5, 3, 1, 1), (2, 0, 2, 0), (1, 0, 3, 0)]
)
def test_it_claims_what_waits_and_is_not_idle_already(assigned: int, running: int, idle: int, claims: int) -> None:
    made = planned(a_demand(assigned, running), *[a_member(f"i-{n}") for n in range(idle)])
    assert made.claims == claims


def test_claims_under_way_and_members_that_start_count() -> None:
    assert planned(a_demand(4), a_member("i-1", STARTING), claiming=2).claims == 1


def test_members_that_are_cleaned_count_for_the_largest_number_only() -> None:
    assert planned(a_demand(4), a_member("i-1", CLEANING)).claims == 4
    made = planned(a_demand(4), *[a_member(f"i-{n}", CLEANING) for n in range(8)], max=10)
    assert (made.claims, made.capped) == (2, False)
    assert planned(a_demand(4), *[a_member(f"i-{n}", CLEANING) for n in range(10)], max=10).capped


def test_a_job_that_began_since_the_count_does_not_wait_any_more() -> None:
    assert planned(a_demand(1, 0, counted_at=TIME - 5), a_member("i-1", BUSY, for_=3)).claims == 0
    # One that is busy for longer was not waiting when the CI counted: another job waits.
    assert planned(a_demand(2, 1, counted_at=TIME - 5), a_member("i-1", BUSY, for_=8)).claims == 1


def test_a_job_whose_start_came_with_the_count_is_not_counted_twice() -> None:
    """The heartbeat of its runner comes a moment later than the message."""
    busy = replace(a_member("i-1", BUSY), activity=Activity("octo/repo", "99", 1, "set:m", "pool.i-1.r1.1", "build"))
    started = a_demand(2, 1, starts=(JobStart(NOW, TIME, "pool.i-1.r1.1"),))
    assert planned(started, busy).claims == 1
    assert planned(a_demand(2, 1, starts=(JobStart(NOW, TIME, "pool.i-1.r1.0"),)), busy).claims == 0


def test_the_minimum_is_idle_beside_the_jobs_that_wait() -> None:
    assert planned(a_demand(2, 1), a_member("i-1", BUSY, for_=9), min=2).claims == 3


def test_a_job_that_is_announced_beside_a_count_of_zero_is_believed_for_a_minute() -> None:
    assert planned(a_demand(announced_at=TIME - 59)).claims == 1
    assert planned(a_demand(announced_at=TIME - 61)).claims == 0


def test_what_idles_beyond_the_need_is_withdrawn_after_a_while_the_longest_idle_first() -> None:
    idle = [a_member("i-1", for_=70), a_member("i-2", for_=90), a_member("i-3", for_=10)]
    assert planned(a_demand(), *idle, min=1).withdraw == ("i-2", "i-1")
    assert planned(a_demand(), *idle, min=2).withdraw == ("i-2",)
    assert planned(a_demand(1), *idle).withdraw == ("i-2", "i-1")
    assert planned(a_demand(1), *idle, min=1).withdraw == ("i-2",)
    assert planned(a_demand(3), *idle).withdraw == ()


def test_a_member_that_is_recalled_is_not_withdrawn_and_takes_the_place_of_none_that_stays() -> None:
    memory = SupplyMemory(beside_since=TIME - GHOST)
    idle = [a_member("i-1", for_=90), a_member("i-2", for_=80), a_member("i-3", for_=70)]
    made = planned(a_demand(1), *idle, memory=memory)
    assert (made.recall, made.withdraw) == (("i-1",), ("i-2",))


@pytest.mark.parametrize("demand", [None, a_demand(9, heard_at=TIME - OUTAGE - 1)])
def test_without_an_answer_of_the_ci_nothing_is_claimed_or_withdrawn_and_thresholds_are_renewed(
    demand: JobDemand | None,
) -> None:
    short = a_member("i-1", for_=900, threshold=timedelta(hours=6))
    made = planned(demand, short, a_member("i-2", for_=900))
    assert (made.claims, made.withdraw, made.recall, made.renew) == (0, (), (), ("i-1",))
    assert made.is_frozen


def test_a_member_under_a_job_is_not_renewed() -> None:
    """Its agent reports the job, and the longest runtime ends it."""
    assert planned(a_demand(), a_member("i-1", BUSY, threshold=timedelta(minutes=5))).renew == ()


SHORT = timedelta(minutes=5)
ANSWERS = pytest.mark.parametrize("demand", [None, a_demand()], ids=["outage", "the CI answers"])


@ANSWERS
@pytest.mark.parametrize("state", [STARTING, CLEANING])
def test_a_silent_member_is_not_renewed(demand: JobDemand | None, state: MemberState) -> None:
    """Its agent may be dead. It would occupy a place of its set for ever."""
    assert planned(demand, a_member("i-1", state, threshold=SHORT, is_heard=False)).renew == ()


@ANSWERS
def test_a_member_that_gets_one_job_after_the_other_is_renewed_between_them(demand: JobDemand | None) -> None:
    """It may have its next job before it is ever seen idle, and would meet its threshold under that job."""
    assert planned(demand, a_member("i-1", CLEANING, threshold=SHORT)).renew == ("i-1",)


def test_a_member_that_does_not_register_again_for_long_is_not_renewed_unless_the_ci_is_away() -> None:
    hangs = a_member("i-1", CLEANING, for_=BETWEEN_JOBS, threshold=SHORT)
    assert planned(a_demand(), hangs).renew == ()
    assert planned(None, hangs).renew == ("i-1",)


def test_a_job_that_waits_beside_an_idle_member_recalls_the_longest_idle_and_claims_one_more() -> None:
    memory = SupplyMemory(beside_since=TIME - GHOST)
    made = planned(a_demand(1), a_member("i-1", for_=40), a_member("i-2", for_=50), memory=memory)
    assert (made.recall, made.claims) == (("i-2",), 0)
    made = planned(a_demand(1), a_member("i-2", for_=50), memory=memory)
    assert (made.recall, made.claims) == (("i-2",), 1)


def test_it_recalls_once_in_a_while_and_never_one_that_has_just_registered() -> None:
    recent = SupplyMemory(beside_since=TIME - GHOST, recalled_at=TIME - GHOST_AGAIN + 1)
    assert planned(a_demand(1), a_member("i-1", for_=50), memory=recent).recall == ()
    fresh = SupplyMemory(beside_since=TIME - GHOST)
    assert planned(a_demand(1), a_member("i-1", for_=5), memory=fresh).recall == ()


def test_a_job_that_starts_shows_that_idle_members_get_jobs() -> None:
    memory = SupplyMemory(beside_since=TIME - GHOST)
    started = a_demand(1, starts=(JobStart(NOW, TIME - 10),))
    assert planned(started, a_member("i-1", for_=50), memory=memory).recall == ()


def test_a_late_message_about_a_job_that_a_heartbeat_showed_before_says_nothing_of_idle_members() -> None:
    memory = SupplyMemory(beside_since=TIME - PHANTOM)
    busy = a_member("i-1", BUSY, for_=PHANTOM)
    assert busy.activity is not None
    at_work, late = ((busy.activity.runner, TIME - PHANTOM),), (JobStart(NOW, TIME - 10, busy.activity.runner),)
    idle = a_member("i-2", for_=700)
    assert planned(a_demand(1, starts=late), idle, memory=replace(memory, begun=at_work)).memory.phantom == 1
    assert planned(a_demand(1, starts=late), idle, memory=memory).memory.phantom == 0


def test_a_heartbeat_that_shows_a_job_shows_that_idle_members_get_jobs() -> None:
    memory = SupplyMemory(beside_since=TIME - PHANTOM)
    busy = a_member("i-2", BUSY, for_=700)
    assert busy.activity is not None
    members = a_member("i-1", for_=700), busy
    made = planned(a_demand(2, 1), *members, memory=memory)
    assert (made.memory.phantom, made.memory.beside_since) == (0, TIME)
    known = replace(memory, begun=((busy.activity.runner, TIME - 700),))  # each job says so once
    assert planned(a_demand(2, 1), *members, memory=known).memory.phantom == 1


def test_a_member_that_stops_listening_takes_no_job_from_the_count_of_phantoms_until_it_reports_one() -> None:
    """GitHub may have dropped its registration instead."""
    memory = SupplyMemory(beside_since=TIME - GHOST)
    stopped = replace(a_member("i-1", BUSY), activity=None)
    made = planned(a_demand(1, counted_at=TIME - 60), stopped, a_member("i-2", for_=700), memory=memory)
    assert (made.memory.beside_since, made.withdraw) == (TIME - GHOST, ())


def test_jobs_that_wait_for_long_beside_idle_members_are_phantoms_and_cost_one_probe() -> None:
    memory = SupplyMemory(beside_since=TIME - PHANTOM, recalled_at=TIME - 60)
    made = planned(a_demand(15), *[a_member(f"i-{n}", for_=700) for n in range(3)], memory=memory)
    assert (made.memory.phantom, made.waiting, made.claims) == (15, 0, 0)
    assert len(made.withdraw) == 2
    assert planned(a_demand(15), memory=made.memory).claims == 1  # the probe


def test_phantoms_never_exceed_what_waits_and_a_real_job_beyond_them_is_served() -> None:
    memory = SupplyMemory(phantom=15, phantom_at=NOW)
    assert planned(a_demand(17, 0), memory=memory).claims == 2
    made = planned(a_demand(4, 0), memory=memory)
    assert (made.memory.phantom, made.claims) == (4, 1)


def test_an_old_job_that_starts_shows_that_there_are_no_phantoms() -> None:
    memory = SupplyMemory(phantom=5, phantom_at=NOW)
    old = a_demand(5, 0, starts=(JobStart(NOW - timedelta(minutes=20), TIME),))
    assert planned(old, memory=memory).claims == 5
    new = a_demand(5, 0, starts=(JobStart(NOW + timedelta(minutes=1), TIME),))
    assert planned(new, memory=memory).memory.phantom == 5


def test_a_job_that_started_before_phantoms_were_found_does_not_end_them() -> None:
    memory = SupplyMemory(beside_since=TIME - PHANTOM, recalled_at=TIME - 60)
    demand = a_demand(5, starts=(JobStart(NOW - timedelta(minutes=20), TIME - PHANTOM),))
    made = planned(demand, a_member("i-1", for_=700), memory=memory)
    assert planned(demand, a_member("i-1", for_=700), memory=made.memory).memory.phantom == 5


def test_after_a_new_session_one_member_waits_for_jobs_that_were_never_announced() -> None:
    assert planned(a_demand(listens_since=TIME - PROBED + 1)).claims == 1
    assert planned(a_demand(listens_since=TIME - PROBED)).claims == 0


def some_of_each() -> list[SetMember]:
    return [
        a_member("i-1"),
        a_member("i-2", BUSY),
        a_member("i-3", CLEANING, for_=REPORTED),
        a_member("i-4", STARTING, for_=REPORTED),
    ]


def test_a_set_that_retires_gets_no_runner_and_gives_back_all_that_are_free() -> None:
    members = some_of_each()
    made = planned(a_demand(9), *members, scale_set=retiring()[-1].after)
    assert (made.claims, made.withdraw, sorted(made.release)) == (0, ("i-1",), ["i-3", "i-4"])


def test_a_silent_member_stays_when_its_set_retires_because_its_runner_may_have_a_job() -> None:
    silent = [a_member("i-1", CLEANING, is_heard=False), a_member("i-2", STARTING, is_heard=False)]
    made = planned(a_demand(), *silent, scale_set=retiring()[-1].after)
    assert (made.withdraw, made.release) == ((), ())


@pytest.mark.parametrize("state", [STARTING, CLEANING])
def test_a_member_seen_for_a_moment_stays_when_its_set_retires_because_its_job_may_just_have_begun(
    state: MemberState,
) -> None:
    made = planned(a_demand(), a_member("i-1", state, for_=REPORTED - 1), scale_set=retiring()[-1].after)
    assert made.release == ()


def test_a_member_that_listens_and_is_not_idle_yet_loses_its_registration_before_it_leaves() -> None:
    starting = replace(a_member("i-1"), state=STARTING)
    assert starting.listening is not None
    made = planned(a_demand(), starting, scale_set=retiring()[-1].after)
    assert (made.withdraw, made.release) == (("i-1",), ())


def test_a_set_that_retires_gives_them_back_also_if_the_ci_says_nothing_of_it_any_more() -> None:
    members = some_of_each()
    made = planned(None, *members, scale_set=retiring()[-1].after)
    assert (made.is_frozen, made.withdraw, sorted(made.release)) == (False, ("i-1",), ["i-3", "i-4"])


def hinted(since: float, at: float | None = None) -> SupplyMemory:
    """A webhook showed a queued job so many seconds ago, and did so again later."""
    return SupplyMemory(queued=QueuedHint(TIME - since, TIME - (since if at is None else at)))


def test_a_queued_job_that_is_not_announced_for_a_while_gets_one_member_for_some_minutes() -> None:
    assert planned(a_demand(), memory=hinted(QUEUED - 1)).claims == 0
    assert planned(a_demand(), memory=hinted(QUEUED)).claims == 1
    assert planned(a_demand(), a_member("i-1", for_=900), memory=hinted(QUEUED)).withdraw == ()
    made = planned(a_demand(), a_member("i-1", for_=900), memory=hinted(UNANNOUNCED))
    assert (made.claims, made.withdraw, made.memory.queued) == (0, ("i-1",), None)


def test_a_queued_job_that_is_shown_again_keeps_its_member() -> None:
    hint = QueuedHint(TIME - UNANNOUNCED - 100, TIME - 10)
    assert planned(a_demand(), memory=SupplyMemory(queued=hint)).claims == 1
    assert hint.again(TIME) == QueuedHint(hint.since, TIME)
    assert hint.again(TIME + UNANNOUNCED) == QueuedHint(TIME + UNANNOUNCED, TIME + UNANNOUNCED)


def test_a_queued_job_needs_no_member_beside_those_of_jobs_that_wait_or_of_the_minimum() -> None:
    assert planned(a_demand(2), memory=hinted(QUEUED)).claims == 2
    assert planned(a_demand(), a_member("i-1"), memory=hinted(QUEUED), min=1).claims == 0


def test_a_job_that_begins_after_a_queued_one_was_shown_ends_the_wait_for_it() -> None:
    started = a_demand(starts=(JobStart(NOW, TIME - 5),))
    for made in (
        planned(started, memory=hinted(QUEUED)),
        planned(a_demand(1, 1), a_member("i-1", BUSY, for_=5), memory=hinted(QUEUED)),
    ):
        assert (made.claims, made.memory.queued) == (0, None)
    # One that began before was not the one that was shown.
    assert planned(a_demand(1, 1), a_member("i-1", BUSY, for_=60), memory=hinted(QUEUED)).claims == 1


def test_a_member_that_would_judge_by_old_rules_registers_again_and_still_counts() -> None:
    made = planned(a_demand(1), a_member("i-1"), a_member("i-2", rules="old"), min=1)
    assert (made.outdated, made.claims) == (("i-2",), 0)
    assert planned(a_demand(), a_member("i-1"), min=1, events=SetEvents.TRUSTED).outdated == ("i-1",)


def test_a_member_with_old_rules_that_is_not_needed_leaves_instead() -> None:
    made = planned(a_demand(), a_member("i-1", for_=90, rules="old"))
    assert (made.withdraw, made.outdated) == (("i-1",), ())


def test_what_the_set_does_not_take_any_more_leaves_and_is_replaced() -> None:
    unfit = [
        replace(one, instance=replace(one.instance, resource_class="old")) for one in map(a_member, ("i-1", "i-2"))
    ]
    starting = replace(unfit[1], state=STARTING, since=TIME - REPORTED, listening=None)
    made = planned(a_demand(), unfit[0], starting, a_member("i-3"), min=3)
    assert (made.withdraw, made.release, made.claims) == (("i-1",), ("i-2",), 2)
    recent = replace(starting, since=TIME - REPORTED + 1)
    assert planned(a_demand(), recent, min=1).release == ()
    silent = replace(starting, is_heard=False)
    made = planned(a_demand(), silent, min=1)
    assert (made.withdraw, made.release, made.claims) == ((), (), 1)


@pytest.mark.parametrize(("state", "withdrawn"), [(CLAIMED, ("i-1",)), (RUNNING, ())])
def test_a_drained_claim_that_listens_and_was_never_engaged_is_withdrawn(state: State, withdrawn: tuple[str]) -> None:
    listening = a_member("i-1")
    late = replace(
        listening, state=CLEANING, instance=replace(listening.instance, state=state, image_generation=DRAINED)
    )
    assert planned(a_demand(), late).withdraw == withdrawn
    of_before = replace(late, instance=replace(late.instance, round="another"))
    assert planned(a_demand(), of_before).withdraw == ()
    fits = replace(late, instance=replace(late.instance, image_generation=SERVED.image_generation))
    assert planned(a_demand(), fits).withdraw == ()
