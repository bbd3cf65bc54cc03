"""What processes do about scale sets and their runners is in the activity of the pool, each action with its reason."""

import asyncio
from collections import Counter
from dataclasses import replace

from bullpen.controllers import Service
from bullpen.errors import Unavailable
from bullpen.model import instance as instances
from bullpen.model import set_member
from bullpen.model.activity_note import ActionNote
from bullpen.model.instance import Instance
from bullpen.model.scale_set import READY
from bullpen.model.signal import Kind, Signal
from bullpen.model.signal_text import refuses_runner
from bullpen.ports import Ports
from bullpen.scale_sets.actions import SetAction
from bullpen.sim.agent import Temper
from bullpen.sim.world import World
from fixtures import with_pool
from scale_sets.fixtures import SET, a_set_world, hub_of, members, push, serve, set_of, settings_of, until_done
from scale_sets.test_listener import Spy, a_listener
from scale_sets.test_offers import listening, offered

OF_SETS = {
    set_member.engage.step: {"engage"},
    set_member.recall.step: {"recall"},
    instances.release.step: {"give back"},
    instances.roll_back.step: {"roll back"},
    instances.expire.step: {"terminate"},
}
"""What a set does to a machine, by the step of its story. A claim is engaged, rolled back or ended; a renewal is no
more than a heartbeat is."""


def notes(world: World, by: str = "web-1/sets") -> list[ActionNote]:
    return [one for one in world.memory.ledger.notes if one.by == by]


def unnoted(world: World, by: str = "web-1") -> list[str]:
    """The steps that the sets of a process took, and of which the activity has nothing."""
    known = Counter((one.subject, one.did) for one in notes(world))
    missing = []
    for id, record in world.memory.tables.instances.items():
        assert isinstance(record, Instance)
        for line in world.memory.tables.stories[id]:
            if line.by == by and line.step in OF_SETS:
                (did,) = OF_SETS[line.step]
                known[id, did] -= 1
                missing += [f"{line.step} {id}: {line.why}"] if known[id, did] < 0 else []
    return missing


async def test_every_step_of_a_machine_that_serves_a_set_is_in_the_activity() -> None:
    async with a_set_world(temper=lambda n: Temper(boots_in=20.0)) as world:
        await with_pool(world, 2, trust_domain="acme/widgets")
        serve(world)
        run = push(world, jobs=3, lasts=30.0)
        await until_done(world, run)
        await asyncio.sleep(400)
        assert unnoted(world) == []
        done = Counter(one.did for one in notes(world))
        assert done["hold set"] == 1
        assert done["listen"] >= 1
        assert done["engage"] >= 3
        assert done["give back"] >= 3
        assert all(one.reason for one in notes(world))
        assert {one.reason for one in notes(world) if one.did == "engage"} == {f"set {SET}: its runner is registered"}


async def test_machines_that_do_not_register_are_in_the_activity() -> None:
    async with a_set_world() as world:
        for id in await with_pool(world, 2, trust_domain="acme/widgets"):
            world.tempers[id].registration_failure = "no such token"
        serve(world)
        push(world, lasts=30.0)
        await asyncio.sleep(120)
        assert unnoted(world) == []
        assert {one.reason for one in notes(world) if one.did == "terminate"} == {
            f"set {SET}: UD_REG_FAILED: no such token"
        }


async def test_a_runner_that_registers_again_and_one_that_is_ended_for_its_version_are_in_the_activity() -> None:
    async with a_set_world(settings_of(min=1), temper=lambda n: Temper(version="2.319.0")) as world:
        services: list[Service] = []

        async def main(ports: Ports) -> None:
            services.append(Service(ports, world.settings, process="web-1"))
            await services[0].run(asyncio.Event())

        world.agents["web-1"], _ = world.start("web-1", main)
        await asyncio.sleep(60)
        (holder,) = services[0].sets.held.values()
        await holder.supplier.recall_idle("a test")
        await asyncio.sleep(30)
        assert [one.reason for one in notes(world) if one.did == "recall"] == [f"set {SET}: a test"]
        (one,) = members(world)
        world.agents[one.id].kill()
        text = refuses_runner("2.319.0", "use a newer one")
        await world.ports().signals.report(Signal(one.id, Kind.REG_FAILED, one.run_id, one.round, 99, text))
        await asyncio.sleep(30)
        assert ("terminate", one.id) in {(note.did, note.subject) for note in notes(world)}
        assert unnoted(world) == []


async def test_what_a_process_does_to_the_sets_themselves_is_in_the_activity() -> None:
    async with a_set_world() as world:
        stop = asyncio.Event()
        process = serve(world, stop=stop)
        await asyncio.sleep(10)
        set_of(world).spec = replace(set_of(world).spec, labels=("other",))  # changed at the CI
        await asyncio.sleep(70)
        stop.set()
        await process.ended()
        done = [(one.did, one.subject, one.is_done) for one in notes(world)]
        assert ("hold set", SET, True) in done
        assert ("correct set", SET, True) in done
        assert ("give up set", SET, True) in done


async def test_a_set_that_is_deleted_is_an_alarm_and_is_created_again() -> None:
    async with a_set_world() as world:
        serve(world)
        await asyncio.sleep(10)
        hub_of(world).sets.sets.clear()
        await asyncio.sleep(120)
        done = [one.did for one in notes(world)]
        assert {"alarm", "give up set", "recreate set", "create set"} <= set(done)
        assert all(one.trouble for one in notes(world) if one.did == "alarm")


async def test_the_activity_of_sets_costs_a_write_every_few_seconds_at_most() -> None:
    """And none where nothing happens."""
    async with a_set_world(settings_of(min=2)) as world:
        made: list[Ports] = []

        def watched(ports: Ports) -> Ports:
            made.append(ports)
            return ports

        serve(world, between=watched)
        await asyncio.sleep(300)
        before = made[0].history._faults.requests["history.note_actions"]  # type: ignore[attr-defined]
        await asyncio.sleep(600)
        assert made[0].history._faults.requests["history.note_actions"] == before  # type: ignore[attr-defined]
        push(world, jobs=8, lasts=5.0)
        await asyncio.sleep(60)
        assert made[0].history._faults.requests["history.note_actions"] - before <= 60 / 5 + 1  # type: ignore[attr-defined]


async def test_machines_that_register_late_are_rolled_back_and_that_is_in_the_activity() -> None:
    async with a_set_world(settings_of(idle_target=4), temper=lambda n: Temper(registers_in=12.0)) as world:
        serve(world)
        await asyncio.sleep(60)
        push(world, jobs=2, lasts=30.0)
        await asyncio.sleep(200)
        assert unnoted(world) == []
        assert "roll back" in {one.did for one in notes(world)}


async def test_jobs_that_are_acquired_and_those_that_cannot_be_are_in_the_activity() -> None:
    async with listening(READY) as (service, listener, _):
        done: list[SetAction] = []
        listener._note = done.extend
        service.taken = {2}
        service.send(*offered(1, 2, 3), assigned=0)
        await asyncio.sleep(2)
        service.poison = {4}
        service.send(*offered(4), assigned=0)
        service.send(*offered(5), assigned=0)
        await asyncio.sleep(2)
        found = [(one.what, one.subject, one.reason, one.is_done) for one in done if one.what != "listen"]
        assert found == [
            ("acquire jobs", SET, "the CI offered 2, and it has room", True),
            ("acquire jobs", SET, "400: no such job", False),
            ("acquire jobs", SET, "the CI offered 1, and it has room", True),
        ]


async def test_a_ci_that_does_not_answer_a_set_is_in_the_activity_once() -> None:
    async with a_set_world() as world:
        done: list[SetAction] = []

        async def fails(*_: object) -> None:
            raise Unavailable("no answer")

        listener = await a_listener(world)
        listener._note = done.extend
        listener._ports = replace(listener._ports, scale_sets=Spy(listener._ports.scale_sets, open=fails))
        task = asyncio.create_task(listener.run())
        await asyncio.sleep(60)
        task.cancel()
        assert done == [SetAction("listen", SET, "no answer", is_done=False)]
