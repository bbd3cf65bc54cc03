"""What every Compute promises."""

import asyncio

from builders import a_plan
from bullpen.model.fleet import shortfall
from bullpen.model.ticket import UsageClass
from bullpen.ports import Compute
from conformance.engines import CAPACITY


async def alive(compute: Compute) -> set[str]:
    return {sighting.id for sighting in await compute.sightings() if sighting.alive}


async def test_a_fleet_launches_as_many_machines_as_asked(compute: Compute) -> None:
    plan = a_plan(count=3)
    answer = await compute.create_fleet(plan)
    assert shortfall(plan, answer) == ""
    assert {machine.id for machine in answer.machines} == await alive(compute)


async def test_a_machine_has_what_the_plan_asked(compute: Compute) -> None:
    (machine,) = (await compute.create_fleet(a_plan(cpu=2, mem=2048, usage_class=UsageClass.SPOT))).machines
    assert machine.cpu >= 2
    assert machine.mem >= 2048
    assert machine.usage_class is UsageClass.SPOT


async def test_a_machine_is_of_a_type_that_the_plan_allows(compute: Compute) -> None:
    (machine,) = (await compute.create_fleet(a_plan(allowed_types=("nothing.*", "*.MEDIUM")))).machines
    assert machine.instance_type.endswith(".medium")


async def test_ids_look_like_instance_ids_and_differ(compute: Compute) -> None:
    first = await compute.create_fleet(a_plan(count=2))
    second = await compute.create_fleet(a_plan(count=2))
    ids = [machine.id for machine in first.machines + second.machines]
    assert len(set(ids)) == 4
    assert all(id_.startswith("i-") for id_ in ids)


async def test_the_same_client_token_again_launches_nothing_new_and_answers_the_same(compute: Compute) -> None:
    plan = a_plan(count=2)
    first = await compute.create_fleet(plan)
    again = await compute.create_fleet(plan)
    assert again.machines == first.machines
    assert len(await alive(compute)) == 2


async def test_the_same_client_token_at_once_launches_one_fleet(compute: Compute) -> None:
    plan = a_plan(count=2)
    answers = await asyncio.gather(*(compute.create_fleet(plan) for _ in range(4)))
    assert {machine.id for answer in answers for machine in answer.machines} == await alive(compute)
    assert len(await alive(compute)) == 2


async def test_without_room_for_all_the_answer_is_short_and_says_why(compute: Compute) -> None:
    plan = a_plan(count=CAPACITY + 2)
    answer = await compute.create_fleet(plan)
    assert len(answer.machines) == CAPACITY
    assert answer.errors
    assert shortfall(plan, answer)


async def test_a_short_answer_is_repeated_for_its_token_even_when_there_is_room_again(compute: Compute) -> None:
    first = await compute.create_fleet(a_plan(count=CAPACITY))
    plan = a_plan(count=2)
    short = await compute.create_fleet(plan)
    await compute.terminate([machine.id for machine in first.machines])
    assert (await compute.create_fleet(plan)).machines == short.machines


async def test_a_sighting_names_the_provision_that_launched_the_machine(compute: Compute) -> None:
    (machine,) = (await compute.create_fleet(a_plan(provision_id="p-7"))).machines
    (sighting,) = await compute.sightings()
    assert (sighting.id, sighting.provision_id, sighting.alive) == (machine.id, "p-7", True)


async def test_a_terminated_machine_is_not_alive_and_its_room_is_free(compute: Compute) -> None:
    machines = (await compute.create_fleet(a_plan(count=CAPACITY))).machines
    assert await compute.terminate([machines[0].id]) == [machines[0].id]
    assert await alive(compute) == {machine.id for machine in machines[1:]}
    assert len((await compute.create_fleet(a_plan(count=1))).machines) == 1


async def test_to_terminate_a_machine_that_is_gone_is_success(compute: Compute) -> None:
    (machine,) = (await compute.create_fleet(a_plan())).machines
    await compute.terminate([machine.id])
    assert await compute.terminate([machine.id]) == [machine.id]


async def test_an_unknown_id_counts_as_gone_and_ends_no_machine(compute: Compute) -> None:
    (machine,) = (await compute.create_fleet(a_plan())).machines
    assert await compute.terminate(["i-ffffffffffffffff"]) == ["i-ffffffffffffffff"]
    assert await alive(compute) == {machine.id}


async def test_to_terminate_nothing_is_no_mistake(compute: Compute) -> None:
    assert await compute.terminate([]) == []
