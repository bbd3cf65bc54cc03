"""What every Records promises of scale sets, and of the sessions by which one process listens to each."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import later, release
from bullpen.errors import Conflict
from bullpen.model import set_session as sessions
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.scale_set import ScaleSet, SetRepository, must_be_ready, set_run_id
from bullpen.model.set_session import JobCounts, SetSession, must_be_held, session_id
from bullpen.model.transition import Change
from bullpen.ports import Records
from conformance.landing import land as land_instance
from conformance.landing import stored
from set_builders import (
    NAME,
    SetWalk,
    a_ready_set,
    a_started_job,
    a_waiting_job,
    claimed_for_set,
    correct,
    engage,
    extend,
    found,
    gone,
    mark_missing,
    open_session,
    ready,
    recall,
    record_failure,
    record_message,
    renew,
    retire,
    retired,
    retiring,
    revive,
    rules,
    take,
    want,
    wanted,
    yield_session,
)


async def land(records: Records, walk: SetWalk) -> ScaleSet:
    for change in walk:
        await records.apply(change)
    return walk[-1].after


async def held(records: Records, holder: str = "web-1") -> SetSession:
    """A session that a process listens by."""
    (taken,) = await records.apply(take(holder=holder))
    (opened,) = await records.apply(open_session(taken))
    assert isinstance(opened, SetSession)
    return opened


async def session(records: Records) -> SetSession:
    return (await records.set_sessions())[NAME]


# ---- sets


@pytest.mark.parametrize("walk", [wanted(), ready(), retiring(), retired()], ids=lambda walk: walk[-1].after.state)
async def test_a_set_is_read_as_it_was_written(records: Records, walk: SetWalk) -> None:
    assert await records.scale_sets() == {}
    written = await land(records, walk)
    assert await records.scale_sets() == {NAME: written}


async def test_a_set_with_every_rule_and_one_without_any_are_read_as_they_were_written(records: Records) -> None:
    repositories = (SetRepository("octo/repo", 2**40), SetRepository("octo/ünïcode"))
    await records.apply(want(rules=rules(repositories=repositories, max_runtime=0.5)))
    await records.apply(*wanted("bare", rules=rules(repositories=(), group="", trust_domain="", min=0)))
    found = await records.scale_sets()
    assert found[NAME].rules == rules(repositories=repositories, max_runtime=0.5)
    assert found["bare"].rules == rules(repositories=(), group="", trust_domain="", min=0)


async def test_a_set_walks_through_its_whole_life(records: Records) -> None:
    seen = await land(records, ready())
    steps: list[Callable[..., Change[ScaleSet]]] = [correct, mark_missing, found, retire, revive, retire, gone, want]
    for step in steps:
        (seen,) = await records.apply(step(seen))
        assert (await records.scale_sets())[NAME] == seen


async def test_every_set_is_listed_by_name(records: Records) -> None:
    names = [f"bullpen-{n:03}" for n in range(120)]
    await records.apply_each([want(wanted(name)[0].before) for name in names])
    assert sorted(await records.scale_sets()) == names


async def test_of_many_that_want_a_set_exactly_one_writes_it(records: Records) -> None:
    wishes = [want(rules=rules(max=n + 1)) for n in range(16)]
    outcomes = await asyncio.gather(*map(records.apply, wishes), return_exceptions=True)
    winners = [wish.after for wish, outcome in zip(wishes, outcomes, strict=True) if isinstance(outcome, list)]
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 15
    assert list((await records.scale_sets()).values()) == winners


async def test_the_loss_of_another_set_of_the_same_name_is_refused_by_the_store(records: Records) -> None:
    seen = await land(records, ready())
    with pytest.raises(Conflict) as refused:
        await records.apply(mark_missing(replace(seen, ci_id=6)))
    assert refused.value.found == seen


# ---- taken


async def test_of_many_takers_exactly_one_wins(records: Records) -> None:
    free = yield_session(await held(records)).after
    await records.apply(yield_session(await session(records)))
    takes = [take(free, f"web-{n}") for n in range(32)]
    outcomes = await asyncio.gather(*map(records.apply, takes), return_exceptions=True)
    winners = [one.after for one, outcome in zip(takes, outcomes, strict=True) if isinstance(outcome, list)]
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 31
    assert [await session(records)] == winners


async def test_of_many_first_takers_exactly_one_wins(records: Records) -> None:
    takes = [take(holder=f"web-{n}") for n in range(16)]
    outcomes = await asyncio.gather(*map(records.apply, takes), return_exceptions=True)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 15
    assert (await session(records)).epoch == 1


async def test_a_taker_and_the_holder_that_renews_at_the_same_moment_do_not_both_land(records: Records) -> None:
    seen = await held(records)
    outcomes = await asyncio.gather(
        records.apply(take(seen, "web-2")), records.apply(renew(seen)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1
    now = await session(records)
    assert (now.holder, now.epoch) == (("web-2", 2) if isinstance(outcomes[0], list) else ("web-1", 1))


async def test_a_taker_whose_answer_was_lost_recognises_its_round(records: Records) -> None:
    change = take(await held(records), "web-2")
    (landed,) = await records.apply(change)
    assert await records.apply(change) == [landed]
    assert (await session(records)).epoch == 2


async def test_a_take_of_the_same_epoch_by_another_process_is_no_lost_answer(records: Records) -> None:
    seen = await held(records)
    await records.apply(take(seen, "web-2"))
    with pytest.raises(Conflict) as refused:
        await records.apply(take(seen, "web-2"))
    assert refused.value.found == await session(records)


# ---- fenced

OF_THE_HOLDER: dict[str, Callable[..., Change[SetSession]]] = {
    "renew": renew,
    "open": open_session,
    "record message": record_message,
    "record failure": record_failure,
    "yield": yield_session,
}


@pytest.mark.parametrize("step", OF_THE_HOLDER.values(), ids=OF_THE_HOLDER.keys())
async def test_a_paused_holder_writes_nothing_more(records: Records, step: Callable[..., Change[SetSession]]) -> None:
    paused = await held(records)
    (taken,) = await records.apply(take(paused, "web-2"))
    with pytest.raises(Conflict) as refused:
        await records.apply(step(paused))
    assert refused.value.found == taken
    assert await session(records) == taken


@pytest.mark.parametrize("step", OF_THE_HOLDER.values(), ids=OF_THE_HOLDER.keys())
@pytest.mark.parametrize("lie", [{"epoch": 1}, {"holder": "web-1"}], ids=str)
async def test_holder_and_epoch_are_held_against_the_stored_record(
    records: Records, step: Callable[..., Change[SetSession]], lie: dict[str, Any]
) -> None:
    (taken,) = await records.apply(take(await held(records), "web-2"))
    with pytest.raises(Conflict) as refused:
        await records.apply(step(replace(taken, **lie)))
    assert refused.value.found == taken


async def test_what_only_the_holder_may_do_to_a_set_fails_once_another_process_holds_it(records: Records) -> None:
    seen = await land(records, ready())
    paused = await held(records)
    (taken,) = await records.apply(take(paused, "web-2"))
    with pytest.raises(Conflict):
        await records.apply(retire(seen), checks=[must_be_held(paused)])
    assert (await records.scale_sets())[NAME] == seen
    (retiring,) = await records.apply(retire(seen), checks=[must_be_held(taken)])
    assert (await records.scale_sets())[NAME] == retiring


async def test_a_check_of_a_set_or_session_that_is_absent_does_not_hold(records: Records) -> None:
    for check in (must_be_ready(NAME), must_be_held(take().after)):
        with pytest.raises(Conflict):
            await records.apply(want(wanted("another")[0].before), checks=[check])
    assert await records.scale_sets() == {}


# ---- members


@pytest.mark.parametrize("walk", [[], wanted(), retiring(), retired()], ids=["absent", "wanted", "retiring", "retired"])
async def test_an_instance_serves_a_set_only_while_the_stored_set_is_ready(records: Records, walk: SetWalk) -> None:
    believed = a_ready_set()
    for change in walk:
        await records.apply(change)
    member = await land_instance(records, claimed_for_set())
    with pytest.raises(Conflict):
        await records.apply(engage(member, believed), checks=[must_be_ready(NAME)])
    assert await stored(records, member.id) == member


async def test_only_the_process_that_holds_a_set_adds_a_member(records: Records) -> None:
    scale_set = await land(records, ready())
    paused = await held(records)
    (taken,) = await records.apply(take(paused, "web-2"))
    member = await land_instance(records, claimed_for_set())
    change = engage(member, scale_set)
    with pytest.raises(Conflict):
        await records.apply(change, checks=[must_be_ready(NAME), must_be_held(paused)])
    assert await stored(records, member.id) == member
    (running,) = await records.apply(change, checks=[must_be_ready(NAME), must_be_held(taken)])
    assert running.state is RUNNING


async def test_a_member_is_engaged_renewed_recalled_and_released(records: Records) -> None:
    scale_set = await land(records, ready())
    member = await land_instance(records, claimed_for_set())
    (seen,) = await records.apply(engage(member, scale_set), checks=[must_be_ready(NAME)])
    assert [one.id for one in await records.run_instances(scale_set.run_id)] == [seen.id]
    steps: list[Callable[[Instance], Change[Instance]]] = [extend, recall, release]
    for step in steps:
        (seen,) = await records.apply(step(seen))
        assert await stored(records, seen.id) == seen
    assert await records.run_instances(scale_set.run_id) == []
    told = [line.step for line in (await records.stories([seen.id]))[seen.id]]
    assert told == ["register", "adopt", "claim", "engage", "recall", "release"]


# ---- heard


async def test_a_session_is_read_as_it_was_written(records: Records) -> None:
    news: dict[str, Any] = {
        "waiting": (
            a_waiting_job("job-1", since=later(0.5), why="max is 8", lapses=2),
            a_waiting_job("job-2", name="ünïcode", lapses=3, taken_back_at=later(1.5)),
            a_waiting_job("", repository="", run="", name=""),
        ),
        "started": (a_started_job("job-3"), a_started_job("job-4", at=None)),
        "offered": (7, 2**53),
        "missing": 4,
        "phantom": 2,
        "dropped": 7,
    }
    seen = await held(records)
    for change in (record_message(seen, 2**40, **news), renew(record_message(seen, 2**40, **news).after, missing=0)):
        (landed,) = await records.apply(change)
        assert landed == change.after == await session(records)


async def test_a_session_without_statistics_is_read_as_it_was_written(records: Records) -> None:
    (taken,) = await records.apply(take())
    assert (await session(records)) == taken
    assert taken.statistics is None
    (heard,) = await records.apply(record_message(taken, statistics=JobCounts()))
    assert (await session(records)).statistics == heard.statistics == JobCounts()


async def test_the_largest_session_fits_into_the_store(records: Records) -> None:
    long = {"name": "ü" * 10_000, "repository": "o" * 10_000, "run": "1" * 10_000}
    waiting = tuple(a_waiting_job(f"{n:0>500}", why="y" * 10_000, **long) for n in range(100))
    started = tuple(a_started_job(f"{n:0>500}", runner="r" * 10_000, **long) for n in range(500))
    most: dict[str, Any] = {"waiting": waiting, "started": started, "offered": tuple(range(2**53, 2**53 + 999))}
    (landed,) = await records.apply(record_message(await held(records), **most))
    assert await session(records) == landed
    assert (len(landed.waiting), len(landed.started)) == (sessions.WAITING_LIMIT, sessions.STARTED_LIMIT)
    assert len(landed.offered) == sessions.OFFERED_LIMIT


async def test_the_largest_session_in_characters_of_four_bytes_fits_into_the_store(records: Records) -> None:
    wide = "\N{GRINNING FACE}" * 10_000
    texts = {"name": wide, "repository": wide, "run": wide}
    waiting = tuple(a_waiting_job(f"{n}{wide}", why=wide, **texts) for n in range(sessions.WAITING_LIMIT))
    started = tuple(a_started_job(f"{n}{wide}", runner=wide, **texts) for n in range(sessions.STARTED_LIMIT))
    (landed,) = await records.apply(record_message(await held(records), waiting=waiting, started=started))
    assert await session(records) == landed
    assert (len(landed.waiting), len(landed.started)) == (sessions.WAITING_LIMIT, sessions.STARTED_LIMIT)


async def test_sessions_are_listed_by_the_names_of_their_sets(records: Records) -> None:
    names = [f"bullpen-{n:03}" for n in range(120)]
    await records.apply_each([take(sessions.absent(name)) for name in names])
    found = await records.set_sessions()
    assert sorted(found) == names
    assert all(one.set_name == name for name, one in found.items())


async def test_a_set_and_its_session_may_change_together(records: Records) -> None:
    seen, listening = await land(records, ready()), await held(records)
    await records.apply(correct(seen), renew(listening))
    assert (await records.scale_sets())[NAME].version == seen.version + 1
    assert (await session(records)).version == listening.version + 1


# ---- stories


async def test_a_set_and_its_session_have_a_story_each(records: Records) -> None:
    walk = retiring()
    await land(records, walk)
    opened = await held(records)
    (heard,) = await records.apply(record_message(opened))
    (failing,) = await records.apply(record_failure(heard, "409"))
    await records.apply(yield_session(failing, why="it stops"))
    stories = await records.stories([set_run_id(NAME), session_id(NAME), "i-1"])
    assert stories[set_run_id(NAME)] == [change.line for change in walk]
    told = [(line.step, line.why) for line in stories[session_id(NAME)]]
    assert told == [("take", ""), ("open_", ""), ("record_failure", "409"), ("yield_", "it stops")]
    assert not stories.get("i-1")


@pytest.mark.purging
async def test_neither_a_set_nor_its_session_is_ever_purged(records: Records) -> None:
    gone = await land(records, retired())
    await records.apply(yield_session(await held(records)))
    await records.purge(later(10**9), 100)
    assert await records.scale_sets() == {NAME: gone}
    assert (await session(records)).epoch == 1
