"""What a member of a set does, by its record and by what its living agent reports."""

import asyncio
from typing import Any

from bullpen.model.activity import Activity, Listening
from bullpen.model.signal import Heartbeat
from bullpen.ports import Ports
from bullpen.scale_sets.members import REPORTED, TOLD, MemberState, MemberWatch
from bullpen.scale_sets.supply import SupplyMemory, plan
from fixtures import a_world
from scale_sets.fixtures import settings_of
from set_builders import NAME, engaged, recall, retiring

JOB = Activity("octo/repo", "99", 1, f"set:{NAME}", "pool.i-1.0a1b2c3d.1", "build")


class Stage:
    """One member, and an agent that says what the test lets it say."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._seq = 0
        self.watch = MemberWatch(ports, settings_of(), f"set:{NAME}")

    async def set_up(self) -> None:
        for change in engaged("i-1"):
            await self._ports.records.apply(change)
        (self.record,) = (await self._ports.records.instances(["i-1"])).values()
        self.listening = self.runner(1)

    def runner(self, number: int) -> str:
        """What the agent says while its runner of this number listens."""
        return Listening(f"pool.i-1.{self.record.round[:8]}.{number}", 7, "d1").text()

    async def recall(self) -> None:
        (self.record,) = await self._ports.records.apply(recall(self.record, round="feedface" * 2))

    async def says(self, text: str = "") -> MemberState:
        self._seq += 1
        await self._ports.signals.beat(Heartbeat("i-1", self._ports.clock.now(), self._seq, text))
        return await self.state()

    async def state(self) -> MemberState:
        (member,) = await self.watch.read()
        return member.state


async def test_a_member_is_idle_while_its_agent_listens_and_busy_while_it_reports_a_job() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        assert await stage.says() is MemberState.STARTING
        assert await stage.says(stage.listening) is MemberState.IDLE
        assert await stage.says(JOB.text()) is MemberState.BUSY
        assert await stage.says() is MemberState.CLEANING
        assert await stage.says(stage.listening) is MemberState.IDLE


async def test_a_member_that_stopped_listening_has_got_a_job_until_it_says_otherwise() -> None:
    """Its agent admits the job before it reports it. Counted as neither idle nor busy, it would be replaced."""
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        await stage.says(stage.listening)
        assert await stage.says() is MemberState.BUSY
        await asyncio.sleep(REPORTED)
        assert await stage.says() is MemberState.CLEANING


async def test_the_next_holder_releases_no_member_whose_job_has_just_begun() -> None:
    """Only the process that saw its runner listen knows that it has got a job."""
    async with a_world(settings=settings_of()) as world:
        ports = world.ports()
        stage = Stage(ports)
        await stage.set_up()
        await stage.says(stage.listening)
        await stage.says()
        stage.watch = MemberWatch(ports, settings_of(), f"set:{NAME}")

        async def released() -> tuple[str, ...]:
            members, time = await stage.watch.read(), asyncio.get_running_loop().time()
            given: dict[str, Any] = {
                "needs": None,
                "claiming": 0,
                "linger": 60.0,
                "time": time,
                "now": ports.clock.now(),
            }
            return plan(retiring()[-1].after, None, members, SupplyMemory(), **given).release

        assert await released() == ()
        await asyncio.sleep(REPORTED - 1)
        assert await released() == ()
        await stage.says(JOB.text())
        await asyncio.sleep(REPORTED)
        assert await released() == ()
        await stage.says()
        await asyncio.sleep(REPORTED)
        assert await released() == ("i-1",)


async def test_a_member_whose_agent_is_silent_is_not_idle() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        assert await stage.says(stage.listening) is MemberState.IDLE
        await asyncio.sleep(world.settings.timings.alive + REPORTED + 1)
        await stage.state()
        await asyncio.sleep(REPORTED)
        assert await stage.state() is MemberState.CLEANING


async def test_a_member_that_never_registers_stops_counting_as_one_that_starts() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        assert await stage.says() is MemberState.STARTING
        await asyncio.sleep(world.settings.timings.registration)
        assert await stage.says() is MemberState.CLEANING


async def test_a_runner_that_another_one_replaces_without_a_job_has_ended_idle() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        for said in (stage.runner(1), "", stage.runner(2), stage.runner(2)):
            await stage.says(said)
        assert stage.watch.take_idle_ends(()) == []  # the CI may still say that it had a job
        await asyncio.sleep(TOLD)
        assert stage.watch.take_idle_ends(()) == [f"pool.i-1.{stage.record.round[:8]}.1"]
        assert stage.watch.take_idle_ends(()) == []


async def test_a_runner_that_had_a_job_has_not_ended_idle() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        for said in (stage.runner(1), JOB.text(), "", stage.runner(2)):
            await stage.says(said)
        await asyncio.sleep(TOLD)
        assert stage.watch.take_idle_ends(()) == []


async def test_a_runner_that_had_a_job_by_the_word_of_the_ci_has_not_ended_idle() -> None:
    """Its job was so short that no heartbeat with it was read."""
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        await stage.says(stage.runner(1))
        assert stage.watch.take_idle_ends({f"pool.i-1.{stage.record.round[:8]}.1"}) == []
        await stage.says(stage.runner(1))
        await stage.says(stage.runner(2))
        await asyncio.sleep(TOLD)
        assert stage.watch.take_idle_ends(()) == []


async def test_a_runner_whose_job_the_ci_reports_after_its_end_has_not_ended_idle() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        for said in (stage.runner(1), stage.runner(2)):
            await stage.says(said)
        assert stage.watch.take_idle_ends({f"pool.i-1.{stage.record.round[:8]}.1"}) == []
        await asyncio.sleep(TOLD)
        assert stage.watch.take_idle_ends(()) == []


async def test_a_runner_that_was_recalled_has_not_ended_idle() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world.ports())
        await stage.set_up()
        await stage.says(stage.runner(1))
        await stage.recall()
        await stage.says(stage.runner(2))
        await asyncio.sleep(TOLD)
        assert stage.watch.take_idle_ends(()) == []
