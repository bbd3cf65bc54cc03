"""CreateFleet as the unmodified AWS client meets it."""

from typing import Any

import pytest

from fakes.ec2.calling import TEMPLATE, a_fleet, a_template, client_of, codes_of, ids_of, refused
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX_ARM, SECOND_SUBNET, SUBNETS

pytestmark = pytest.mark.real_loop
SMALL = {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 2048}}


def config(**specification: str) -> list[dict[str, Any]]:
    return [{"LaunchTemplateSpecification": specification}]


def over(*overrides: dict[str, Any]) -> list[dict[str, Any]]:
    named = {"LaunchTemplateName": TEMPLATE, "Version": "1"}
    return [{"LaunchTemplateSpecification": named, "Overrides": list(overrides)}]


async def test_a_fleet_launches_what_was_asked_in_groups_with_its_tags(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "bullpen:pool", "Value": "p"}]}]
        answer = await ec2.create_fleet(**a_fleet(5, TagSpecifications=tags))
        assert len(set(ids_of(answer))) == 5
        assert "Errors" not in answer
        group = answer["Instances"][0]
        assert (group["InstanceType"], group["Lifecycle"]) == ("c6a.large", "on-demand")
        assert all(one["tags"]["bullpen:pool"] == "p" for one in cloud.instances("running").values())


async def test_types_are_chosen_by_attributes_with_ec2s_own_surprising_defaults(cloud: Control) -> None:
    everything = {"BurstablePerformance": "included", "OnDemandMaxPricePercentageOverLowestPrice": 999999}
    async with client_of(cloud) as ec2:

        async def matching(**requirements: Any) -> set[str]:
            answer = await ec2.get_instance_types_from_instance_requirements(
                ArchitectureTypes=["x86_64"],
                VirtualizationTypes=["hvm"],
                InstanceRequirements={"VCpuCount": {"Min": 2, "Max": 2}, "MemoryMiB": {"Min": 4096}, **requirements},
            )
            return {one["InstanceType"] for one in answer["InstanceTypes"]}

        narrow, wide = await matching(), await matching(**everything)
        assert {"c6a.large", "c5.large"} <= narrow
        assert not any(name.startswith("t3") for name in narrow), "burstable types are left out unless asked for"
        assert "r6i.large" in wide
        assert "t3.medium" in wide
        assert await matching(AllowedInstanceTypes=["m5a.*"], **everything) == {"m5a.large"}
        assert await matching(AllowedInstanceTypes=["c5*"]) == {"c5.large"}


async def test_an_arm_image_gets_arm_types_only(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2, ImageId=AMAZON_LINUX_ARM.id)
        answer = await ec2.create_fleet(**a_fleet())
        assert answer["Instances"][0]["InstanceType"] == "c7g.large"


async def test_six_subnets_of_six_zones_are_fine_and_two_of_one_are_not(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        assert ids_of(await ec2.create_fleet(**a_fleet(subnets=SUBNETS)))
        async with refused("InvalidFleetConfig"):
            await ec2.create_fleet(**a_fleet(subnets=[*SUBNETS, SECOND_SUBNET]))
        async with refused("InvalidParameterValue"):
            await ec2.create_fleet(
                **a_fleet(LaunchTemplateConfigs=over({"SubnetId": f"{SUBNETS[0].id},{SUBNETS[1].id}"}))
            )


async def test_a_request_says_what_a_machine_is_like_four_times_at_most(cloud: Control) -> None:
    each = [{"SubnetId": subnet.id, "InstanceRequirements": SMALL} for subnet in SUBNETS]
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        assert ids_of(await ec2.create_fleet(**a_fleet(LaunchTemplateConfigs=over(*each[:4]))))
        async with refused("InvalidFleetConfig"):
            await ec2.create_fleet(**a_fleet(LaunchTemplateConfigs=over(*each[:5])))


async def test_what_ec2_refuses_launches_nothing(cloud: Control) -> None:
    both = {"AllowedInstanceTypes": ["m5.*"], "ExcludedInstanceTypes": ["c*"]}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("InvalidParameterValue", {"Type": None}),
        ("InvalidParameterValue", {"TagSpecifications": [{"ResourceType": "volume", "Tags": []}]}),
        ("InvalidParameterValue", {"OnDemandOptions": {"MinTargetCapacity": 1}}),
        ("InvalidFleetConfig", {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}),
        ("DryRunOperation", {"DryRun": True}),
    ]
    configs = [
        ("MissingParameter", config(LaunchTemplateName=TEMPLATE)),
        ("InvalidParameterCombination", config(LaunchTemplateName=TEMPLATE, LaunchTemplateId="lt-1", Version="1")),
        ("InvalidLaunchTemplateName.NotFoundException", config(LaunchTemplateName="other", Version="1")),
        ("InvalidLaunchTemplateId.NotFound", config(LaunchTemplateId="lt-1", Version="1")),
        ("InvalidLaunchTemplateId.VersionNotFound", config(LaunchTemplateName=TEMPLATE, Version="2")),
        ("InvalidParameterCombination", over({"InstanceType": "m5.large", "InstanceRequirements": SMALL})),
        ("InvalidParameterCombination", over({"InstanceRequirements": {**SMALL, **both}})),
        ("InvalidSubnetID.NotFound", over({"SubnetId": "subnet-0"})),
    ]
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        for code, changes in [*rows, *((code, {"LaunchTemplateConfigs": configs}) for code, configs in configs)]:
            async with refused(code):
                await ec2.create_fleet(**a_fleet(**changes))
    assert cloud.instances() == {}


async def test_a_token_again_answers_the_same_and_a_changed_request_is_refused(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        first = await ec2.create_fleet(**a_fleet(3, ClientToken="token"))
        again = await ec2.create_fleet(**a_fleet(3, ClientToken="token"))
        assert ids_of(first) == ids_of(again)
        assert first["FleetId"] == again["FleetId"]
        async with refused("IdempotentParameterMismatch"):
            await ec2.create_fleet(**a_fleet(3, market="spot", ClientToken="token"))
    assert len(cloud.instances()) == 3


async def test_a_launch_that_fails_is_an_error_inside_a_successful_answer(cloud: Control) -> None:
    broken: dict[str, dict[str, Any]] = {
        "InvalidAMIID.NotFound": {"ImageId": "ami-0"},
        "InvalidGroup.NotFound": {"SecurityGroupIds": ["sg-0"]},
        "InvalidParameterValue": {"IamInstanceProfile": {"Name": "other"}},
        "InvalidFleetConfiguration": {"InstanceRequirements": {**SMALL, "AllowedInstanceTypes": ["x9*"]}},
    }
    async with client_of(cloud) as ec2:
        for code, changes in broken.items():
            await a_template(ec2, name=f"broken-{code}", **changes)
            named = config(LaunchTemplateName=f"broken-{code}", Version="$Latest")
            answer = await ec2.create_fleet(**a_fleet(LaunchTemplateConfigs=named))
            assert codes_of(answer) == {code}
            assert ids_of(answer) == []
