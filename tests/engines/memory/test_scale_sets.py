"""What can go wrong with scale sets in the simulator, that it goes wrong as described, and that it repeats."""

import asyncio
from typing import Any

import pytest

from bullpen.engines.memory import Failure, Faults, Memory, MemoryGithub, SetTroubles
from bullpen.engines.memory.github import LEASE, JobSpec
from bullpen.engines.memory.set_service import FORGOTTEN, HOLD, SILENCE
from bullpen.errors import BullpenError, Conflict, SessionGone, Unavailable, UnreadableMessage
from bullpen.model.activity import Activity
from bullpen.ports import (
    Conclusion,
    JobMessageKind,
    MessageSession,
    Ports,
    Removal,
    ScaleSets,
    ScaleSetSpec,
    SetMessage,
    SetStatistics,
)
from bullpen.sim.loop import VirtualLoop, virtual_run
from bullpen.sim.process import Process

ALWAYS = 1.0
CALM = SetTroubles()
WIDGETS = "acme/widgets"
COMPLETED = JobMessageKind.COMPLETED


class SetScene:
    """A set named medium, and its session."""

    def __init__(self, troubles: SetTroubles = CALM, seed: int = 0, faults: Faults | None = None) -> None:
        self.memory = Memory(github=True, seed=seed)
        assert self.memory.hub is not None
        self.hub: MemoryGithub = self.memory.hub
        self.hub.sets.troubles = troubles
        self.ports: Ports = self.memory.ports(faults=faults)
        self.sets: ScaleSets = self.ports.scale_sets
        self.set_id = 0
        self.session: Any = None
        self.last = 0

    async def open(self) -> MessageSession:
        if not self.set_id:
            self.set_id = (await self.sets.create(ScaleSetSpec("medium"))).id
        self.session = await self.sets.open(self.set_id, "me")
        return self.session  # type: ignore[no-any-return]

    def queue(self, name: str = "build", lasts: float = 10.0) -> str:
        return self.hub.start(WIDGETS, JobSpec(name, "medium", lasts))

    async def poll(self, capacity: int = 10) -> SetMessage | None:
        message = await self.sets.poll(self.session, self.last, capacity)
        if message is not None:
            await self.sets.acknowledge(self.session, message.id)
            self.last = message.id
        return message

    async def kinds(self) -> list[JobMessageKind]:
        message = await self.poll()
        return [one.kind for one in message.jobs] if message is not None else []

    async def connect(self, runner: str = "bullpen.i-1.aaaa") -> int:
        made = await self.sets.configure(self.set_id, runner, "_work")
        assert self.hub.set_runners.connect(made.encoded)
        return made.runner.id


async def a_scene(troubles: SetTroubles = CALM, **more: Any) -> SetScene:
    scene = SetScene(troubles, **more)
    await scene.open()
    return scene


async def test_a_runner_of_a_set_serves_one_job_and_its_agent_hears_of_it() -> None:
    scene = await a_scene()
    worked: list[tuple[str, Activity | None]] = []
    scene.hub.on_work = lambda name, activity: worked.append((name, activity))
    run = scene.queue()
    await scene.connect()
    (listed,) = await scene.ports.ci.registrations()
    assert (listed.name, listed.label, listed.busy, listed.handle) == ("i-1", "", True, "bullpen.i-1.aaaa")
    await asyncio.sleep(11)
    assert await scene.ports.ci.registrations() == []
    assert (await scene.ports.workflows.run(WIDGETS, run)).conclusion == "success"
    doing = Activity(WIDGETS, run, 1, "set:medium", "bullpen.i-1.aaaa", "build")
    assert worked == [("i-1", doing), ("i-1", None)]


async def test_an_idle_runner_gets_the_oldest_job() -> None:
    scene = await a_scene()
    first, second = scene.queue("first", lasts=5), scene.queue("second", lasts=5)
    for n in range(2):
        await scene.connect(f"bullpen.i-{n}.aaaa")
        ran = [(await scene.ports.workflows.jobs(WIDGETS, run, 1))[0].runner for run in (first, second)]
        assert ran == ["bullpen.i-0.aaaa", "bullpen.i-1.aaaa" if n else ""]


async def test_an_entry_is_lost_and_the_statistics_know_the_job() -> None:
    scene = await a_scene(SetTroubles(lost=ALWAYS))
    scene.queue()
    assert await scene.poll() is None
    assert (await scene.sets.renew(scene.session)).statistics == SetStatistics(1, 0, acquired=1)


async def test_an_entry_comes_late_and_ends_a_poll_that_waits() -> None:
    scene = await a_scene(SetTroubles(late=ALWAYS, late_by=(30.0, 30.0)))
    scene.queue()
    began = asyncio.get_running_loop().time()
    assert await scene.kinds() == [JobMessageKind.ASSIGNED]
    assert asyncio.get_running_loop().time() - began == pytest.approx(30)


async def test_an_acknowledged_message_comes_once_more() -> None:
    scene = await a_scene(SetTroubles(doubled=ALWAYS))
    scene.queue()
    first = await scene.poll()
    assert first is not None
    assert await scene.sets.poll(scene.session, first.id, 10) == first
    assert await scene.sets.poll(scene.session, first.id, 10) is None


async def test_a_message_is_unreadable_each_time_that_it_comes() -> None:
    scene = await a_scene(SetTroubles(unreadable=ALWAYS))
    scene.queue()
    for _ in range(3):
        with pytest.raises(UnreadableMessage):
            await scene.poll()
    await scene.sets.acknowledge(scene.session, 1)
    scene.hub.sets.troubles = SetTroubles()
    scene.queue()
    assert await scene.kinds() == [JobMessageKind.ASSIGNED]


async def test_statistics_say_0_beside_a_job_that_is_assigned() -> None:
    scene = await a_scene(SetTroubles(unassigned=ALWAYS))
    scene.queue()
    message = await scene.poll()
    assert message is not None
    assert [one.kind for one in message.jobs] == [JobMessageKind.ASSIGNED]
    assert message.statistics is not None
    assert message.statistics.assigned == 0


async def test_statistics_lag_and_count_phantoms() -> None:
    scene = await a_scene(SetTroubles(statistics_lag=30.0))
    await scene.poll()
    scene.queue()
    for waited, assigned in ((0.0, 0), (31.0, 1)):
        await asyncio.sleep(waited)
        found = await scene.sets.find(scene.set_id)
        assert found is not None
        assert found.statistics is not None
        assert found.statistics.assigned == assigned
    scene.hub.sets.of(scene.set_id).phantoms = 5
    await asyncio.sleep(31)
    scene.hub.sets.troubles = SetTroubles()
    found = await scene.sets.find(scene.set_id)
    assert found is not None
    assert found.statistics is not None
    assert found.statistics.assigned == 6


async def test_a_job_that_runs_is_told_to_have_completed() -> None:
    scene = await a_scene(SetTroubles(false_end=ALWAYS))
    scene.queue(lasts=1000)
    await scene.connect()
    assert await scene.kinds() == [JobMessageKind.STARTED, COMPLETED]
    assert (await scene.sets.renew(scene.session)).statistics == SetStatistics(1, 1, 0, 1, 1, 1, 0)


async def test_a_poll_finds_its_session_ended_or_is_answered_with_nothing() -> None:
    scene = await a_scene(SetTroubles(dropped=ALWAYS))
    with pytest.raises(SessionGone):
        await scene.poll()
    scene.hub.sets.troubles = SetTroubles(empty=ALWAYS)
    await scene.open()
    began = asyncio.get_running_loop().time()
    assert await scene.poll() is None
    assert asyncio.get_running_loop().time() == began


async def test_a_job_queued_without_a_listener_is_not_announced() -> None:
    scene = await a_scene(SetTroubles(unannounced=ALWAYS))
    await scene.sets.close(scene.set_id, scene.session.id)
    scene.queue()
    await scene.open()
    assert await scene.poll() is None
    await scene.connect()
    assert await scene.kinds() == [JobMessageKind.STARTED]


async def test_a_rerun_is_announced_only_to_a_set_with_a_runner() -> None:
    scene = await a_scene()
    for runners, announced in ((0, []), (1, [JobMessageKind.ASSIGNED])):
        run = scene.hub.of(WIDGETS, scene.queue())
        await scene.kinds()
        scene.hub.cancel(run)
        assert await scene.kinds() == [COMPLETED]
        for _ in range(runners):
            await scene.sets.configure(scene.set_id, "r-1", "_work")
        scene.hub.rerun(run, ("build",))
        assert await scene.kinds() == announced


async def test_github_drops_an_idle_runner_and_it_ends_by_itself() -> None:
    scene = await a_scene(SetTroubles(idle_end=ALWAYS, idle_for=(120.0, 120.0)))
    dropped: list[str] = []
    scene.hub.set_runners.on_drop = dropped.append
    id = await scene.connect()
    await asyncio.sleep(119)
    assert dropped == []
    await asyncio.sleep(2)
    assert dropped == ["bullpen.i-1.aaaa"]
    assert await scene.sets.runner(id) is None


async def test_a_ghost_is_not_registered_and_its_job_waits_for_another() -> None:
    scene = await a_scene(SetTroubles(ghost=ALWAYS))
    id = await scene.connect()
    run = scene.queue()
    assert await scene.sets.runner(id) is None
    assert (await scene.ports.workflows.jobs(WIDGETS, run, 1))[0].waits
    scene.hub.sets.troubles = SetTroubles()
    await scene.connect("bullpen.i-2.aaaa")
    assert not (await scene.ports.workflows.jobs(WIDGETS, run, 1))[0].waits


async def test_a_dead_runners_job_fails_also_if_its_registration_is_gone() -> None:
    scene = await a_scene(SetTroubles(busy_known_after=60.0))
    run = scene.queue(lasts=2000)
    id = await scene.connect()
    assert await scene.sets.remove_runner(id) is Removal.REMOVED
    scene.hub.lose("i-1")
    await asyncio.sleep(LEASE + 1)
    assert (await scene.ports.workflows.run(WIDGETS, run)).conclusion == Conclusion.FAILURE


async def test_a_runner_that_the_ci_removes_is_gone_from_its_set() -> None:
    scene = await a_scene()
    id = await scene.connect()
    assert await scene.ports.ci.remove("i-1") is Removal.REMOVED
    assert await scene.sets.runner(id) is None
    assert (await scene.sets.renew(scene.session)).statistics == SetStatistics(0, 0)


def test_a_set_without_a_listener_is_forgotten_with_its_idle_runners() -> None:
    async def a_week() -> None:
        scene = await a_scene()
        await scene.connect()
        await asyncio.sleep(FORGOTTEN + SILENCE + 1)
        assert await scene.sets.find(scene.set_id) is None
        assert await scene.ports.ci.registrations() == []

    virtual_run(a_week(), timeout=None)


async def test_a_lost_answer_of_a_held_poll_costs_no_message() -> None:
    faults = Faults()
    scene = await a_scene(faults=faults)
    scene.queue()
    faults.fail_next("scale_sets.poll", Failure.LOST_ANSWER)
    with pytest.raises(Unavailable):
        await scene.poll()
    assert await scene.kinds() == [JobMessageKind.ASSIGNED]


async def test_the_session_of_a_process_killed_in_a_poll_ends_soon_after() -> None:
    scene = await a_scene()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    holder = Process("holder")
    loop.spawn(holder, scene.poll())
    await asyncio.sleep(1)
    holder.kill()
    with pytest.raises(Conflict):
        await scene.open()
    await asyncio.sleep(HOLD + 15)
    await scene.open()


TROUBLES = SetTroubles(
    lost=0.1,
    late=0.2,
    doubled=0.2,
    unreadable_entry=0.1,
    unreadable_body=0.1,
    unassigned=0.1,
    dropped=0.1,
    empty=0.1,
    idle_end=0.3,
    ghost=0.1,
    false_end=0.1,
)


async def history(seed: int) -> list[object]:
    """What a naive listener hears of fifty jobs, and how they end."""
    scene, heard = await a_scene(TROUBLES, seed=seed), list[object]()
    for n in range(50):
        scene.queue(f"job-{n}", lasts=20.0 + n)
    for n in range(300):
        if all(run.completed for run in scene.hub.runs.values()):
            return heard
        try:
            heard.append(await scene.poll(20))
        except BullpenError as exc:
            heard.append(repr(exc))
            await scene.open()
        await scene.connect(f"bullpen.i-{n}.aaaa")
    raise AssertionError("not all jobs have completed")


def test_a_seed_gives_one_history_and_another_seed_another() -> None:
    first, again, other = (virtual_run(history(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
