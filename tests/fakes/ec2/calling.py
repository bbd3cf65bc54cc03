"""Calls of the unmodified AWS client: what tests of the cloud begin with."""

import base64
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import pytest
from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import ClientError

from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, REGION, SECURITY_GROUP, SUBNETS, Subnet

TEMPLATE = "pool-0123456789abcdef"


@cache
def session() -> Any:
    """One for all tests, because it keeps the services' descriptions, which take half a second to read."""
    return get_session()


@asynccontextmanager
async def client_of(cloud: Control, service: str = "ec2", **credentials: str) -> AsyncIterator[Any]:
    """A client that asks once; a test of retries makes its own."""
    once = Config(retries={"total_max_attempts": 1})
    where = {"endpoint_url": cloud.url, "region_name": REGION}
    async with session().create_client(service, config=once, **where, **credentials) as client:
        yield client


async def a_template(ec2: Any, script: str = "", name: str = TEMPLATE, **changes: Any) -> str:
    """Make a launch template as Bullpen does; `changes` replace parts of its content, None removes one."""
    data: dict[str, Any] = {
        "ImageId": AMAZON_LINUX.id,
        "InstanceRequirements": {"VCpuCount": {"Min": 2}, "MemoryMiB": {"Min": 4096}},
        "IamInstanceProfile": {"Name": PROFILE},
        "SecurityGroupIds": [SECURITY_GROUP],
        "InstanceInitiatedShutdownBehavior": "terminate",
        "UserData": base64.b64encode(script.encode()).decode(),
        **changes,
    }
    given = {part: value for part, value in data.items() if value is not None}
    answer = await ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=given)
    return str(answer["LaunchTemplate"]["LaunchTemplateId"])


def a_fleet(
    count: int = 1, market: str = "on-demand", subnets: Iterable[Subnet] = SUBNETS, **changes: Any
) -> dict[str, Any]:
    """An instant fleet of the template, one override for each subnet; None removes a part."""
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateName": TEMPLATE, "Version": "1"},
        "Overrides": [{"SubnetId": subnet.id} for subnet in subnets],
    }
    asked: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [config],
        "TargetCapacitySpecification": {"TotalTargetCapacity": count, "DefaultTargetCapacityType": market},
        **changes,
    }
    return {part: value for part, value in asked.items() if value is not None}


def ids_of(answer: dict[str, Any]) -> list[str]:
    return [id for group in answer.get("Instances", ()) for id in group["InstanceIds"]]


def codes_of(answer: dict[str, Any]) -> set[str]:
    return {error["ErrorCode"] for error in answer.get("Errors", ())}


async def states_of(ec2: Any, *ids: str) -> list[str]:
    answer = await ec2.describe_instances(InstanceIds=list(ids))
    return [one["State"]["Name"] for found in answer["Reservations"] for one in found["Instances"]]


@asynccontextmanager
async def refused(code: str) -> AsyncIterator[None]:
    """The calls inside are answered with this error."""
    with pytest.raises(ClientError) as caught:
        yield
    assert caught.value.response["Error"]["Code"] == code, caught.value
