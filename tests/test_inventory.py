"""Read-only questions: everything that lives is listed once, and every pool with what it really offers."""

import asyncio
from datetime import timedelta

import pytest

from builders import a_signal, claimed, messages, on_offer, open_provision, running, see_repository, terminated
from bullpen import inventory, jobs
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.errors import NotFound
from bullpen.model import worker
from bullpen.model.instance import Instance
from bullpen.model.signal import DIRECT_LEASE, Heartbeat, Kind, direct_key
from bullpen.model.transition import Change
from bullpen.pool import live_instances
from bullpen.ports import Ports


async def holding(*walks: list[Change[Instance]]) -> Ports:
    """A pool with these instances; provisions they name are opened first."""
    ports = Memory().ports()
    await ports.records.apply(open_provision())
    for walk in walks:
        for change in walk:
            await ports.records.apply(change)
    return ports


async def test_the_status_lists_what_lives_and_what_is_still_to_be_ended() -> None:
    ports = await holding(on_offer("i-1"), running("i-2"), terminated("i-3"))
    found = await inventory.status(ports, Settings())
    assert [(s.instance.id, s.instance.state) for s in found.instances] == [
        ("i-1", "idle"),
        ("i-2", "running"),
        ("i-3", "terminated"),
    ]


async def test_the_status_goes_on_after_the_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_instances, "LIVE_PAGE", 2)
    ports = await holding(*(on_offer(f"i-{number}") for number in range(5)))
    assert len((await inventory.status(ports, Settings())).instances) == 5


async def test_a_pool_counts_its_tickets_and_what_could_be_claimed() -> None:
    ports = await holding(on_offer("i-1"), on_offer("i-2"), claimed("i-3"))
    await ports.queue.send("small", messages(["a ticket"]))
    pools = {pool.resource_class: pool for pool in (await inventory.status(ports, Settings())).pools}
    assert pools["small"] == inventory.Pool("small", tickets=1, claimable=2)
    assert pools["large"] == inventory.Pool("large", tickets=0, claimable=0)


async def test_an_instance_past_its_threshold_is_not_claimable() -> None:
    ports = Memory().ports()
    now = ports.clock.now()
    await ports.records.apply(open_provision())
    for change in on_offer("i-1", threshold=now - timedelta(seconds=1)):
        await ports.records.apply(change)
    assert (await inventory.status(ports, Settings())).pools[0].claimable == 0


async def test_the_queue_of_a_class_that_is_no_longer_configured_is_shown() -> None:
    ports = Memory().ports()
    await ports.queue.ensure("retired")
    assert "retired" in [pool.resource_class for pool in (await inventory.status(ports, Settings())).pools]


async def test_the_status_shows_what_an_agent_last_reported() -> None:
    walk = on_offer("i-1")
    ports = await holding(walk)
    await ports.signals.report(signal := a_signal(walk[-1].after, Kind.OK))
    await ports.signals.beat(beat := Heartbeat("i-1", ports.clock.now(), 1))
    (standing,) = (await inventory.status(ports, Settings())).instances
    assert (standing.pulse.signal, standing.pulse.heartbeat) == (signal, beat)


async def test_a_story_is_told_from_its_first_step() -> None:
    ports = await holding(running("i-1"))
    (story,) = await inventory.stories(ports, Settings(), "i-1")
    assert [line.step for line in story.lines] == ["register", "adopt", "claim", "commit"]


async def test_the_story_of_a_run_is_that_of_its_provisions_and_instances() -> None:
    ports = await holding(running("i-1", "run-1"), on_offer("i-2"))
    assert [story.id for story in await inventory.stories(ports, Settings(), "run-1")] == ["p-1", "i-1"]


async def test_a_record_that_never_was_is_not_found() -> None:
    ports = Memory().ports()
    for subject in ("i-1", "p-1", "run-1"):
        with pytest.raises(NotFound, match=subject):
            await inventory.stories(ports, Settings(), subject)


async def test_the_status_names_workers_that_missed_their_lease_and_what_is_still_bound_to_them() -> None:
    ports = await holding(running("i-1"))
    now = ports.clock.now()
    await ports.signals.beat(Heartbeat("i-1", now - timedelta(seconds=DIRECT_LEASE), 1))
    assert [(s.worker.id, s.jobs) for s in (await inventory.status(ports, Settings())).silent] == [("i-1/direct", ())]
    await ports.signals.beat(Heartbeat("i-1", now, 2))
    assert (await inventory.status(ports, Settings())).silent == ()


async def test_a_worker_that_is_leaving_is_shown_with_its_instance_and_in_their_stories() -> None:
    ports = await holding(running("i-1"), on_offer("i-2"))
    await ports.signals.beat(Heartbeat("i-1", now := ports.clock.now(), 1))
    key, at = direct_key("i-1"), now + timedelta(seconds=120)
    known = (await ports.workers.workers([key]))[key]
    beat = worker.Beat(at=now, by=key, token=known.token, lease=60.0, leaving=at)
    await ports.records.apply(worker.heartbeat(known, beat))
    found = (await inventory.status(ports, Settings())).instances
    assert {one.instance.id: one.leaving for one in found} == {"i-1": at, "i-2": None}
    for subject, leaving in (("i-1", at), (key, at), ("i-2", None)):
        (story,) = await inventory.stories(ports, Settings(), subject)
        assert story.leaving == leaving


async def test_jobs_and_workers_have_stories_too() -> None:
    ports = await holding(running("i-1"))
    await ports.signals.beat(Heartbeat("i-1", ports.clock.now(), 1))
    (job,) = await jobs.submit(ports, [jobs.JobRequest("run-1", ("true",))], by="test")
    for subject, step in ((job.id, "submit"), ("i-1/direct", "register")):
        (story,) = await inventory.stories(ports, Settings(), subject)
        assert [line.step for line in story.lines] == [step]
    assert job.id in [story.id for story in await inventory.stories(ports, Settings(), "run-1")]


async def test_the_workers_of_other_programs_have_stories_too() -> None:
    ports = Memory().ports()
    await ports.workers.beat([("build-7", a_first_beat(ports))])
    (story,) = await inventory.stories(ports, Settings(), "build-7")
    assert isinstance(story.record, worker.Worker)
    assert [line.step for line in story.lines] == ["register"]


async def test_a_worker_that_is_called_as_a_run_hides_nothing_of_the_run() -> None:
    ports = await holding(running("i-1", "build-7"))
    await ports.workers.beat([("build-7", a_first_beat(ports))])
    assert {story.id for story in await inventory.stories(ports, Settings(), "build-7")} == {"build-7", "i-1"}


async def test_a_roster_of_one_state_goes_on_where_its_page_ended() -> None:
    ports = Memory().ports()
    for number in range(6):
        await ports.workers.beat([(f"w-{number}", a_first_beat(ports, lease=60.0 if number % 2 else 0.001))])
    await asyncio.sleep(1)
    seen: list[str] = []
    after = ""
    while True:
        page = await inventory.roster(ports, 1, after, "suspect")
        seen += [one.worker.id for one in page.workers]
        if not (after := page.next):
            break
    assert seen == ["w-0", "w-2", "w-4"]


async def test_a_roster_looks_at_a_bounded_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "ROSTER_PAGE", 2)
    ports = Memory().ports()
    for number in range(3):
        await ports.workers.beat([(f"w-{number}", a_first_beat(ports))])
    assert await inventory.roster(ports, 1, "", "inactive") == inventory.Roster((), "w-1")
    assert await inventory.roster(ports, 1, "w-1", "inactive") == inventory.Roster(())


def a_first_beat(ports: Ports, lease: float = 60.0) -> worker.Beat:
    return worker.Beat(at=ports.clock.now(), by="a test", token=0, lease=lease)


@pytest.mark.parametrize("subject", ["acme/web", "ACME/Web", "repository:acme/web"])
async def test_the_story_of_a_repository_is_found_by_its_name(subject: str) -> None:
    ports = await holding()
    await ports.records.apply(see_repository())
    (story,) = await inventory.stories(ports, Settings(), subject)
    assert (story.id, [line.step for line in story.lines]) == ("repository:acme/web", ["see"])
