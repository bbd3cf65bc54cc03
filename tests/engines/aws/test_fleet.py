"""A fleet request as data, and how EC2's answer becomes machines."""

from typing import Any

import pytest

from builders import a_plan
from bullpen.config import Aws
from bullpen.engines.aws.ec2 import fleet
from bullpen.errors import ConfigError
from bullpen.model.fleet import Cause, shortfall
from bullpen.model.ticket import UsageClass

SUBNETS = tuple(f"subnet-{n}" for n in range(6))
AWS = Aws(pool="ci-pool", subnets=SUBNETS, tags={"team": "build"})
SIZES = {"c6i.large": (2, 4096)}


def group(kind: str, *ids: str, lifecycle: str = "on-demand") -> dict[str, Any]:
    return {"InstanceType": kind, "Lifecycle": lifecycle, "InstanceIds": list(ids)}


def tags_of(request: dict[str, Any], kind: str) -> dict[str, str]:
    (found,) = [one["Tags"] for one in request["TagSpecifications"] if one["ResourceType"] == kind]
    return {tag["Key"]: tag["Value"] for tag in found}


def test_a_request_is_instant_and_pins_its_template_and_token() -> None:
    plan = a_plan(count=7, client_token="token-1")
    request = fleet.request(plan, AWS, "lt-0123")
    (config,) = request["LaunchTemplateConfigs"]
    assert (request["Type"], request["ClientToken"]) == ("instant", "token-1")
    assert config["LaunchTemplateSpecification"] == {"LaunchTemplateId": "lt-0123", "Version": "1"}
    assert request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 7


def test_all_six_subnets_are_in_one_request_and_an_override_carries_nothing_else() -> None:
    (config,) = fleet.request(a_plan(), AWS, "t")["LaunchTemplateConfigs"]
    assert config["Overrides"] == [{"SubnetId": subnet} for subnet in SUBNETS]


def test_spot_is_asked_for_where_capacity_is_deepest_and_on_demand_where_it_is_cheapest() -> None:
    spot = fleet.request(a_plan(usage_class=UsageClass.SPOT), AWS, "t")
    on_demand = fleet.request(a_plan(), AWS, "t")
    assert spot["SpotOptions"]["AllocationStrategy"] == "price-capacity-optimized"
    assert spot["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    assert "OnDemandOptions" not in spot
    assert on_demand["OnDemandOptions"]["AllocationStrategy"] == "lowest-price"
    assert on_demand["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"
    assert "SpotOptions" not in on_demand


@pytest.mark.parametrize("kind", ["fleet", "instance"])
def test_machines_and_fleet_say_whose_they_are_and_for_which_provision(kind: str) -> None:
    tags = tags_of(fleet.request(a_plan(provision_id="p-7"), AWS, "t"), kind)
    assert tags == {
        "Name": "ci-pool small",
        "team": "build",
        "bullpen:pool": "ci-pool",
        "bullpen:provision": "p-7",
        "bullpen:class": "small",
    }


def test_tags_of_the_settings_may_name_machines_but_not_give_them_away() -> None:
    aws = Aws(pool="ci-pool", subnets=SUBNETS, tags={"Name": "runner", "bullpen:pool": "other"})
    tags = tags_of(fleet.request(a_plan(), aws, "t"), "instance")
    assert (tags["Name"], tags["bullpen:pool"]) == ("runner", "ci-pool")


def test_without_a_subnet_nothing_is_asked() -> None:
    with pytest.raises(ConfigError, match=r"aws\.subnets"):
        fleet.request(a_plan(), Aws(), "t")


def test_the_groups_of_an_answer_are_flattened() -> None:
    answer = {"Instances": [group("c6i.large", "i-1", "i-2"), group("m5.large", "i-3", lifecycle="spot")]}
    read = fleet.read(a_plan(count=3, cpu=1, mem=1024), answer, SIZES)
    assert [(one.id, one.instance_type, one.usage_class) for one in read.machines] == [
        ("i-1", "c6i.large", UsageClass.ON_DEMAND),
        ("i-2", "c6i.large", UsageClass.ON_DEMAND),
        ("i-3", "m5.large", UsageClass.SPOT),
    ]
    assert fleet.types(answer) == ["c6i.large", "m5.large"]


def test_a_type_of_unknown_size_has_what_was_asked_for_at_least() -> None:
    answer = {"Instances": [group("c6i.large", "i-1"), group("x9.odd", "i-2")]}
    known, unknown = fleet.read(a_plan(count=2, cpu=1, mem=1024), answer, SIZES).machines
    assert (known.cpu, known.mem) == (2, 4096)
    assert (unknown.cpu, unknown.mem) == (1, 1024)


def test_an_id_that_is_listed_twice_is_one_machine() -> None:
    plan = a_plan(count=2)
    read = fleet.read(plan, {"Instances": [group("c6i.large", "i-1", "i-1"), group("c6i.large", "i-1")]}, SIZES)
    assert [one.id for one in read.machines] == ["i-1"]
    assert shortfall(plan, read)


def test_reserved_capacity_counts_as_on_demand() -> None:
    answer = {"Instances": [group("c6i.large", "i-1", lifecycle="interruptible-capacity-reservation")]}
    assert fleet.read(a_plan(), answer, SIZES).machines[0].usage_class is UsageClass.ON_DEMAND


def test_an_answer_with_nothing_in_it_is_short() -> None:
    plan = a_plan(count=1)
    assert shortfall(plan, fleet.read(plan, {}, SIZES)) == "the machine could not be launched"


def test_errors_beside_a_full_count_do_not_matter() -> None:
    plan = a_plan(count=1)
    errors = [{"ErrorCode": "InsufficientInstanceCapacity", "ErrorMessage": "zone a"}]
    read = fleet.read(plan, {"Instances": [group("c6i.large", "i-1")], "Errors": errors}, SIZES)
    assert [error.cause for error in read.errors] == [Cause.CAPACITY]
    assert shortfall(plan, read) == ""
