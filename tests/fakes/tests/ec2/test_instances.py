"""Instances as Describe and Terminate show them, and templates."""

import base64
from typing import Any

import pytest

from fakes.ec2.calling import TEMPLATE, a_fleet, a_template, client_of, ids_of, refused, states_of
from fakes.ec2.control import Control

pytestmark = pytest.mark.real_loop
UNKNOWN = "i-0ffffffffffffffff"


def pool_tag(value: str) -> list[dict[str, Any]]:
    return [{"ResourceType": "instance", "Tags": [{"Key": "bullpen:pool", "Value": value}]}]


async def test_instances_are_found_by_tag_and_state_page_by_page(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        ours = ids_of(await ec2.create_fleet(**a_fleet(12, TagSpecifications=pool_tag("ours"))))
        await ec2.create_fleet(**a_fleet(2, TagSpecifications=pool_tag("theirs")))
        await ec2.terminate_instances(InstanceIds=ours[:2])
        filters = [
            {"Name": "tag:bullpen:pool", "Values": ["ours"]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        pages = ec2.get_paginator("describe_instances").paginate(Filters=filters, PaginationConfig={"PageSize": 5})
        found = [
            [one["InstanceId"] for each in page["Reservations"] for one in each["Instances"]] async for page in pages
        ]
        assert [len(page) for page in found] == [5, 5]
        assert sorted(id for page in found for id in page) == sorted(ours[2:])
        async with refused("InvalidParameterValue"):
            await ec2.describe_instances(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])


async def test_a_new_instance_is_unknown_for_a_while(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.timing(describe_lag=60, boot=90)
        [id] = ids_of(await ec2.create_fleet(**a_fleet()))
        async with refused("InvalidInstanceID.NotFound"):
            await ec2.describe_instances(InstanceIds=[id])
        assert (await ec2.describe_instances())["Reservations"] == []
        cloud.timing(terminate_lag=60)
        async with refused("InvalidInstanceID.NotFound"):
            await ec2.terminate_instances(InstanceIds=[id])
        cloud.advance(61)
        assert await states_of(ec2, id) == ["pending"]
        cloud.advance(30)
        assert await states_of(ec2, id) == ["running"]


async def test_one_unknown_id_spoils_the_whole_batch(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        ids = ids_of(await ec2.create_fleet(**a_fleet(2)))
        async with refused("InvalidInstanceID.NotFound"):
            await ec2.terminate_instances(InstanceIds=[*ids, UNKNOWN])
        async with refused("InvalidInstanceID.Malformed"):
            await ec2.terminate_instances(InstanceIds=[*ids, "local-1"])
        assert await states_of(ec2, *ids) == ["running", "running"]


async def test_a_terminated_instance_shuts_down_first_stays_visible_and_may_be_terminated_again(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.timing(shutdown=30, terminated_visible=600)
        [id] = ids_of(await ec2.create_fleet(**a_fleet()))
        for before in ("running", "shutting-down"):
            answer = await ec2.terminate_instances(InstanceIds=[id])
            [change] = answer["TerminatingInstances"]
            assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == (before, "shutting-down")
        cloud.advance(31)
        assert await states_of(ec2, id) == ["terminated"]
        await ec2.terminate_instances(InstanceIds=[id])
        cloud.advance(600)
        async with refused("InvalidInstanceID.NotFound"):
            await ec2.terminate_instances(InstanceIds=[id])


async def test_a_described_instance_is_as_its_template_said(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        template = await a_template(ec2, MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1})
        [id] = ids_of(await ec2.create_fleet(**a_fleet(market="spot", ClientToken="mine")))
        await ec2.create_tags(Resources=[id], Tags=[{"Key": "more", "Value": "yes"}])
        [one] = (await ec2.describe_instances(InstanceIds=[id]))["Reservations"][0]["Instances"]
        assert one["InstanceLifecycle"] == "spot"
        assert one["ClientToken"] == "mine"
        assert one["IamInstanceProfile"]["Arn"].endswith("instance-profile/bullpen-instance")
        assert one["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": 1}
        tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
        assert tags["more"] == "yes"
        assert tags["aws:ec2launchtemplate:id"] == template


async def test_a_template_name_is_taken_once_and_free_again_when_deleted(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        async with refused("InvalidLaunchTemplateName.AlreadyExistsException"):
            await a_template(ec2)
        await ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
        async with refused("InvalidLaunchTemplateName.NotFoundException"):
            await ec2.describe_launch_templates(LaunchTemplateNames=[TEMPLATE])
        await a_template(ec2)
        assert len((await ec2.describe_launch_templates())["LaunchTemplates"]) == 1


async def test_a_version_holds_only_what_was_given_unless_it_has_a_source(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2, "echo hello")
        named = {"LaunchTemplateName": TEMPLATE, "LaunchTemplateData": {"KeyName": "key"}}
        await ec2.create_launch_template_version(**named)
        await ec2.create_launch_template_version(**named, SourceVersion="1")
        answer = await ec2.describe_launch_template_versions(LaunchTemplateName=TEMPLATE)
        first, bare, derived = (one["LaunchTemplateData"] for one in answer["LaunchTemplateVersions"])
        assert base64.b64decode(first["UserData"]) == b"echo hello"
        assert bare == {"KeyName": "key"}
        assert derived == {**first, "KeyName": "key"}


async def test_a_template_that_could_never_launch_is_refused(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        async with refused("InvalidParameterValue"):
            await a_template(ec2, script="x" * (16 * 1024 + 1))
        async with refused("InvalidUserData.Malformed"):
            await a_template(ec2, UserData="not base64!")
        async with refused("InvalidParameterCombination"):
            await a_template(ec2, InstanceType="m5.large")
        await a_template(ec2, script="x" * (16 * 1024))
