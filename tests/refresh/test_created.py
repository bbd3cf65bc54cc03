"""Refresh and serve report as created what they created, and say what refused the rest."""

import logging
from collections import Counter

import pytest

from bullpen.config import Limits, ResourceClass, Settings
from bullpen.controllers import Service
from bullpen.engines.memory.compute import NO_CAPACITY
from bullpen.errors import PermissionDenied
from bullpen.model.fleet import Cause, FleetError
from bullpen.model.progress import ProgressReport
from bullpen.model.ticket import UsageClass
from bullpen.refresh import Action, Hindered
from bullpen.refresh.launch import LaunchOrder, foresee
from bullpen.sim.world import World
from fixtures import a_world, machines, provisioned, refreshed, small

TARGET = "the idle target is 3"
CAP = "limits.max-instances is {}; the total would be {}; in use: {}"


def pool(cap: int, **targets: int) -> Settings:
    kinds = {name: ResourceClass(cpu=1, mem=1024, idle_target=target) for name, target in targets.items()}
    return Settings(limits=Limits(max_instances=cap), classes=kinds)


def of_creation(actions: list[Action]) -> list[Action]:
    return [one for one in actions if one.what in ("create", "cannot create")]


async def test_what_was_created_is_reported_as_created() -> None:
    async with a_world(settings=small(idle_target=3)) as world:
        reports: list[ProgressReport] = []
        actions = await refreshed(world, tell=reports.append)
        assert of_creation(actions) == [Action("create", "3 × small", TARGET)]
        assert f"create 3 × small: {TARGET}" in [report.text for report in reports]


async def test_progress_differs_for_another_class_and_not_for_other_numbers() -> None:
    async with a_world(settings=pool(9, large=1, small=3)) as world:
        reports: list[ProgressReport] = []
        await refreshed(world, tell=reports.append)
        about = [report.about for report in reports if report.text.startswith("create")]
        assert about == ["create: large: the idle target is 1", "create: small: the idle target is 3"]


async def test_progress_differs_for_another_reason_to_create() -> None:
    async with a_world(settings=pool(9, small=1)) as world:
        orders = [LaunchOrder("small", UsageClass.ON_DEMAND, 1, why) for why in ("the idle target is 1", "ci lacks 1")]
        actions = [one for order in orders for one in await foresee(world.ports(), world.settings, order, Counter())]
        assert [one.about for one in actions] == ["create: small: the idle target is 1", "create: small: ci lacks 1"]


async def test_without_capacity_nothing_is_reported_as_created_and_the_refusal_is() -> None:
    async with a_world(settings=small(idle_target=3), capacity=0) as world:
        (only,) = of_creation(await refreshed(world))
        assert (only.what, only.subject) == ("cannot create", "3 × small")
        assert NO_CAPACITY in only.reason


async def test_part_of_the_capacity_is_reported_as_part() -> None:
    async with a_world(settings=small(idle_target=3), capacity=1) as world:
        created, refused = of_creation(await refreshed(world))
        assert created == Action("create", "1 × small", TARGET)
        assert (refused.what, refused.subject) == ("cannot create", "2 × small")
        assert NO_CAPACITY in refused.reason
        assert len(machines(world)) == 1


async def test_what_the_cap_leaves_is_created_and_the_cap_is_named_for_the_rest() -> None:
    async with a_world(settings=pool(4, small=3)) as world:
        await provisioned(world, "run", 2)
        created, refused = of_creation(await refreshed(world))
        assert created == Action("create", "2 × small", TARGET)
        assert refused == Action("cannot create", "1 × small", CAP.format(4, 5, "2 small running"), is_done=False)
        assert len(machines(world)) == 4


async def test_a_full_pool_creates_nothing_and_says_what_holds_it() -> None:
    async with a_world(settings=pool(3, small=3)) as world:
        await provisioned(world, "run", 3)
        assert of_creation(await refreshed(world)) == [
            Action("cannot create", "3 × small", CAP.format(3, 6, "3 small running"), is_done=False)
        ]


async def test_a_dry_run_says_what_would_be_created_within_the_caps_class_by_class() -> None:
    async with a_world(settings=pool(6, small=2, large=3)) as world:
        await provisioned(world, "run", 3)
        planned = of_creation(await refreshed(world, dry_run=True))
        assert [(one.what, one.subject) for one in planned] == [
            ("create", "2 × small"),
            ("create", "1 × large"),
            ("cannot create", "2 × large"),
        ]
        assert planned[2].reason.startswith("limits.max-instances is 6; the total would be 8")
        done = of_creation(await refreshed(world))
        assert [(one.what, one.subject) for one in done] == [(one.what, one.subject) for one in planned]


async def test_a_dry_run_respects_the_cap_of_a_class() -> None:
    settings = small(idle_target=2, max_instances=3)
    async with a_world(settings=settings) as world:
        await provisioned(world, "run", 2)
        planned = of_creation(await refreshed(world, dry_run=True))
        assert [(one.what, one.subject) for one in planned] == [("create", "1 × small"), ("cannot create", "1 × small")]
        assert planned[1].reason.startswith("classes.small.max-instances is 3; the total would be 4")


async def test_what_an_operator_has_to_fix_is_raised_with_what_was_created_before() -> None:
    quota = FleetError("VcpuLimitExceeded", "32 vCPUs", Cause.QUOTA, "ask for a higher quota")
    async with a_world(settings=small(idle_target=3)) as world:
        world.memory.yard.troubles.append((1, quota))
        with pytest.raises(Hindered, match="32 vCPUs") as caught:
            await refreshed(world)
        created, refused = of_creation(caught.value.actions)
        assert created == Action("create", "1 × small", TARGET)
        assert (refused.what, refused.subject) == ("cannot create", "2 × small")
        assert "32 vCPUs" in refused.reason


async def test_a_launch_that_is_refused_reports_nothing_as_created() -> None:
    async with a_world(settings=small(idle_target=1)) as world:
        world.memory.yard.troubles.append((0, PermissionDenied("not you")))
        with pytest.raises(Hindered, match="not you") as caught:
            await refreshed(world)
        assert of_creation(caught.value.actions) == [Action("cannot create", "1 × small", "not you", is_done=False)]


async def test_fewer_runners_are_given_within_a_cap_where_fewer_are_acceptable() -> None:
    async with a_world(settings=pool(3, small=0)) as world:
        outcome = await provisioned(world, "run", 5, allow_partial=True)
        assert outcome.succeeded, outcome.reason
        assert len(outcome.members) == len(machines(world)) == 3


async def logged(world: World, caplog: pytest.LogCaptureFixture, times: int = 1) -> list[str]:
    service = Service(world.ports(), world.settings)
    (warm,) = [loop for loop in service.loops if loop.name == "warm"]
    with caplog.at_level(logging.INFO, logger="bullpen.controllers"):
        for _ in range(times):
            await warm.run_once()
    return [record.getMessage() for record in caplog.records if "create" in record.getMessage()]


async def test_serve_reports_what_it_created_and_what_refused_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async with a_world(settings=pool(4, small=3)) as world:
        await provisioned(world, "run", 2)
        assert await logged(world, caplog) == [
            f'create controller=warm subject="2 × small" reason="{TARGET}"',
            f'cannot create controller=warm subject="1 × small" reason="{CAP.format(4, 5, "2 small running")}"',
        ]


async def test_serve_repeats_a_refusal_only_once_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    async with a_world(settings=pool(3, small=3)) as world:
        await provisioned(world, "run", 3)
        assert len(await logged(world, caplog, times=5)) == 1


def test_progress_differs_for_another_reason_and_not_for_another_job_or_instance() -> None:
    spared = [Action("spare", id, f"it executes job {id}", kind="job") for id in ("i-1", "i-2")]
    ended = [Action("terminate", "i-1", reason) for reason in ("it was not ready", "its machine is gone")]
    assert len({one.about for one in spared}) == 1
    assert len({one.about for one in ended}) == 2
