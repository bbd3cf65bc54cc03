"""What every Records promises of its queries: they find what they should, in pages, whatever the history."""

from dataclasses import replace
from typing import Any

import pytest

from builders import (
    BY,
    NOW,
    Walk,
    a_signal,
    abort,
    admit,
    buried,
    claim,
    claimed,
    cleaning,
    conclude,
    decide,
    done,
    expire,
    keep,
    later,
    needs,
    offer,
    on_offer,
    open_provision,
    register,
    registered,
    release,
    revoke,
    roll_back,
    running,
    settle,
    terminated,
    used_and_on_offer,
    wait,
)
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.provision import (
    FleetAnswered,
    FleetPlanned,
    Place,
    Provision,
    Renewed,
    answer_fleet,
    plan_fleet,
    renew,
)
from bullpen.model.signal import Heartbeat, Kind, Pulse
from bullpen.model.ticket import UsageClass
from bullpen.ports import Delta, History, InstanceGroup, Records, Signals
from conformance.landing import book_to_their_ends, land, land_all


def ids(found: list[Instance] | list[Provision]) -> list[str]:
    return [record.id for record in found]


# ---- of a run


async def test_a_run_has_every_live_instance_it_owns_by_id(records: Records) -> None:
    for walk in (running("i-3"), claimed("i-1"), registered("i-2", run_id="run-1"), claimed("i-4", "run-2")):
        await land(records, walk)
    for walk in (on_offer("i-5"), cleaning("i-6"), terminated("i-7")):
        await land(records, walk)
    assert ids(await records.run_instances("run-1")) == ["i-1", "i-2", "i-3"]


async def test_an_instance_leaves_its_run_when_it_is_released_rolled_back_or_expired(records: Records) -> None:
    released, rolled_back, expired = (
        await land(records, running("i-1")),
        await land(records, claimed("i-2")),
        await land(records, running("i-3")),
    )
    assert ids(await records.run_instances("run-1")) == ["i-1", "i-2", "i-3"]
    await records.apply(release(released), roll_back(rolled_back), expire(expired))
    assert await records.run_instances("run-1") == []


async def test_the_runs_that_have_live_instances_are_listed_with_all_of_them_in_pages(records: Records) -> None:
    walks = [
        running("i-5", "run-10"),
        claimed("i-2", "run-2"),
        registered("i-4", run_id="run-1"),
        running("i-3", "run-2"),
    ]
    for walk in (*walks, running("i-1", "run-1"), on_offer("i-6"), cleaning("i-7"), terminated("i-8")):
        await land(records, walk)
    found = await records.served_runs(10)
    assert {run_id: ids(of_run) for run_id, of_run in found.items()} == {
        "run-1": ["i-1", "i-4"],
        "run-10": ["i-5"],
        "run-2": ["i-2", "i-3"],
    }
    assert list(found) == ["run-1", "run-10", "run-2"]
    assert list(await records.served_runs(2)) == ["run-1", "run-10"]
    assert list(await records.served_runs(2, after="run-1")) == ["run-10", "run-2"]
    assert await records.served_runs(2, after="run-2") == {}
    assert await records.served_runs(0) == {}


async def test_a_run_is_not_listed_as_served_once_its_last_instance_has_left_it(records: Records) -> None:
    last = await land(records, running("i-1", "run-1"))
    await land(records, running("i-2", "run-2"))
    await records.apply(release(last))
    assert list(await records.served_runs(1)) == ["run-2"]


async def test_an_unknown_run_has_nothing(records: Records) -> None:
    await land(records, on_offer())
    assert await records.run_instances("run-1") == []
    assert await records.run_provisions("run-1") == []


async def test_a_run_has_all_its_provisions_decided_or_not(records: Records) -> None:
    for provision_id in ("p-1", "p-2", "p-3"):
        await records.apply(open_provision(provision_id))
    await records.apply(open_provision("p-4", run_id="run-2"))
    await records.apply(abort(open_provision("p-1").after))
    await records.apply(decide(open_provision("p-2").after, "i-1"))
    assert sorted(ids(await records.run_provisions("run-1"))) == ["p-1", "p-2", "p-3"]


async def test_a_closed_provision_is_listed_as_history_and_no_longer_as_current(
    records: Records,
) -> None:
    for number, provision_id in enumerate(("p-1", "p-2", "p-3", "p-4")):
        await records.apply(open_provision(provision_id, deadline=later(number)))
    (aborted,) = await records.apply(abort(open_provision("p-1", deadline=later(0)).after))
    await records.apply(settle(aborted))
    (committed,) = await records.apply(decide(open_provision("p-2", deadline=later(1)).after, "i-1"))
    (settled,) = await records.apply(settle(committed))
    assert ids(await records.run_provisions("run-1")) == ["p-2", "p-3", "p-4"]
    (over,) = await records.apply(conclude(settled))
    assert ids(await records.run_provisions("run-1")) == ["p-2", "p-3", "p-4"]
    await records.apply(settle(over))
    assert ids(await records.run_provisions("run-1")) == ["p-3", "p-4"]
    assert ids(await records.told_provisions("run-1", 10)) == ["p-4", "p-3", "p-2", "p-1"]
    assert ids(await records.told_provisions("run-1", 2)) == ["p-4", "p-3"]


async def test_a_revoked_provision_is_of_its_run_and_due_until_it_is_settled(records: Records) -> None:
    await records.apply(open_provision("p-1"))
    (committed,) = await records.apply(decide(open_provision("p-1").after, "i-1"))
    (settled,) = await records.apply(settle(committed))
    assert await records.due_provisions(later(100), 10) == []
    (revoked,) = await records.apply(revoke(settled, "i-1 was lost", due=later(50)))
    assert await records.run_provisions("run-1") == await records.due_provisions(later(100), 10) == [revoked]
    assert revoked.is_revoked
    (closed,) = await records.apply(settle(revoked))
    assert await records.run_provisions("run-1") == await records.due_provisions(later(100), 10) == []
    assert await records.provision("p-1") == closed


async def test_the_committed_provision_of_a_run_is_listed_however_many_failed_since(records: Records) -> None:
    await records.apply(open_provision("p-0", deadline=later(0)))
    await records.apply(decide(open_provision("p-0", deadline=later(0)).after, "i-1"))
    for number in range(1, 8):
        await records.apply(open_provision(f"p-{number}", deadline=later(number)))
        await records.apply(abort(open_provision(f"p-{number}", deadline=later(number)).after))
    assert ids(await records.told_provisions("run-1", 3)) == ["p-7", "p-6", "p-5"]
    assert ids(await records.told_provisions("run-1", 3, committed=True)) == ["p-0"]


async def test_open_provisions_are_those_of_the_class_that_are_not_decided(records: Records) -> None:
    for provision_id in ("p-1", "p-2", "p-3"):
        await records.apply(open_provision(provision_id))
    await records.apply(open_provision("p-4", needs=needs(resource_class="large")))
    await records.apply(abort(open_provision("p-1").after))
    await records.apply(decide(open_provision("p-2").after, "i-1"))
    assert ids(await records.open_provisions("small")) == ["p-3"]


async def test_pre_warming_is_found_among_the_open_provisions(records: Records) -> None:
    await records.apply(open_provision("p-1", run_id=""))
    assert ids(await records.open_provisions("small")) == ["p-1"]


async def waiting(records: Records, provision_id: str, since: float, **changed: Any) -> Provision:
    (opened,) = await records.apply(open_provision(provision_id, **changed))
    (landed,) = await records.apply(wait(opened, since=since))
    assert isinstance(landed, Provision)
    return landed


async def test_provisions_wait_in_the_order_in_which_they_came_whatever_their_class(records: Records) -> None:
    await records.apply(open_provision("p-0"))
    await waiting(records, "p-1", 3.0)
    await waiting(records, "p-2", 1.0, needs=needs(resource_class="large"))
    first = await waiting(records, "p-4", 0.000001)
    await waiting(records, "p-3", 3.0)
    assert ids(await records.waiting_provisions(10)) == ["p-4", "p-2", "p-1", "p-3"]
    assert await records.waiting_provisions(1) == [first]


async def test_a_provision_is_in_the_queue_until_it_has_launched_or_is_decided(records: Records) -> None:
    served, decided, given_up = [await waiting(records, f"p-{n}", float(n)) for n in range(3)]
    (served,) = await records.apply(admit(served))
    planned = FleetPlanned(at=NOW, by=BY, client_token="t", count=1)
    (served,) = await records.apply(plan_fleet(served, planned))
    assert ids(await records.waiting_provisions(10)) == ["p-0", "p-1", "p-2"]
    await records.apply(answer_fleet(served, FleetAnswered(at=NOW, by=BY, client_token="t")))
    await records.apply(decide(decided, "i-1"))
    assert ids(await records.waiting_provisions(10)) == ["p-2"]
    await records.apply(abort(given_up))
    assert await records.waiting_provisions(10) == []
    assert ids(await records.open_provisions("small")) == ["p-0"]


async def test_a_provision_in_a_queue_is_due_when_its_place_runs_out(records: Records) -> None:
    first = await waiting(records, "p-1", 0.0)
    assert await records.due_provisions(later(29), 10) == []
    assert ids(await records.due_provisions(later(30), 10)) == ["p-1"]
    await records.apply(renew(first, Renewed(at=NOW, by=BY, until=later(45.5))))
    assert await records.due_provisions(later(45), 10) == []
    (found,) = await records.due_provisions(later(46), 10)
    assert found.place == Place("limits.max-instances", later(0), later(45.5))


# ---- on offer


async def test_claimable_are_those_on_offer_and_no_others(records: Records) -> None:
    states = (registered("i-1"), on_offer("i-2"), claimed("i-3"), running("i-4"), cleaning("i-5"))
    for walk in (*states, used_and_on_offer("i-6"), terminated("i-7"), buried("i-8")):
        await land(records, walk)
    found = await records.claimable(needs(), NOW, 10)
    assert ids(found) == ["i-2", "i-6"]
    assert found[0] == (await records.instances(["i-2"]))["i-2"]


async def test_an_instance_stops_and_starts_to_be_claimable_with_each_step(records: Records) -> None:
    seen = await land(records, on_offer())
    for step, claimable in ((keep, True), (claim, False), (roll_back, False), (offer, True), (expire, False)):
        (seen,) = await records.apply(step(seen))
        assert bool(await records.claimable(needs(), NOW, 10)) is claimable, step


UNFIT: dict[str, dict[str, Any]] = {
    "another class": {"resource_class": "large"},
    "another usage class": {"usage_class": UsageClass.SPOT},
    "a type that is not allowed": {"instance_type": "m5.large"},
    "too few cpu": {"cpu": 1},
    "too little mem": {"mem": 2047},
    "another trust domain": {"trust_domain": "other"},
    "an older image": {"image_generation": 2},
    "a newer image": {"image_generation": 4},
    "past its threshold": {"threshold": NOW},
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT.keys())
async def test_what_does_not_fit_is_not_claimable(records: Records, unfit: dict[str, Any]) -> None:
    fit: dict[str, Any] = {"instance_type": "c5.large", "cpu": 2, "mem": 2048, "image_generation": 3}
    asked = needs(allowed_types=("x*", "C5.*"), cpu=2, mem=2048, image_generation=3)
    await land(records, on_offer("i-1", **{**fit, **unfit}))
    await land(records, on_offer("i-2", **fit))
    assert ids(await records.claimable(asked, NOW, 10)) == ["i-2"]


async def test_claimable_in_trust_are_never_used_own_and_inherited_ones(records: Records) -> None:
    for number, domain in enumerate(["", "default", "parent", "other"]):
        await land(records, on_offer(f"i-{number}", trust_domain=domain))
    assert ids(await records.claimable(needs(inherits=("parent",)), NOW, 10)) == ["i-0", "i-1", "i-2"]


async def test_claimable_starts_where_asked_and_goes_around(records: Records) -> None:
    for number in range(5):
        await land(records, on_offer(f"i-{number}"))
    assert ids(await records.claimable(needs(), NOW, 10, "i-3")) == ["i-3", "i-4", "i-0", "i-1", "i-2"]
    assert ids(await records.claimable(needs(), NOW, 3, "i-3")) == ["i-3", "i-4", "i-0"]
    assert ids(await records.claimable(needs(), NOW, 3, "i-25")) == ["i-3", "i-4", "i-0"]
    assert ids(await records.claimable(needs(), NOW, 3, "z")) == ["i-0", "i-1", "i-2"]


async def test_claimable_of_the_requested_usage_class_come_before_those_of_its_fallback(records: Records) -> None:
    spot = {2, 4}
    for number in range(5):
        market = UsageClass.SPOT if number in spot else UsageClass.ON_DEMAND
        await land(records, on_offer(f"i-{number}", usage_class=market))
    either = needs(usage_class=UsageClass.SPOT, fallback=(UsageClass.ON_DEMAND,))
    assert ids(await records.claimable(either, NOW, 10, "i-3")) == ["i-4", "i-2", "i-3", "i-0", "i-1"]
    assert ids(await records.claimable(either, NOW, 3, "i-3")) == ["i-4", "i-2", "i-3"]
    assert ids(await records.claimable(either, NOW, 1, "i-3")) == ["i-4"]
    assert ids(await records.claimable(needs(usage_class=UsageClass.SPOT), NOW, 10)) == ["i-2", "i-4"]


async def test_claimable_of_the_requested_usage_class_are_found_behind_many_of_its_fallback(records: Records) -> None:
    await land_all(records, [on_offer(f"i-{n:03}") for n in range(300)])
    await land(records, on_offer("i-999", usage_class=UsageClass.SPOT))
    either = needs(usage_class=UsageClass.SPOT, fallback=(UsageClass.ON_DEMAND,))
    assert ids(await records.claimable(either, NOW, 2)) == ["i-999", "i-000"]


@pytest.mark.parametrize("fallback", [None, (), (UsageClass.ON_DEMAND,)], ids=str)
async def test_a_provision_keeps_what_its_run_falls_back_to(
    records: Records, fallback: tuple[UsageClass, ...] | None
) -> None:
    asked = needs(usage_class=UsageClass.SPOT, fallback=fallback)
    await records.apply(open_provision("p-1", needs=asked))
    (found,) = await records.open_provisions("small")
    assert found.needs == asked


async def test_claimable_finds_what_fits_behind_many_that_do_not(records: Records) -> None:
    await land_all(records, [on_offer(f"i-{n:03}", instance_type="m5.large") for n in range(300)])
    await land(records, on_offer("i-999", instance_type="c5.large"))
    assert ids(await records.claimable(needs(allowed_types=("c5.*",)), NOW, 1)) == ["i-999"]


async def test_pending_are_ownerless_and_on_their_way_to_an_offer(records: Records) -> None:
    walks = (registered("i-1"), registered("i-2", run_id="run-1"), on_offer("i-3"), claimed("i-4"), cleaning("i-5"))
    for walk in (*walks, running("i-6"), terminated("i-7"), cleaning("i-8", resource_class="large")):
        await land(records, walk)
    assert ids(await records.pending("small", 10)) == ["i-1", "i-5"]


async def test_pending_comes_in_pages(records: Records) -> None:
    for number in range(5):
        await land(records, cleaning(f"i-{number}"))
    assert ids(await records.pending("small", 2)) == ["i-0", "i-1"]
    assert ids(await records.pending("small", 2, "i-1")) == ["i-2", "i-3"]
    assert ids(await records.pending("small", 2, "i-3")) == ["i-4"]
    assert ids(await records.pending("small", 2, "i-4")) == []


# ---- due


async def test_a_provision_is_due_at_its_deadline(records: Records) -> None:
    await records.apply(open_provision(deadline=later(60)))
    assert await records.due_provisions(later(59.999), 10) == []
    assert ids(await records.due_provisions(later(60), 10)) == ["p-1"]


async def test_an_instance_owes_from_the_time_of_its_debt_until_it_is_paid(records: Records) -> None:
    seen = await land(records, cleaning())
    assert await records.owing_instances(later(4.999), 10) == []
    assert ids(await records.owing_instances(later(5), 10)) == ["i-1"]
    await records.apply(offer(seen))
    assert await records.owing_instances(later(5), 10) == []


async def test_a_terminated_instance_owes_its_end_until_that_is_confirmed(records: Records) -> None:
    seen = await land(records, terminated())
    assert ids(await records.owing_instances(NOW, 10)) == ["i-1"]
    await records.apply(done(seen))
    assert await records.owing_instances(later(10**6), 10) == []


async def test_an_overdue_threshold_is_no_debt(records: Records) -> None:
    await land(records, on_offer("i-0", threshold=later(1)))
    await land(records, cleaning("i-1"))
    assert await records.owing_instances(later(4.999), 10) == []
    assert ids(await records.owing_instances(later(5), 10)) == ["i-1"]


async def test_the_longest_owed_debt_comes_first_and_a_paid_one_is_none(records: Records) -> None:
    seen = await land(records, cleaning("i-0"))
    await land(records, terminated("i-1"))
    assert ids(await records.owing_instances(later(5), 10)) == ["i-1", "i-0"]
    assert ids(await records.owing_instances(later(5), 1)) == ["i-1"]
    await records.apply(offer(seen))
    assert ids(await records.owing_instances(later(5), 10)) == ["i-1"]


async def test_the_longest_overdue_provision_comes_first(records: Records) -> None:
    for number, seconds in enumerate([30, 10, 20, 40]):
        await records.apply(open_provision(f"p-{number}", deadline=later(seconds)))
    assert ids(await records.due_provisions(later(30), 10)) == ["p-1", "p-2", "p-0"]
    assert ids(await records.due_provisions(later(30), 2)) == ["p-1", "p-2"]


async def test_an_open_provision_is_due_at_its_deadline_a_decided_one_when_its_debt_is(records: Records) -> None:
    await records.apply(open_provision("p-1", deadline=later(600)))
    await records.apply(open_provision("p-2", deadline=later(500)))
    (aborted,) = await records.apply(abort(open_provision("p-2", deadline=later(500)).after, due=later(5)))
    assert await records.due_provisions(later(4.999), 10) == []
    assert ids(await records.due_provisions(later(599), 10)) == ["p-2"]
    assert ids(await records.due_provisions(later(600), 10)) == ["p-2", "p-1"]
    assert ids(await records.due_provisions(later(600), 1)) == ["p-2"]
    await records.apply(settle(aborted))
    assert ids(await records.due_provisions(later(10**6), 10)) == ["p-1"]


# ---- all of them


async def test_live_are_all_whose_end_is_not_confirmed_in_pages(records: Records) -> None:
    walks = (registered("i-1"), on_offer("i-2"), claimed("i-3"), buried("i-4"), running("i-5"), cleaning("i-6"))
    for walk in (*walks, terminated("i-7")):
        await land(records, walk)
    assert ids(await records.live(3)) == ["i-1", "i-2", "i-3"]
    assert ids(await records.live(3, "i-3")) == ["i-5", "i-6", "i-7"]
    assert ids(await records.live(3, "i-7")) == []


async def test_a_list_shows_whose_run_an_instance_serves_until_it_is_given_back(records: Records) -> None:
    serving = claim(await land(records, on_offer("i-1")), needs=needs(repository="acme/widgets"))
    for change, shown in ((serving, "acme/widgets"), (roll_back(serving.after), "")):
        await records.apply(change)
        assert [one.repository for one in await records.live(10)] == [shown]


async def test_counts_are_of_live_instances_by_class_and_state(records: Records) -> None:
    walks = (registered("i-1"), on_offer("i-2"), cleaning("i-3"), claimed("i-4"), running("i-5"), terminated("i-6"))
    for walk in (*walks, buried("i-7"), on_offer("i-8", resource_class="large")):
        await land(records, walk)
    counts = {
        ("small", CREATED): 1,
        ("small", IDLE): 2,
        ("small", CLAIMED): 1,
        ("small", RUNNING): 1,
        ("large", IDLE): 1,
    }
    assert await records.count() == counts


async def test_the_census_also_says_what_is_on_offer_and_of_which_type_and_has_those_whose_end_is_owed(
    records: Records,
) -> None:
    walks = (registered("i-1"), on_offer("i-2"), cleaning("i-3"), claimed("i-4"), running("i-5"), terminated("i-6"))
    others = {"resource_class": "large", "instance_type": "m7g.large", "usage_class": UsageClass.SPOT}
    for walk in (*walks, on_offer("i-7"), buried("i-8"), on_offer("i-9", **others)):
        await land(records, walk)
    (kind,) = {one.instance_type for one in await records.live(10) if one.id != "i-9"}
    usual = (kind, UsageClass.ON_DEMAND)
    assert await records.census() == {
        InstanceGroup("small", CREATED, False, *usual): 1,
        InstanceGroup("small", IDLE, True, *usual): 2,
        InstanceGroup("small", IDLE, False, *usual): 1,
        InstanceGroup("small", CLAIMED, False, *usual): 1,
        InstanceGroup("small", RUNNING, False, *usual): 1,
        InstanceGroup("small", TERMINATED, False, *usual): 1,
        InstanceGroup("large", IDLE, True, "m7g.large", UsageClass.SPOT): 1,
    }


@pytest.mark.slow
async def test_thousands_of_terminated_records_show_up_in_no_query(records: Records, crowd: int) -> None:
    def ended(instance_id: str) -> Walk:
        first = register(instance_id, run_id="run-1")
        second = expire(first.after)
        return [first, second, done(second.after)]

    await land_all(records, [ended(f"i-{n:04}") for n in range(crowd)])
    for walk in (running("i-a"), on_offer("i-b"), cleaning("i-c")):
        await land(records, walk)
    assert ids(await records.run_instances("run-1")) == ["i-a"]
    assert ids(await records.claimable(needs(), NOW, 10)) == ["i-b"]
    assert ids(await records.pending("small", 10)) == ["i-c"]
    assert ids(await records.owing_instances(later(10**6), 10)) == ["i-c"]
    assert ids(await records.live(10)) == ["i-a", "i-b", "i-c"]
    assert await records.count() == {("small", RUNNING): 1, ("small", IDLE): 2}


# ---- purged


@pytest.mark.purging
async def test_a_record_is_purged_from_its_time_on_with_its_story_and_its_reports(
    records: Records, signals: Signals, history: History
) -> None:
    ended = await land(records, buried("i-1", purge_at=later(60)))
    await book_to_their_ends(history, "i-1")
    alive = await land(records, on_offer("i-2"))
    for instance in (ended, alive):
        await signals.report(a_signal(instance, Kind.OK))
        await signals.beat(Heartbeat(instance.id, NOW, seq=1))
    assert await records.purge(later(59.999), 10) == 0
    assert await records.purge(later(60), 10) == 1
    assert (await records.instances(["i-1", "i-2"])).keys() == {"i-2"}
    stories, pulses = await records.stories(["i-1", "i-2"]), await signals.read(["i-1", "i-2"])
    assert not stories.get("i-1")
    assert len(stories["i-2"]) == 2
    assert pulses["i-1"] == Pulse()
    assert pulses["i-2"].signal is not None


@pytest.mark.purging
async def test_a_settled_provision_is_purged(records: Records) -> None:
    await records.apply(open_provision())
    (aborted,) = await records.apply(abort(open_provision().after))
    await records.apply(settle(aborted, purge_at=later(60)))
    assert await records.purge(later(60), 10) == 1
    assert await records.provision("p-1") is None
    assert await records.run_provisions("run-1") == []


@pytest.mark.purging
async def test_an_instance_that_is_not_booked_to_its_end_stays_a_day_longer(records: Records) -> None:
    await land(records, buried("i-1", purge_at=later(60)))
    assert await records.purge(later(86_459), 10) == 0
    assert await records.purge(later(86_460), 10) == 1


@pytest.mark.purging
async def test_a_purge_takes_at_most_its_limit(records: Records, history: History) -> None:
    for number in range(5):
        await land(records, buried(f"i-{number}", purge_at=later(60)))
    await book_to_their_ends(history, *(f"i-{number}" for number in range(5)))
    assert [await records.purge(later(60), 2) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.purging
async def test_a_purged_id_may_be_registered_again(records: Records, history: History) -> None:
    await land(records, buried(purge_at=later(60)))
    await book_to_their_ends(history, "i-1")
    await records.purge(later(60), 10)
    again = await land(records, registered())
    assert again == replace(again, version=1)


# ---- what a reader does not know


async def test_a_reader_that_knows_nothing_gets_everything_that_lives(records: Records) -> None:
    for walk in (running("i-1"), on_offer("i-2"), cleaning("i-3"), terminated("i-4"), registered("i-5")):
        await land(records, walk)
    await land(records, buried("i-6"))
    found = await records.live_since({})
    assert sorted(found.changed, key=lambda one: one.id) == await records.live(10)
    assert found.gone == []


async def test_a_reader_gets_what_changed_since_and_what_is_gone(records: Records) -> None:
    before = [await land(records, walk) for walk in (on_offer("i-1"), on_offer("i-2"), terminated("i-3"))]
    known = {one.id: one.version for one in before}
    assert await records.live_since(known) == Delta([], [])
    (changed,) = await records.apply(claim(before[0]))
    await records.apply(done(before[2], purge_at=later(3600)))
    new = await land(records, running("i-4"))
    found = await records.live_since(known)
    assert (sorted(found.changed, key=lambda one: one.id), found.gone) == ([changed, new], ["i-3"])


async def test_a_reader_that_knows_an_older_or_another_version_gets_the_record(records: Records) -> None:
    one = await land(records, on_offer("i-1"))
    for version in (0, one.version - 1, one.version + 1):
        assert await records.live_since({"i-1": version}) == Delta([one], [])
