"""Members of scale sets and the registrations that GitHub lists: what a living agent reports decides which it uses."""

import asyncio

import pytest

from builders import release
from bullpen.engines.memory.ci import MemoryCI
from bullpen.model.activity import Activity, Listening
from bullpen.model.instance import IDLE, RUNNING, TERMINATED, Instance
from bullpen.model.registration_failure import refused, unanswered
from bullpen.model.signal import Heartbeat
from bullpen.pool.live_instances import every_live
from bullpen.ports import Registration, Removal
from bullpen.refresh import Action, registrations
from bullpen.refresh.action import PlanRunner
from bullpen.sim.world import World
from fixtures import a_world
from scale_sets.fixtures import settings_of
from set_builders import NAME, engaged

LOOKS = 61.0  # seconds between two looks of `serve`
LONG = 4  # looks in which a runner must be missing: `timings.orphan` and `timings.cleaning`
USED = "bullpen.i-1.0a1b2c3d.1"
LEFT = "bullpen.i-1.0a1b2c3d.2"


class Stage:
    """One member, an agent that says what the test lets it say, and a list of runners that the test writes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ports = world.ports()
        self._seq = 0
        self.said = ""

    async def set_up(self) -> None:
        for change in engaged("i-1"):
            await self._ports.records.apply(change)

    @property
    def record(self) -> Instance:
        return self._world.memory.tables.instances["i-1"]

    @property
    def listed(self) -> list[str]:
        return list(self._world.memory.registrations)

    def lists(self, runner: str, *, online: bool, busy: bool = False) -> None:
        self._world.memory.registrations[runner] = Registration("i-1", "", busy, runner=runner, online=online)

    def hides(self, runner: str) -> None:
        del self._world.memory.registrations[runner]

    def listens(self, runner: str = USED) -> None:
        self.said = Listening(runner, 7, "d1").text()

    async def look(self, *, dry_run: bool = False) -> list[Action]:
        """One look of `serve`, and what it did."""
        live, runner = await every_live(self._ports), PlanRunner()
        done: list[Action] = []
        async for plan in registrations.plans(self._ports, self._world.settings, live, dry_run=dry_run):
            done += plan.actions if dry_run or plan.is_certain else ()
            done += await runner.perform(plan) if not dry_run else ()
        runner.check()
        return done

    async def looks(self, times: int = 1, *, is_silent: bool = False) -> list[str]:
        """What so many looks did, the first after a while. The agent beats before each."""
        done = []
        for _ in range(times):
            await asyncio.sleep(LOOKS)
            if not is_silent:
                self._seq += 1
                await self._ports.signals.beat(Heartbeat("i-1", self._ports.clock.now(), self._seq, self.said))
            done += [action.what for action in await self.look()]
        return done


# ---- a runner that listens, and that GitHub does not show


@pytest.mark.parametrize("is_listed", [True, False], ids=["listed as offline", "not listed"])
async def test_a_member_that_listens_unseen_for_long_registers_again(is_listed: bool) -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        if is_listed:
            stage.lists(USED, online=False)
        round = stage.record.round
        assert await stage.looks(LONG - 1) == []
        assert await stage.looks() == ["recall"]
        assert (stage.record.state, stage.record.round != round) == (RUNNING, True)


@pytest.mark.parametrize("again", [USED, LEFT], ids=["it goes on", "it registers again"])
async def test_a_member_that_listens_unseen_although_it_was_recalled_is_ended(again: str) -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        await stage.looks(LONG)
        stage.listens(again)
        assert await stage.looks(LONG - 2) == []
        assert stage.record.state is RUNNING
        await stage.looks(2)
        assert stage.record.state is TERMINATED
        assert "although it has registered again" in world.memory.tables.stories["i-1"][-2].why


async def test_a_member_that_was_seen_since_its_recall_is_recalled_again_instead_of_ended() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        await stage.looks(LONG)
        stage.listens(LEFT)
        stage.lists(LEFT, online=True)
        assert await stage.looks(LONG) == []
        stage.hides(LEFT)
        assert await stage.looks(LONG) == ["recall"]


async def test_a_member_whose_runners_come_and_go_between_the_looks_is_no_ghost() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        for n in range(8):
            stage.listens(f"bullpen.i-1.0a1b2c3d.{n}")
            assert await stage.looks() == []


async def test_a_member_that_has_no_registration_is_no_ghost_however_long() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        assert await stage.looks(20) == []


async def test_a_member_under_a_job_is_no_ghost() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.said = Activity("octo/repo", "99", 1, f"set:{NAME}", USED, "build").text()
        assert await stage.looks(20) == []


async def test_a_silent_member_is_no_ghost() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        await stage.looks()
        assert await stage.looks(20, is_silent=True) == []


@pytest.mark.parametrize("is_listening", [True, False])
async def test_no_member_is_recalled_or_ended_while_github_makes_no_registrations(
    monkeypatch: pytest.MonkeyPatch, is_listening: bool
) -> None:
    monkeypatch.setattr(MemoryCI, "failing", lambda self, label: unanswered("GitHub answered 503", 0.0))
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        if is_listening:
            stage.listens()
        assert await stage.looks(20) == []


async def test_a_member_that_gets_no_registration_because_github_refuses_them_goes_back_to_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryCI, "failing", lambda self, label: refused(None, "the token lacks a permission", 0.0))
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.said = Activity("octo/repo", "99", 1, f"set:{NAME}", USED, "build").text()
        assert await stage.looks(LONG) == []
        stage.said = ""
        assert await stage.looks(LONG - 1) == []
        assert await stage.looks() == ["give back"]
        assert stage.record.state is IDLE


@pytest.mark.parametrize("was_recalled", [False, True])
async def test_a_ghost_that_github_calls_busy_is_left_alone(was_recalled: bool) -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        if was_recalled:
            assert await stage.looks(LONG) == ["recall"]

        async def busy(id: int) -> Removal:
            return Removal.BUSY

        stage._ports.scale_sets.remove_runner = busy  # type: ignore[method-assign]
        round = stage.record.round
        assert "spare" in await stage.looks(2 * LONG)
        assert (stage.record.state, stage.record.round) == (RUNNING, round)


async def test_a_second_list_that_shows_the_runner_spares_the_ghost() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        await stage.looks(LONG)
        usual, calls = stage._ports.ci.registrations, 0

        async def from_then_on() -> list[Registration]:
            nonlocal calls
            calls += 1
            shown = [Registration("i-1", "", False, runner=USED, online=True)]
            return shown if calls >= LONG else await usual()

        stage._ports.ci.registrations = from_then_on  # type: ignore[method-assign]
        await stage.looks(LONG)
        assert stage.record.state is RUNNING


async def test_a_dry_run_names_the_ghosts_and_forgets_nothing() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        await stage.looks(LONG - 1)
        await asyncio.sleep(LOOKS)
        await stage._ports.signals.beat(Heartbeat("i-1", stage._ports.clock.now(), 99, stage.said))
        round = stage.record.round
        assert [action.what for action in await stage.look(dry_run=True)] == ["recall"]
        assert stage.record.round == round
        assert [action.what for action in await stage.look()] == ["recall"]


async def test_no_member_is_recalled_if_github_shows_most_of_many_runners_no_more() -> None:
    async with a_world(settings=settings_of()) as world:
        ports = world.ports()
        for n in range(8):
            for change in engaged(f"i-{n}"):
                await ports.records.apply(change)
        stage = Stage(world)
        done: list[Action] = []
        for look in range(LONG + 1):
            await asyncio.sleep(LOOKS)
            for n in range(8):
                said = Listening(f"bullpen.i-{n}.0a1b2c3d.1", n, "d1").text()
                await ports.signals.beat(Heartbeat(f"i-{n}", ports.clock.now(), look + 1, said))
            done = await stage.look()
        assert [action.what for action in done] == ["spare"]
        assert "does not see 8 of 8 runners" in done[0].reason


# ---- registrations that a member does not use


@pytest.mark.parametrize("has_job", [False, True], ids=["it listens", "it has a job"])
async def test_a_registration_that_a_living_member_does_not_use_is_removed(has_job: bool) -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        if has_job:
            stage.said = Activity("octo/repo", "99", 1, f"set:{NAME}", USED, "build").text()
        stage.lists(USED, online=True, busy=has_job)
        stage.lists(LEFT, online=False)
        assert await stage.looks() == []
        assert await stage.looks() == ["deregister"]
        assert stage.listed == [USED]


async def test_the_registration_that_a_member_uses_is_not_removed_although_it_is_offline() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        stage.listens()
        stage.lists(USED, online=False)
        assert await stage.looks(LONG - 1) == []
        assert stage.listed == [USED]


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_registration_that_a_member_may_be_about_to_use_is_not_removed(is_silent: bool) -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        if is_silent:
            stage.listens()
            await stage.looks()
        stage.lists(LEFT, online=False)
        assert await stage.looks(10, is_silent=is_silent) == []
        assert stage.listed == [LEFT]


async def test_a_registration_of_a_set_that_an_instance_has_left_is_removed() -> None:
    async with a_world(settings=settings_of()) as world:
        stage = Stage(world)
        await stage.set_up()
        await world.ports().records.apply(release(stage.record))
        stage.lists(LEFT, online=False)
        assert "deregister" in await stage.looks(2)
        assert stage.listed == []
