"""Planted bugs of scale sets: each takes one rule out of the code, and a scenario that shows the harm must notice.

Every scenario passes on the code as it is; with its bug planted it must not.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

import set_plants
from agent.github.test_set_decide import GIVEN_BACK, LIMITS, SERVING
from bullpen.agent.decide import Observation, Step, decide
from bullpen.agent.github.listener import ListenerStage, Restarts, RunnerListener
from bullpen.agent.github.runner import Actions
from bullpen.agent.store.base import RunnerCredentials
from bullpen.config import Github
from bullpen.controllers import Service
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.errors import Unavailable
from bullpen.model.instance import TERMINATED
from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet, SetJob
from bullpen.model.set_session import SetSession
from bullpen.ports import Conclusion, Ports, ScaleSetSpec
from bullpen.scale_sets.listener import SetListener
from bullpen.sim.agent import Temper
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from engines.github.scale_sets.scripted_service import ScriptedService
from engines.github.test_set_registering import SlowSets, asks, scene
from fixtures import records, refreshed, steps
from scale_sets.fixtures import (
    REPOSITORY,
    SET,
    a_set_world,
    hub_of,
    members,
    push,
    serve,
    session,
    set_of,
    settings_of,
    until_done,
)
from scale_sets.test_listener import taken
from scale_sets.test_lost import conclusions, dies_on_its_next_job, until_run_again
from scale_sets.watched import WatchedRuns

pytestmark = pytest.mark.slow

PROBED = 400.0  # seconds after which the probe of a new session is given back
Scenario = Callable[[], Awaitable[None]] | Callable[[], None]


# ---- the listener


async def what_is_acknowledged_is_recorded() -> None:
    async with a_set_world(settings_of(idle_target=2)) as world:
        watched = WatchedRuns(world)
        serve(world)
        await until_done(world, push(world, 2, lasts=5.0), within=120.0)
        assert watched.acknowledged
        assert watched.forgotten == []


async def a_job_whose_message_is_lost_runs() -> None:
    async with a_bare_set() as world:
        hub_of(world).sets.troubles = SetTroubles(lost=1.0)
        run = push(world, lasts=5.0)
        await asyncio.sleep(1)
        hub_of(world).sets.troubles = SetTroubles()
        await until_done(world, run, within=300.0)


async def jobs_beside_running_ones_are_announced() -> None:
    async with a_set_world() as world:
        serve(world)
        await asyncio.sleep(PROBED)
        push(world, 12, lasts=3000.0)
        await asyncio.sleep(60)
        await until_done(world, push(world, 5, lasts=100.0), within=200.0)


async def jobs_behind_an_unreadable_message_run() -> None:
    async with a_bare_set() as world:
        hub_of(world).sets.troubles = SetTroubles(unreadable=1.0)
        first = push(world, lasts=5.0)
        await asyncio.sleep(1)
        hub_of(world).sets.troubles = SetTroubles()
        await until_done(world, first, push(world, 4, lasts=5.0), within=150.0)


async def a_session_that_cannot_be_renewed_is_followed_by_another() -> None:
    """The memory engine renews nothing, so this is the engine of GitHub on a service that answers as told."""
    async with a_set_world() as world:
        service = ScriptedService()
        service.once("GET */scalesets/message", httpx.Response(401))
        service.once("PATCH */sessions/*", httpx.Response(404))
        ports = replace(world.ports(), scale_sets=service.sets)
        listener = SetListener(ports, (await ports.records.scale_sets())[SET], await taken(ports), lambda: None)
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await service.client.aclose()
        assert not listener.is_missing
        assert len(service.asked("POST */sessions")) == 2
        assert listener.failing_for() == 0.0


# ---- the lease


async def a_living_holder_keeps_its_set() -> None:
    async with a_set_world() as world:
        serve(world, "web-1")
        await asyncio.sleep(10)
        serve(world, "web-2", skew=600.0)
        await asyncio.sleep(200)
        assert (session(world).holder, session(world).epoch) == ("web-1", 1)


async def only_the_holder_writes_the_session() -> None:
    async with a_set_world() as world:
        foreign: list[str] = []
        tables = world.memory.tables
        write = tables._write

        def watching(change: Any, record: Any) -> None:
            before = tables.set_sessions.get(record.id) if isinstance(record, SetSession) else None
            by = writers.get(id(change))
            write(change, record)
            if before is not None and change.step not in ("take", "yield") and by not in (None, before.holder):
                foreign.append(f"{change.step} by {by}, and {before.holder} holds it")

        writers: dict[int, str] = {}
        tables._write = watching  # type: ignore[method-assign]
        first = serve(world, "web-1", between=lambda ports: naming(ports, writers, "web-1"))
        await asyncio.sleep(10)
        serve(world, "web-2", between=lambda ports: naming(ports, writers, "web-2"))
        await asyncio.sleep(10)
        first.pause()
        await asyncio.sleep(60)
        assert session(world).holder == "web-2"
        first.resume()
        await asyncio.sleep(60)
        assert foreign == []


def naming(ports: Ports, writers: dict[int, str], name: str) -> Ports:
    """Whose each write is, while it lands: silent steps leave no line."""
    apply = ports.records.apply

    async def named(*changes: Any, **checks: Any) -> Any:
        writers.update((id(change), name) for change in changes)
        try:
            return await apply(*changes, **checks)
        finally:
            for change in changes:
                writers.pop(id(change), None)

    ports.records.apply = named  # type: ignore[method-assign]
    return ports


# ---- jobs that a runner was given


async def a_job_whose_runner_dies_at_once_is_run_again() -> None:
    await _rescued(SetTroubles())


async def a_job_that_is_reported_as_completed_is_run_again_if_its_runner_died() -> None:
    await _rescued(SetTroubles(false_end=1.0))


async def _rescued(troubles: SetTroubles) -> None:
    async with a_set_world(settings_of(min=1, rescue=(REPOSITORY,))) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.troubles = troubles
        dies_on_its_next_job(world)
        run = push(world, lasts=200.0)
        await until_run_again(world, run)
        assert conclusions(world, run) == [Conclusion.SUCCESS]


# ---- supply


async def a_job_does_not_wait_for_a_member_that_is_cleaned() -> None:
    async with a_set_world(settings_of(idle_target=2), temper=lambda n: Temper(cleans_in=110.0)) as world:
        serve(world)
        await asyncio.sleep(PROBED)
        await until_done(world, push(world, lasts=5.0), within=60.0)
        await asyncio.sleep(20)
        await until_done(world, push(world, lasts=5.0), within=25.0)


async def phantoms_that_are_gone_cost_no_runner() -> None:
    async with a_set_with_phantoms(5) as world:
        set_of(world).phantoms = 0
        await asyncio.sleep(300)
        assert session(world).phantom == 0
        assert members(world) == []


async def jobs_that_look_like_phantoms_run() -> None:
    """GitHub counts as many real jobs from now on as it counted phantoms."""
    async with a_set_with_phantoms(5) as world:
        set_of(world).phantoms = 0
        await until_done(world, push(world, 5, lasts=20.0), within=900.0)


async def machines_survive_an_outage_of_registrations() -> None:
    async with a_set_world(settings_of(idle_target=4)) as world:
        serve(world)
        await asyncio.sleep(30)
        configure = hub_of(world).configure

        def away(*asked: Any) -> Any:
            raise Unavailable("GitHub does not answer")

        hub_of(world).configure = away  # type: ignore[assignment, method-assign]
        run = push(world, 2, lasts=5.0)
        await asyncio.sleep(200)
        assert records(world, TERMINATED) == []
        hub_of(world).configure = configure  # type: ignore[method-assign]
        await until_done(world, run, within=200.0)


async def no_more_machines_are_launched_than_jobs_wait() -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=40.0)) as world:
        serve(world)
        await until_done(world, push(world, 5, lasts=30.0), within=200.0)
        assert len(world.memory.yard.sightings) <= 6


def a_bare_set(**fields: Any) -> Any:
    return _Stage(settings_of(**fields))


class _Stage:
    """A set that has given back the probe of its session. No list shows queued jobs."""

    def __init__(self, settings: Any, phantoms: int = 0) -> None:
        self._within, self._phantoms = a_set_world(settings), phantoms

    async def __aenter__(self) -> World:
        world = await self._within.__aenter__()
        hub_of(world).denied.add("waiting_jobs")
        serve(world)
        await asyncio.sleep(PROBED)
        assert members(world) == []
        if self._phantoms:
            set_of(world).phantoms = self._phantoms
            await asyncio.sleep(1000)
            assert session(world).phantom == self._phantoms
        return world

    async def __aexit__(self, *exc: Any) -> None:
        await self._within.__aexit__(*exc)


def a_set_with_phantoms(count: int) -> _Stage:
    """Which Bullpen has recognised."""
    return _Stage(settings_of(idle_target=3), count)


# ---- sets, their owners and their registrations


async def a_set_that_another_process_serves_is_not_retired() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world, "web-1")
        await asyncio.sleep(30)
        without = msgspec.structs.replace(world.settings, github=Github(scope=REPOSITORY, token="t"))
        older = Service
        world.agents["web-2"], _ = world.start(
            "web-2", lambda ports: older(ports, without, process="web-2").run(asyncio.Event())
        )
        await asyncio.sleep(200)
        assert "retire" not in steps(world, f"set:{SET}")
        assert session(world).holder == "web-1"


async def a_strangers_set_is_left_alone() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serve(world)
        await asyncio.sleep(60)
        hub_of(world).sets.delete(set_of(world).id)
        stranger = hub_of(world).sets.create(ScaleSetSpec(SET))
        await asyncio.sleep(200)
        assert world.memory.tables.scale_sets[f"set:{SET}"].ci_id != stranger.id
        assert stranger.session is None


def a_repository_that_was_created_again_is_refused() -> None:
    served = ServedSet(SET, SetEvents.ANY, (SetRepository(REPOSITORY, 42),))
    again = SetJob(REPOSITORY, "43", "push", "refs/heads/main", "octocat", "runner")
    assert served.refusal(replace(again, repository_id="42"), "runner") == ""
    assert "which had this name before" in served.refusal(again, "runner")


async def a_member_that_github_shows_offline_for_a_moment_stays() -> None:
    async with a_set_world(settings_of(min=1)) as world:
        serving = serve(world)
        await asyncio.sleep(60)
        serving.kill()
        (one,) = members(world)
        (runner,) = set_of(world).runners
        listed = world.memory.registrations
        listed[runner] = replace(listed[runner], online=False)
        for _ in range(2):
            await refreshed(world)
            await asyncio.sleep(61)
        assert list(set_of(world).runners) == [runner]
        assert [found.id for found in members(world)] == [one.id]


async def a_registration_whose_answer_was_lost_is_followed_by_one_with_another_name() -> None:
    slow, given = SlowSets(fails=[Unavailable("no answer")]), None
    async with scene(slow) as (ci, ports):
        for _ in range(3):
            with suppress(Unavailable):
                given = given or await asks(ci, ports)
    assert given is not None
    assert len(set(slow.made)) == 2


# ---- the agent: these bugs cannot live in the simulated one, so its parts meet a runner that does as told


class ToldRunner:
    """In place of the process of GitHub's runner."""

    def __init__(self, output: Any) -> None:
        self.pid, self.output = 0, -1
        self.code: int | None = None
        self.is_interrupted = False
        self._output = output

    def say(self, words: str) -> None:
        self._output.write(f"2026-01-01 00:00:00Z: {words}\n".encode())

    def interrupt(self) -> None:
        self.is_interrupted = True

    def exit_code(self) -> int | None:
        return self.code

    def tail(self) -> str:
        return ""

    def pump(self) -> None: ...

    def end(self) -> None: ...

    def close(self) -> None: ...


def listening(place: Path, restarts: Restarts) -> tuple[RunnerListener, ToldRunner]:
    """A runner of a set that waits for a job."""
    started: list[ToldRunner] = []

    def launch(name: str, command: Any, told: Any, output: Any, limit: int) -> Any:
        started.append(ToldRunner(output))
        return started[-1]

    def never(*_: Any) -> Any:
        raise AssertionError("only a runner of a run removes itself")

    given = RunnerCredentials(SERVING.runner, "set:m", jit="J", id=7, serves=ServedSet("m"))
    listener = RunnerListener(launch, place, "2.336.0", place, {}, given, restarts, never, never)
    listener.begin()
    (runner,) = started
    runner.say("Listening for Jobs")
    listener.check(0.0)
    assert listener.waits
    return listener, runner


def a_job_that_arrives_during_a_withdrawal_is_not_interrupted() -> None:
    """GitHub removes the registration, and has given the runner a job before: the runner reports it a moment later."""
    removed: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        config, account = SimpleNamespace(directory=Path(place)), SimpleNamespace(user=None)
        actions = Actions(config, account, lambda line: None)  # type: ignore[arg-type]
        actions._listener, runner = listening(Path(place), Restarts())
        action = decide(Observation(1000.0, 0.0, GIVEN_BACK), SERVING, LIMITS)
        if action is Step.WITHDRAW:
            store: Any = SimpleNamespace(deregister=removed.append)
            progress = actions.withdraw(store, SERVING, GIVEN_BACK)
        else:
            progress = actions.hang_up(SERVING)
        runner.say("Running job: build")
        progress = actions.check(progress)
        assert not runner.is_interrupted
        assert (removed, progress.begun is not None) == ([SERVING.runner], True)


def runners_that_github_drops_while_they_wait_are_followed_by_others() -> None:
    restarts = Restarts()
    with tempfile.TemporaryDirectory() as place:
        for _ in range(5):
            listener, runner = listening(Path(place), restarts)
            runner.code = 0
            listener.check(0.0)
            assert listener.stage is ListenerStage.LOST


@dataclass(frozen=True)
class Planted:
    plant: Callable[[], Any]
    scenario: Scenario


PLANTED = {
    "acknowledges first": Planted(set_plants.acknowledges_first, what_is_acknowledged_is_recorded),
    "counts messages": Planted(set_plants.counts_messages, a_job_whose_message_is_lost_runs),
    "announces the gap": Planted(set_plants.announces_the_gap, jobs_beside_running_ones_are_announced),
    "trusts JobCompleted": Planted(
        set_plants.trusts_job_completed, a_job_that_is_reported_as_completed_is_run_again_if_its_runner_died
    ),
    "interrupts before DELETE": Planted(
        set_plants.interrupts_before_delete, a_job_that_arrives_during_a_withdrawal_is_not_interrupted
    ),
    "believes 204": Planted(set_plants.believes_204, a_job_that_arrives_during_a_withdrawal_is_not_interrupted),
    "reuses the name": Planted(
        set_plants.reuses_the_name, a_registration_whose_answer_was_lost_is_followed_by_one_with_another_name
    ),
    "stops at poison": Planted(set_plants.stops_at_poison, jobs_behind_an_unreadable_message_run),
    "dies at refresh 404": Planted(
        set_plants.dies_at_refresh_404, a_session_that_cannot_be_renewed_is_followed_by_another
    ),
    "lease by wall clock": Planted(set_plants.lease_by_wall_clock, a_living_holder_keeps_its_set),
    "no epoch": Planted(set_plants.no_epoch, only_the_holder_writes_the_session),
    "counts the unregistered as supply": Planted(
        set_plants.counts_the_unregistered, a_job_does_not_wait_for_a_member_that_is_cleaned
    ),
    "admits by name, not id": Planted(set_plants.admits_by_name, a_repository_that_was_created_again_is_refused),
    "keeps phantoms": Planted(set_plants.keeps_phantoms, phantoms_that_are_gone_cost_no_runner),
    "starves behind phantoms": Planted(set_plants.starves_behind_phantoms, jobs_that_look_like_phantoms_run),
    "ends machines on an outage": Planted(
        set_plants.ends_machines_on_an_outage, machines_survive_an_outage_of_registrations
    ),
    "retires another's set": Planted(set_plants.retires_anothers_set, a_set_that_another_process_serves_is_not_retired),
    "adopts a stranger's set": Planted(set_plants.adopts_a_strangers_set, a_strangers_set_is_left_alone),
    "takes an idle end for a failure": Planted(
        set_plants.takes_an_idle_end_for_a_failure, runners_that_github_drops_while_they_wait_are_followed_by_others
    ),
    "launches again while machines boot": Planted(
        set_plants.launches_again_while_machines_boot, no_more_machines_are_launched_than_jobs_wait
    ),
    "forgets started": Planted(set_plants.forgets_started, a_job_whose_runner_dies_at_once_is_run_again),
    "reconciles by label": Planted(
        set_plants.reconciles_by_label, a_member_that_github_shows_offline_for_a_moment_stays
    ),
}


def play(scenario: Scenario) -> None:
    """On virtual time. Raise AssertionError if its promise does not hold."""

    async def main() -> None:
        if (played := scenario()) is not None:
            await played

    virtual_run(main(), allow_left_behind=True)


@pytest.mark.parametrize("name", PLANTED)
def test_the_code_as_it_is_passes(name: str) -> None:
    play(PLANTED[name].scenario)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str) -> None:
    with PLANTED[name].plant(), pytest.raises(AssertionError):
        play(PLANTED[name].scenario)
