"""What `status` says of scale sets: who listens, how many jobs and runners, what waits and why; and their stories."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import NOW, on_offer, open_provision, running
from bullpen import inventory
from bullpen.cli.status_text import status_text
from bullpen.cli.why_text import story_text
from bullpen.config import ScaleSetSettings, Settings
from bullpen.engines.memory import Memory
from bullpen.inventory import SetView
from bullpen.model import set_session as sessions
from bullpen.model.activity import Activity, Listening
from bullpen.model.scale_set import ABSENT, READY, RETIRING
from bullpen.model.set_session import JobCounts, SetSession
from bullpen.model.signal import Heartbeat
from bullpen.model.ticket import format_time
from bullpen.ports import Ports
from bullpen.schema.status import pool_status_of
from bullpen.schema.story import story_of
from fixtures import on_github
from set_builders import (
    NAME,
    a_waiting_job,
    claimed_for_set,
    engaged,
    mark_missing,
    open_session,
    ready,
    record_failure,
    record_message,
    retire,
    retired,
    take,
    yield_session,
)

JOB = Activity("octo/repo", "4711", 1, "bullpen-medium", "pool.i-1.0", "build")
SETTINGS = on_github()


async def landed(ports: Ports, *changes: Any) -> Any:
    stored = None
    for change in changes:
        (stored,) = await ports.records.apply(change)
    return stored


async def listening(ports: Ports, **news: Any) -> SetSession:
    """A session that web-1 holds since now, with what it heard last."""
    now = ports.clock.now()
    taken = await landed(ports, take(sessions.absent(NAME), "web-1", at=now))
    opened = await landed(ports, open_session(taken, at=now))
    session = await landed(ports, record_message(opened, at=now, **{"statistics": JobCounts(14, 12), **news}))
    assert isinstance(session, SetSession)
    return session


async def view(ports: Ports, settings: Settings = SETTINGS) -> SetView:
    (one,) = (await inventory.status(ports, settings)).sets
    return one


async def a_pool() -> Ports:
    ports = Memory().ports()
    await landed(ports, *ready())
    return ports


async def test_a_set_shows_its_holder_and_githubs_jobs() -> None:
    ports = await a_pool()
    await listening(ports)
    one = await view(ports)
    assert (one.name, one.state, one.holder, one.since) == (NAME, READY, "web-1", ports.clock.now())
    assert (one.jobs, one.min, one.max, one.why) == (JobCounts(14, 12), 1, 20, "")


async def beat(ports: Ports, id: str, activity: str, at: datetime | None = None) -> None:
    await ports.signals.beat(Heartbeat(id, at or ports.clock.now(), 1, activity))


async def test_members_are_counted_by_what_their_agents_report() -> None:
    ports = await a_pool()
    await landed(ports, open_provision(), *running("i-run"), *on_offer("i-offer"))
    for id in ("i-busy", "i-idle", "i-clean", "i-mute"):
        await landed(ports, *engaged(id))
    await landed(ports, *claimed_for_set("i-start"))
    await beat(ports, "i-busy", JOB.text())
    await beat(ports, "i-idle", Listening("pool.i-idle.0", 5, "d1").text())
    await beat(ports, "i-clean", "")
    await beat(ports, "i-mute", Listening("pool.i-mute.0", 6, "d1").text(), ports.clock.now() - timedelta(minutes=5))
    one = await view(ports)
    assert (one.busy, one.idle, one.starting, one.cleaning) == (1, 1, 1, 2)


async def test_the_oldest_wait_is_shown_with_its_reason() -> None:
    ports = await a_pool()
    since = ports.clock.now() - timedelta(seconds=71)
    jobs = (a_waiting_job("j-1", since=since, why="classes.large.max-instances is 3"), a_waiting_job("j-2"))
    await listening(ports, waiting=jobs)
    one = await view(ports)
    assert (one.waiting, one.waits_since, one.why) == (2, since, "classes.large.max-instances is 3")


async def test_a_holder_that_cannot_listen_is_none_and_the_reason_is_shown() -> None:
    ports = await a_pool()
    await landed(ports, record_failure(await listening(ports), at=ports.clock.now()))
    one = await view(ports)
    assert (one.holder, one.jobs, one.why) == ("", None, "another session is open (409)")
    assert one.since == ports.clock.now()


async def test_a_holder_that_does_not_renew_its_session_is_none() -> None:
    ports = await a_pool()
    await listening(ports)
    await asyncio.sleep(2 * SETTINGS.timings.lease)
    assert (await view(ports)).holder == "web-1"
    await asyncio.sleep(1)
    one = await view(ports)
    assert (one.holder, one.jobs, one.why) == ("", None, "web-1 does not renew its session")


async def test_a_free_session_has_no_holder() -> None:
    ports = await a_pool()
    await landed(ports, yield_session(await listening(ports)))
    one = await view(ports)
    assert (one.holder, one.why) == ("", "no process listens to it")


async def test_a_set_that_no_process_ever_listened_to_says_so() -> None:
    assert (await view(await a_pool())).why == "no `bullpen serve` has listened to it yet"


async def test_a_set_that_github_has_lost_says_so() -> None:
    ports = Memory().ports()
    walk = ready()
    await landed(ports, *walk, mark_missing(walk[-1].after))
    await listening(ports)
    assert "does not have it" in (await view(ports)).why


async def test_a_set_that_retires_shows_how_many_runners_are_left() -> None:
    ports = Memory().ports()
    walk = ready()
    await landed(ports, *walk, *engaged("i-1"), retire(walk[-1].after))
    one = await view(ports)
    assert (one.state, one.why) == (RETIRING, "the settings do not have it; 1 of its runners are left")


async def test_a_set_of_the_settings_that_was_not_created_yet_is_shown() -> None:
    of_settings = on_github(scale_sets={"small": ScaleSetSettings("trusted", max=4)})
    one = await view(Memory().ports(), of_settings)
    assert (one.name, one.state, one.min, one.max) == ("bullpen-small", ABSENT, 0, 4)
    assert "not created yet" in one.why


async def test_a_retired_set_is_not_shown() -> None:
    ports = Memory().ports()
    await landed(ports, *retired())
    assert (await inventory.status(ports, SETTINGS)).sets == ()


async def test_the_members_of_a_set_are_no_run() -> None:
    ports = await a_pool()
    await landed(ports, open_provision(), *running("i-run"), *engaged("i-1"))
    status = await inventory.status(ports, SETTINGS)
    assert [one.id for one in status.runs] == ["run-1"]
    (page, more) = (await inventory.runs(ports, 10)).runs, (await inventory.runs(ports, 10)).next
    assert ([one.id for one in page], more) == (["run-1"], "")


# ---- as text


async def test_the_table_of_sets() -> None:
    ports = await a_pool()
    await landed(ports, *ready("bullpen-arm"), *ready("bullpen-large"))
    now = ports.clock.now()
    await listening(ports)
    arm = await landed(ports, take(sessions.absent("bullpen-arm"), at=now - timedelta(minutes=3)))
    await landed(ports, record_failure(arm, at=now - timedelta(seconds=40)))
    shown = status_text(pool_status_of(await inventory.status(ports, SETTINGS)), now)
    (table,) = [part for part in shown.split("\n\n") if part.startswith("SET ")]
    assert [line[:78] for line in table.splitlines()] == [
        "SET             HOLDER     ASSIGNED  RUNNING  IDLE  STARTING  MIN/MAX  OLDEST ",
        "bullpen-arm     none, 40s  ?         ?        0     0         1/20     another",
        "bullpen-large   none       ?         ?        0     0         1/20     no `bul",
        "bullpen-medium  web-1, 0s  14        12       0     0         1/20     –",
    ]
    assert "another session is open (409)" in table


async def test_a_wait_is_shown_with_its_age() -> None:
    ports = await a_pool()
    now = ports.clock.now()
    await listening(ports, waiting=(a_waiting_job(since=now - timedelta(seconds=71), why="the pool is full"),))
    shown = status_text(pool_status_of(await inventory.status(ports, SETTINGS)), now)
    assert "71s: the pool is full" in shown


# ---- stories


async def test_every_job_that_waits_is_in_the_story_of_the_session_with_its_reason() -> None:
    ports = await a_pool()
    back = "GitHub took it back 3 times and does not announce it again: classes.large.max-instances is 3"
    jobs = (
        a_waiting_job("j-1", since=NOW, lapses=3, taken_back_at=NOW, why=back),
        a_waiting_job("", since=NOW, repository="", run="", name="", why="the pool is full"),
    )
    await listening(ports, waiting=jobs)
    _, session = await inventory.stories(ports, SETTINGS, NAME)
    told = story_of(session)
    assert [(one.name, one.lapses, one.why) for one in told.waiting] == [
        ("build", 3, back),
        ("", 0, "the pool is full"),
    ]
    assert story_text(told, 0).splitlines()[-2:] == [
        f"job build of octo/repo, run 99, has waited since {format_time(NOW)}: {back}",
        f"a job that no message named has waited since {format_time(NOW)}: the pool is full",
    ]


@pytest.mark.parametrize("subject", [NAME, f"set:{NAME}", f"session:{NAME}"])
async def test_a_set_and_its_session_tell_their_stories(subject: str) -> None:
    ports = await a_pool()
    await listening(ports)
    told = await inventory.stories(ports, SETTINGS, subject)
    assert [(one.id, [line.step for line in one.lines]) for one in told] == [
        (f"set:{NAME}", ["want", "found"]),
        (f"session:{NAME}", ["take", "open_"]),
    ]
