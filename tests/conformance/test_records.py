"""What every Records promises of a write: it is kept as it was, together with others or not at all, and has a story."""

import pytest

from builders import (
    BY,
    NOW,
    abort,
    buried,
    claim,
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
    roll_back,
    running,
    settle,
    terminated,
    used_and_on_offer,
)
from bullpen.errors import Conflict
from bullpen.model import provision as provisions
from bullpen.model.instance import CLAIMED
from bullpen.model.provision import FleetState
from bullpen.model.transition import STORY_LENGTH
from bullpen.ports import TOGETHER_LIMIT, Records
from conformance.landing import land, stored


async def test_a_record_is_read_as_it_was_written(records: Records) -> None:
    for walk in (
        registered("i-1"),
        used_and_on_offer("i-2"),
        running("i-3"),
        cleaning("i-4"),
        terminated("i-5"),
        buried("i-6"),
    ):
        landed = await land(records, walk)
        assert landed == walk[-1].after
        assert await stored(records, landed.id) == landed


async def test_a_provision_is_read_as_it_was_written(records: Records) -> None:
    asked = needs(allowed_types=("c*", "m5.large"), inherits=("other",), cpu=2, mem=4096, image_generation=3)
    opened = open_provision(needs=asked, want=3, max_runtime=12.5).after
    await records.apply(open_provision(needs=asked, want=3, max_runtime=12.5))
    assert await records.provision("p-1") == opened
    planned = provisions.plan_fleet(opened, provisions.FleetPlanned(at=NOW, by=BY, client_token="token", count=3))
    answered = provisions.answer_fleet(planned.after, provisions.FleetAnswered(at=NOW, by=BY, client_token="token"))
    decided = decide(answered.after, "i-1", "i-2", "i-3")
    settled = settle(decided.after)
    for change in (planned, answered, decided, settled, conclude(settled.after)):
        assert await records.apply(change) == [change.after]
        assert await records.provision("p-1") == change.after


async def test_an_aborted_provision_keeps_its_reason(records: Records) -> None:
    await records.apply(open_provision())
    await records.apply(abort(open_provision().after, "only 1 of 3 machines could be launched"))
    found = await records.provision("p-1")
    assert found is not None
    assert found.reason == "only 1 of 3 machines could be launched"


async def test_microseconds_are_kept(records: Records) -> None:
    landed = await land(records, on_offer(threshold=later(0.123457)))
    assert (await stored(records, landed.id)).threshold == later(0.123457)


async def test_an_instance_with_a_record_is_known_in_every_state(records: Records) -> None:
    for walk in (registered("i-1"), buried("i-2")):
        await land(records, walk)
    assert await records.known(["i-1", "i-2", "i-3", "i-1"]) == {"i-1", "i-2"}
    assert await records.known([]) == set()


async def test_what_was_never_written_is_absent(records: Records) -> None:
    await land(records, on_offer("i-1"))
    assert (await records.instances(["i-1", "i-2"])).keys() == {"i-1"}
    assert await records.instances([]) == {}
    assert await records.provision("p-1") is None


async def test_one_read_takes_five_hundred_ids(records: Records) -> None:
    await records.apply_each([register(f"i-{n:03}") for n in range(500)])
    assert len(await records.instances([f"i-{n:03}" for n in range(500)])) == 500


# ---- together


async def test_changes_land_together(records: Records) -> None:
    changes = [register(f"i-{n}") for n in range(3)]
    assert await records.apply(*changes) == [change.after for change in changes]
    assert len(await records.instances(["i-0", "i-1", "i-2"])) == 3


async def test_a_fleet_and_its_instances_land_together(records: Records) -> None:
    (opened,) = await records.apply(open_provision())
    planned = provisions.plan_fleet(opened, provisions.FleetPlanned(at=NOW, by=BY, client_token="token", count=2))
    await records.apply(planned)
    answered = provisions.answer_fleet(planned.after, provisions.FleetAnswered(at=NOW, by=BY, client_token="token"))
    await records.apply(answered, register("i-1"), register("i-2"))
    found = await records.provision("p-1")
    assert found is not None
    assert found.fleets[0].state is FleetState.ANSWERED
    assert len(await records.instances(["i-1", "i-2"])) == 2


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_conflict_and_nothing_of_the_others_lands(records: Records, place: int) -> None:
    seen = [await land(records, on_offer(f"i-{n}")) for n in range(3)]
    rival = (await records.apply(claim(seen[place], "run-2")))[0]
    with pytest.raises(Conflict) as refused:
        await records.apply(*(claim(instance, "run-1") for instance in seen))
    assert refused.value.found == rival
    found = await records.instances([instance.id for instance in seen])
    assert [found[i.id] for i in seen if i.id != rival.id] == [i for i in seen if i.id != rival.id]
    stories = await records.stories([instance.id for instance in seen])
    assert [len(stories[f"i-{n}"]) for n in range(3)] == [3 if n == place else 2 for n in range(3)]


async def test_instances_of_a_fleet_do_not_land_under_a_provision_decided_meanwhile(records: Records) -> None:
    (opened,) = await records.apply(open_provision())
    planned = provisions.plan_fleet(opened, provisions.FleetPlanned(at=NOW, by=BY, client_token="token", count=1))
    await records.apply(planned)
    answered = provisions.answer_fleet(planned.after, provisions.FleetAnswered(at=NOW, by=BY, client_token="token"))
    await records.apply(abort(planned.after))
    with pytest.raises(Conflict):
        await records.apply(register("i-1"), answered)
    assert await records.instances(["i-1"]) == {}


async def test_as_many_as_the_limit_land_together(records: Records) -> None:
    landed = await records.apply(*(register(f"i-{n:03}") for n in range(TOGETHER_LIMIT)))
    assert len(landed) == TOGETHER_LIMIT


async def test_more_than_the_limit_is_refused_and_nothing_lands(records: Records) -> None:
    changes = [register(f"i-{n:03}") for n in range(TOGETHER_LIMIT + 1)]
    with pytest.raises(ValueError, match=str(TOGETHER_LIMIT)):
        await records.apply(*changes)
    assert await records.instances([change.after.id for change in changes]) == {}


async def test_nothing_to_apply_is_no_mistake(records: Records) -> None:
    assert await records.apply() == []
    assert await records.apply_each([]) == []


async def test_each_lands_on_its_own_and_conflicts_are_values_in_order(records: Records) -> None:
    seen = [await land(records, on_offer(f"i-{n}")) for n in range(3)]
    (rival,) = await records.apply(claim(seen[1], "run-2"))
    claims = [claim(instance, "run-1") for instance in seen]
    first, second, third = await records.apply_each(claims)
    assert isinstance(second, Conflict)
    assert second.found == rival
    assert [first, third] == [claims[0].after, claims[2].after]
    assert {i.state for i in (await records.instances(["i-0", "i-2"])).values()} == {CLAIMED}


async def test_each_takes_more_than_land_together(records: Records) -> None:
    changes = [register(f"i-{n:03}") for n in range(TOGETHER_LIMIT * 2 + 1)]
    assert await records.apply_each(changes) == [change.after for change in changes]


# ---- the story


async def test_each_step_leaves_its_line(records: Records) -> None:
    walk = used_and_on_offer()
    await land(records, walk)
    assert (await records.stories(["i-1"]))["i-1"] == [change.line for change in walk]


async def test_a_story_line_has_time_actor_and_reason(records: Records) -> None:
    seen = await land(records, on_offer())
    change = expire(seen, at=later(1.5), by="refresh", why="image generation 1, current is 2: 'old'")
    await records.apply(change)
    line = (await records.stories(["i-1"]))["i-1"][-1]
    assert (line.step, line.state, line.at, line.by) == ("expire", "terminated", later(1.5), "refresh")
    assert line.why == "image generation 1, current is 2: 'old'"


async def test_the_story_keeps_the_last_steps_oldest_first(records: Records) -> None:
    seen = await land(records, on_offer())
    for _ in range(STORY_LENGTH + 4):
        (seen,) = await records.apply(keep(seen))
    story = (await records.stories(["i-1"]))["i-1"]
    assert [line.version for line in story] == list(range(seen.version - STORY_LENGTH + 1, seen.version + 1))


async def test_provisions_have_stories_too(records: Records) -> None:
    await records.apply(open_provision())
    await records.apply(abort(open_provision().after, "no capacity"))
    stories = await records.stories(["p-1", "i-1"])
    assert [(line.step, line.why) for line in stories["p-1"]] == [("open_", ""), ("abort", "no capacity")]
    assert not stories.get("i-1")


async def test_a_conflict_leaves_no_line(records: Records) -> None:
    seen = await land(records, on_offer())
    await records.apply(claim(seen, "run-1"))
    await records.apply_each([claim(seen, "run-2")])
    assert [line.step for line in (await records.stories(["i-1"]))["i-1"]] == ["register", "adopt", "claim"]


# ---- a whole life


async def test_a_record_walks_through_its_whole_life(records: Records) -> None:
    seen = await land(records, used_and_on_offer())
    for step in (keep, claim, roll_back, offer, expire, done):
        (seen,) = await records.apply(step(seen))
    assert seen.due_at is None
    assert await stored(records, seen.id) == seen
