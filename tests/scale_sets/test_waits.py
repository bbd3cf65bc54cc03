"""Since when jobs of a set wait, and why: whatever messages were lost, and also of jobs that GitHub takes back."""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import NOW
from bullpen import inventory
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.inventory import SetView
from bullpen.model.set_session import WAITING_LIMIT, JobCounts, SetSession, WaitingJob, fitting_waiting
from bullpen.model.wait import WaitCause
from bullpen.ports import JobMessage, JobMessageKind
from bullpen.scale_sets.job_board import FORGOTTEN, MOST_WAITING, JobBoard
from bullpen.scale_sets.lapsed_runs import LapsedRuns
from bullpen.scale_sets.wait_reason import WaitReason
from bullpen.scale_sets.waits import LAPSES, LATE_AFTER, UNKNOWN, WaitAlarm, Waits
from bullpen.sim.world import World
from scale_sets.fixtures import REPOSITORY, a_set_world, hub_of, push, serve, session, settings_of, until_done
from set_builders import a_waiting_job, held

ASSIGNED, STARTED, COMPLETED = JobMessageKind.ASSIGNED, JobMessageKind.STARTED, JobMessageKind.COMPLETED
FULL = "classes.small.max-instances is 3"
LAPSE = 300.0


def said(words: str) -> WaitReason:
    """A reason, whose cause goes with the words."""
    return WaitReason(WaitCause.CAP if words == FULL else WaitCause.UNKNOWN, words)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


async def view(world: World) -> SetView:
    (one,) = (await inventory.status(world.ports(), world.settings)).sets
    return one


# ---- jobs that only the count shows


async def test_jobs_whose_messages_were_lost_wait_since_the_count_shows_them() -> None:
    async with a_set_world(settings_of(max=1)) as world:
        serve(world)
        push(world, lasts=3600.0)
        await asyncio.sleep(60)
        world_set = hub_of(world).sets
        world_set.troubles = SetTroubles(lost=1.0)
        (found,) = world_set.sets.values()
        found.capacity = 3  # GitHub assigns more than the set may run
        push(world, 2, lasts=3600.0)
        await asyncio.sleep(200)
        one = await view(world)
        assert one.jobs is not None
        assert (one.jobs.assigned, one.jobs.running, one.waiting) == (3, 1, 2)
        assert one.waits_since is not None
        assert timedelta(seconds=120) <= world.clock.now() - one.waits_since <= timedelta(seconds=200)
        assert one.why


async def test_after_a_take_over_jobs_wait_since_the_holder_before_last_counted_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world(settings_of(max=1)) as world:
        first = serve(world)
        push(world, lasts=3600.0)
        await asyncio.sleep(60)
        (found,) = hub_of(world).sets.sets.values()
        found.capacity = 3
        push(world, 2, lasts=3600.0)
        pushed = world.clock.now()
        await asyncio.sleep(4)
        first.kill()
        assert session(world).waiting == ()
        serve(world, "web-2")
        await asyncio.sleep(200)
        one = await view(world)
        assert (one.holder, one.waiting) == ("web-2", 2)
        assert one.waits_since is not None
        assert abs(one.waits_since - pushed) <= timedelta(seconds=4)
        assert one.why
        lines = [record.getMessage() for record in caplog.records if "that no message named" in record.getMessage()]
        assert len(lines) == 1, lines
        assert "GitHub counts 2 jobs that no message named and that waited for 60 s: " in lines[0]


async def test_a_take_over_keeps_since_when_unnamed_jobs_wait() -> None:
    stored = held()
    before = Waits(stored)
    before.note((), 2, said(FULL), NOW)
    kept = before.shown(at(11))
    assert [(job.id, job.since, job.why, job.cause) for job in kept] == [("", NOW, FULL, "cap")] * 2
    after = Waits(_with(stored, kept, JobCounts(3, 1), heard_at=at(30)))
    assert [job.since for job in after.shown(at(40))] == [NOW, NOW]


def test_jobs_that_were_counted_and_not_yet_written_down_wait_since_the_last_count() -> None:
    stored = _with(held(), (a_waiting_job(since=NOW),), JobCounts(5, 1), heard_at=at(30))
    assert [job.since for job in Waits(stored).shown(at(60))] == [NOW, *[at(30)] * 3]
    assert len(Waits(_with(stored, (), JobCounts(5, 1), heard_at=at(30), phantom=4)).shown(at(60))) == 0


def test_while_the_count_is_not_known_no_wait_is_forgotten() -> None:
    waits = Waits(held())
    waits.note((), 2, said(FULL), NOW)
    waits.note((), None, said("GitHub does not answer"), at(30))
    assert [job.why for job in waits.shown(at(30))] == ["GitHub does not answer"] * 2


def test_of_unnamed_jobs_those_that_waited_longest_get_runners_first() -> None:
    waits = Waits(held())
    waits.note((), 1, said(""), NOW)
    waits.note((), 2, said(""), at(20))
    waits.note((), 1, said(""), at(40))
    assert [job.since for job in waits.shown(at(60))] == [at(20)]


def test_a_job_that_a_message_names_is_not_counted_twice() -> None:
    waits = Waits(held())
    waits.note((a_waiting_job(since=NOW),), 1, said(""), NOW)
    assert [job.id for job in waits.shown(at(60))] == ["job-1"]


def test_a_late_job_is_reported_once_with_the_reason() -> None:
    waits, job = Waits(held()), a_waiting_job(since=NOW, repository=REPOSITORY, run="7", name="build")
    assert waits.note((job,), 1, said(FULL), at(LATE_AFTER - 1)) == []
    alarm = WaitAlarm(f"job 'build' of {REPOSITORY}, run 7 has waited for 60 s: {FULL}")
    assert waits.note((job,), 1, said(FULL), at(LATE_AFTER)) == [alarm]
    assert waits.note((job,), 1, said(FULL), at(LATE_AFTER + 1)) == []


@pytest.mark.parametrize(("count", "jobs"), [(1, "1 job"), (3, "3 jobs")])
def test_late_jobs_that_only_the_count_shows_are_reported_by_their_number(count: int, jobs: str) -> None:
    waits = Waits(held())
    waits.note((), count, said(FULL), NOW)
    alarm = WaitAlarm(f"GitHub counts {jobs} that no message named and that waited for 60 s: {FULL}")
    assert waits.note((), count, said(FULL), at(LATE_AFTER)) == [alarm]


def _with(stored: SetSession, waiting: tuple[WaitingJob, ...], statistics: JobCounts, **changed: Any) -> SetSession:
    return replace(stored, waiting=waiting, statistics=statistics, **changed)


# ---- what messages say


def entry(kind: JobMessageKind, id: str, **fields: Any) -> JobMessage:
    return JobMessage(
        kind, job_id=id, **{"repository": REPOSITORY, "workflow_run": 7, "name": "build", "runner": "", **fields}
    )


def taken_back(id: str, after: float = LAPSE) -> JobMessage:
    return entry(COMPLETED, id, result="canceled", assigned_at=NOW, finished_at=at(after))


def a_board(*waiting: WaitingJob) -> JobBoard:
    return JobBoard(_with(held(), waiting, JobCounts()), lambda runner: "i-1")


def test_a_job_whose_start_was_not_heard_stops_waiting_with_the_next_count() -> None:
    board = a_board()
    board.hear(entry(ASSIGNED, "a"), NOW, 0.0)
    board.hear(entry(ASSIGNED, "b"), at(1), 1.0)
    board.settle(running=0, assigned=2)
    board.settle(running=1, assigned=2)
    assert [job.id for job in board.waiting(at(2))] == ["b"]
    board.settle(running=2, assigned=2)
    assert board.waiting(at(3)) == ()


def test_a_job_that_is_announced_beside_a_count_without_it_waits() -> None:
    board = a_board()
    board.hear(entry(ASSIGNED, "a"), NOW, 0.0)
    board.settle(running=0, assigned=0)
    assert [job.id for job in board.waiting(NOW)] == ["a"]


def test_a_job_that_is_assigned_again_waits_since_its_first_assignment() -> None:
    board = a_board()
    board.hear(entry(ASSIGNED, "a"), NOW, 0.0)
    board.hear(taken_back("a"), at(300), 300.0)
    (back,) = board.waiting(at(300))
    assert (back.lapses, back.taken_back_at) == (1, at(300))
    board.hear(entry(ASSIGNED, "b"), at(301), 301.0)
    (job,) = board.waiting(at(301))
    assert (job.id, job.since, job.lapses, job.taken_back_at) == ("b", NOW, 1, None)


def test_a_job_that_is_assigned_after_its_last_lapse_was_run_again_and_waits_since_then() -> None:
    board = a_board()
    for n in range(LAPSES):
        board.hear(entry(ASSIGNED, f"a{n}"), at(n * LAPSE), n * LAPSE)
        board.hear(taken_back(f"a{n}"), at((n + 1) * LAPSE), (n + 1) * LAPSE)
    again = (LAPSES + 1) * LAPSE
    board.hear(entry(ASSIGNED, "b"), at(again), again)
    (job,) = board.waiting(at(again))
    assert (job.id, job.since, job.lapses, job.taken_back_at) == ("b", at(again), 0, None)


def test_the_lapses_of_a_job_that_was_run_again_are_counted_and_reported_from_the_first() -> None:
    board, waits, alarms = a_board(), Waits(held()), list[WaitAlarm]()
    for n in range(LAPSES + 1):
        board.hear(entry(ASSIGNED, f"a{n}"), at(n * LAPSE), n * LAPSE)
        waits.note(board.waiting(at(n * LAPSE)), 1, said(FULL), at(n * LAPSE))
        board.hear(taken_back(f"a{n}"), at((n + 1) * LAPSE), (n + 1) * LAPSE)
        alarms = waits.note(board.waiting(at((n + 1) * LAPSE)), 0, said(""), at((n + 1) * LAPSE))
    assert [(alarm.is_final, f"1 of {LAPSES} times" in alarm.what) for alarm in alarms] == [(False, True)]


def test_a_message_that_comes_twice_is_one_lapse() -> None:
    board = a_board()
    board.hear(entry(ASSIGNED, "a"), NOW, 0.0)
    board.hear(taken_back("a"), at(300), 300.0)
    board.hear(taken_back("a"), at(310), 310.0)
    assert [job.lapses for job in board.waiting(at(310))] == [1]


def test_a_lapse_counts_although_its_assignment_was_not_heard() -> None:
    board = a_board()
    board.hear(taken_back("a"), at(300), 300.0)
    board.hear(taken_back("b"), at(600), 600.0)
    (job,) = board.waiting(at(600))
    assert (job.since, job.lapses) == (NOW, 2)


def test_a_job_that_its_user_cancelled_does_not_wait() -> None:
    board = a_board()
    board.hear(entry(ASSIGNED, "a"), NOW, 0.0)
    board.hear(taken_back("a", after=100.0), at(100), 100.0)
    assert board.waiting(at(100)) == ()


@pytest.mark.parametrize("kind", [STARTED, COMPLETED])
def test_the_lapses_of_a_job_end_when_it_starts(kind: JobMessageKind) -> None:
    """A re-run of it has the same run and name, and none of its lapses."""
    board = a_board()
    for id in ("a", "b", "c"):
        board.hear(entry(ASSIGNED, id), NOW, 0.0)
        board.hear(taken_back(id), at(300), 300.0)
    board.hear(entry(kind, "d", runner="pool.i-1.0.1"), at(400), 400.0)
    assert board.waiting(at(400)) == ()
    board.hear(entry(ASSIGNED, "e"), at(500), 500.0)
    board.hear(taken_back("e"), at(800), 800.0)
    assert [job.lapses for job in board.waiting(at(800))] == [1]


def test_a_job_that_was_taken_back_is_forgotten_after_a_day() -> None:
    board = a_board()
    board.hear(taken_back("a"), NOW, 0.0)
    assert board.waiting(at(FORGOTTEN - 1))
    assert board.waiting(at(FORGOTTEN)) == ()


def test_of_a_great_many_jobs_that_were_taken_back_some_are_kept() -> None:
    board = a_board()
    for n in range(MOST_WAITING + 5):
        board.hear(replace(taken_back(f"j-{n}"), name=f"build {n}"), NOW, 0.0)
    assert len(board.waiting(NOW)) == MOST_WAITING


def test_a_job_that_is_assigned_displaces_the_one_that_was_taken_back_first() -> None:
    board = a_board()
    for n in range(MOST_WAITING):
        board.hear(replace(taken_back(f"j-{n}"), name=f"build {n}"), at(n), 0.0)
    board.hear(entry(ASSIGNED, "new", name="new"), at(MOST_WAITING), 0.0)
    ids = [job.id for job in board.waiting(at(MOST_WAITING))]
    assert len(ids) == MOST_WAITING
    assert "new" in ids
    assert "j-0" not in ids


def test_of_a_great_many_jobs_that_are_assigned_none_displaces_another() -> None:
    board = a_board()
    for n in range(MOST_WAITING + 5):
        board.hear(entry(ASSIGNED, f"j-{n}", name=f"build {n}"), at(n), 0.0)
    assert [job.id for job in board.waiting(NOW)] == [f"j-{n}" for n in range(MOST_WAITING)]


def test_the_count_forgets_no_job_that_was_taken_back() -> None:
    board = a_board()
    board.hear(taken_back("a"), NOW, 0.0)
    board.settle(running=0, assigned=0)
    assert len(board.waiting(NOW)) == 1


# ---- jobs that GitHub takes back


@pytest.mark.slow
async def test_a_job_that_is_taken_back_three_times_is_an_error_and_stays_visible_until_it_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_set_world(capacity=0) as world:
        serve(world)
        run = push(world, lasts=30.0)
        pushed = world.clock.now()
        await asyncio.sleep(3 * LAPSE + 30)
        lines = [(one.levelno, one.getMessage()) for one in caplog.records if "took it back" in one.getMessage()]
        assert [level for level, _ in lines] == [logging.WARNING, logging.WARNING, logging.ERROR]
        assert "3 times and does not announce it again" in lines[-1][1]
        one = await view(world)
        assert one.jobs is not None
        assert (one.jobs.assigned, one.waiting) == (0, 1)
        assert one.waits_since is not None
        assert one.waits_since - pushed < timedelta(seconds=5)
        assert one.why.startswith("GitHub took it back 3 times and does not announce it again: ")
        assert UNKNOWN not in one.why
        await asyncio.sleep(3600)
        assert (await view(world)).why == one.why
        world.memory.yard.capacity = 10
        await until_done(world, run, push(world, lasts=30.0))
        await asyncio.sleep(5)
        assert ((await view(world)).waiting, (await view(world)).why) == (0, "")


@pytest.mark.slow
async def test_a_new_holder_knows_how_often_a_job_was_taken_back(caplog: pytest.LogCaptureFixture) -> None:
    async with a_set_world(capacity=0) as world:
        first = serve(world)
        push(world)
        await asyncio.sleep(2 * LAPSE + 30)
        first.kill()
        serve(world, "web-2")
        await asyncio.sleep(30)
        caplog.clear()
        await asyncio.sleep(LAPSE)
        lines = [(one.levelno, one.getMessage()) for one in caplog.records if "took it back" in one.getMessage()]
        assert [level for level, _ in lines] == [logging.ERROR]
        assert session(world).waiting[0].lapses == 3


@pytest.mark.slow
async def test_a_job_that_was_taken_back_waits_no_more_once_its_run_has_ended() -> None:
    async with a_set_world(capacity=0) as world:
        serve(world)
        run = push(world)
        await asyncio.sleep(3 * LAPSE + 30)
        assert (await view(world)).waiting == 1
        hub_of(world).cancel(hub_of(world).runs[run])
        await asyncio.sleep(LAPSE + 30)
        assert (await view(world)).waiting == 0


async def test_of_jobs_that_were_taken_back_a_hundred_runs_that_have_ended_are_forgotten_within_20_minutes() -> None:
    async with a_set_world() as world:
        backs = [a_waiting_job(f"j-{n}", run=str(n + 1), lapses=3, taken_back_at=NOW) for n in range(100)]
        board = a_board(*backs)
        task = asyncio.create_task(LapsedRuns(world.ports(), board).run())  # GitHub does not have these runs any more
        await asyncio.sleep(1201)
        task.cancel()
        assert board.lapsed_runs() == []


def test_the_record_has_jobs_that_wait_before_those_that_were_taken_back() -> None:
    backs = [a_waiting_job(f"j-{n}", since=NOW, name=f"b {n}", lapses=3, taken_back_at=NOW) for n in range(60)]
    waits = Waits(held())
    waits.note((*backs, a_waiting_job("new", since=at(300))), 1, said(FULL), at(330))
    shown = fitting_waiting(waits.shown(at(330)))
    assert (shown[0].id, shown[0].why, len(shown)) == ("new", FULL, WAITING_LIMIT)


def test_a_job_that_is_assigned_again_says_how_often_it_was_taken_back() -> None:
    waits, job = Waits(held()), a_waiting_job(since=NOW, lapses=2)
    waits.note((job,), 1, said(FULL), at(30))
    assert [one.why for one in waits.shown(at(30))] == [f"{FULL}; GitHub took it back 2 of 3 times"]


def test_the_reason_of_a_lapse_stays_with_the_job() -> None:
    waits = Waits(held())
    waits.note((a_waiting_job(since=NOW),), 1, said(FULL), at(30))
    back = a_waiting_job(since=NOW, lapses=3, taken_back_at=at(300))
    (alarm,) = waits.note((back,), 0, said("a runner is registered, and GitHub has not given it the job"), at(300))
    assert alarm.is_final
    (shown,) = waits.shown(at(300))
    assert shown.why == f"GitHub took it back 3 times and does not announce it again: {FULL}"
    again = Waits(_with(held(), (shown,), JobCounts()))
    assert again.note((back,), 0, said(""), at(400)) == []
    assert again.shown(at(400)) == (shown,)
