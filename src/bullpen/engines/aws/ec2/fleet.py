"""CreateFleet: the request as data, and its answer as machines. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from bullpen.config import Aws
from bullpen.engines.aws.dynamodb.schema import POOL_TAG
from bullpen.engines.aws.ec2 import error_codes
from bullpen.errors import ConfigError
from bullpen.model.fleet import FleetAnswer, FleetPlan, LaunchedMachine
from bullpen.model.ticket import UsageClass

PROVISION_TAG = "bullpen:provision"
CLASS_TAG = "bullpen:class"

Size = tuple[int, int]  # cpu, mem

PINNED = "1"
"""The version of a launch template: its name says its content, so there is never a second one."""


def tags(owned: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in owned.items()]


def request(plan: FleetPlan, aws: Aws, template_id: str) -> dict[str, Any]:
    """The request for a plan. An override carries a subnet and nothing else: what a machine must be like is in the
    template, for a request may say that four times only, and there may be more subnets."""
    if not aws.subnets:
        raise ConfigError("aws.subnets is empty", remedy="Name a subnet for each availability zone to launch in.")
    spot = plan.usage_class is UsageClass.SPOT
    market = {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
    owned = {
        "Name": f"{aws.pool} {plan.resource_class}",
        **aws.tags,
        POOL_TAG: aws.pool,
        PROVISION_TAG: plan.provision_id,
        CLASS_TAG: plan.resource_class,
    }
    return {
        "Type": "instant",  # without it, EC2 makes a fleet that replaces what is ended
        "ClientToken": plan.client_token,
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateId": template_id, "Version": PINNED},
                "Overrides": [{"SubnetId": subnet} for subnet in aws.subnets],
            }
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": plan.count,
            "DefaultTargetCapacityType": plan.usage_class.value,
        },
        **(market if spot else {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}),
        "TagSpecifications": [{"ResourceType": kind, "Tags": tags(owned)} for kind in ("fleet", "instance")],
    }


def types(answer: Mapping[str, Any]) -> list[str]:
    """The instance types that were launched, each once."""
    return list(dict.fromkeys(kind for _, kind, _ in _launched(answer)))


def read(plan: FleetPlan, answer: Mapping[str, Any], sizes: Mapping[str, Size]) -> FleetAnswer:
    """The machines of an answer, each once, and what EC2 says about those that are missing. A type whose size is not
    known has what the plan asked for at least."""
    found: dict[str, LaunchedMachine] = {}
    for id_, kind, lifecycle in _launched(answer):
        usage = UsageClass.SPOT if lifecycle == UsageClass.SPOT else UsageClass.ON_DEMAND
        found[id_] = LaunchedMachine(id_, kind, usage, *sizes.get(kind, (plan.cpu, plan.mem)))
    errors = tuple(error_codes.fleet_error(error) for error in answer.get("Errors", ()))
    return FleetAnswer(tuple(found.values()), errors)


def _launched(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Id, type and lifecycle of each machine. EC2 lists them in groups of the same kind."""
    for group in answer.get("Instances", ()):
        for id_ in group.get("InstanceIds", ()):
            yield id_, group.get("InstanceType", ""), group.get("Lifecycle", "")
