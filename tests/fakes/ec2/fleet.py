"""CreateFleet: what EC2 refuses before it launches anything, and the answer's shape.

Only `instant` is played. A request without a type would be a `maintain` fleet, which replaces what we terminate.
"""

import secrets
from collections.abc import Iterator
from typing import Any

from fakes.ec2 import requirements, templates
from fakes.ec2.account import Ec2Account
from fakes.ec2.allocation import FleetOutcome, Offer, allocate
from fakes.ec2.catalogue import ON_DEMAND, SPOT
from fakes.ec2.ground import ALL_SUBNETS
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal, invalid
from fakes.ec2.replay import replayed
from fakes.ec2.writing import Answer

MOST_REQUIREMENTS = 4  # InstanceRequirements structures in the overrides of one request
MOST_MINIMUM = 1000
BY_ATTRIBUTES = {  # the only strategies that may choose types by their attributes
    SPOT: ("price-capacity-optimized", "capacity-optimized", "lowest-price"),
    ON_DEMAND: ("lowest-price",),
}
OPTIONS = {SPOT: "SpotOptions", ON_DEMAND: "OnDemandOptions"}


def create(account: Ec2Account, params: Params) -> Answer:
    return replayed(account, "CreateFleet", params, lambda: _create(account, params))


def _create(account: Ec2Account, params: Params) -> Answer:
    _check_request(params)
    _check_pools(params)
    offers = [offer for config in params["LaunchTemplateConfigs"] for offer in _offers(account, config)]
    targets = _targets(params)
    for market in targets:
        _check_market(params.get(OPTIONS[market], {}), market, offers)
    fleet_id = f"fleet-{secrets.token_hex(4)}-{secrets.token_hex(2)}-{secrets.token_hex(6)}"
    outcomes = [allocate(account, fleet_id, params, offers, market, count) for market, count in targets.items()]
    answer = _answer(fleet_id, outcomes)
    account.fleets[fleet_id] = {
        "token": params.get("ClientToken", ""),
        "asked": params["TargetCapacitySpecification"]["TotalTargetCapacity"],
        "instances": [instance.id for outcome in outcomes for _, instance in outcome.launches],
        "errors": [error["ErrorCode"] for outcome in outcomes for error in outcome.errors],
    }
    return answer


def _check_request(params: Params) -> None:
    if params.get("Type") != "instant":
        raise invalid(
            f"Type is {params.get('Type', 'omitted, which means maintain')}; only instant fleets are played here"
        )
    if not params["LaunchTemplateConfigs"]:
        raise Ec2Refusal("MissingParameter", "The request must contain a launch template")
    for specification in params.get("TagSpecifications", []):
        if specification.get("ResourceType") not in ("fleet", "instance"):
            raise invalid(
                f"'{specification.get('ResourceType')}' is not a valid taggable resource type for this operation."
            )
    if params["TargetCapacitySpecification"]["TotalTargetCapacity"] < 1:
        raise invalid("TotalTargetCapacity must be at least 1")


def _check_pools(params: Params) -> None:
    """What is wrong between overrides: subnets of one zone, or too many structures."""
    overrides = [one for config in params["LaunchTemplateConfigs"] for one in config.get("Overrides", [])]
    subnets: dict[str, str] = {}
    for override in overrides:
        id = override.get("SubnetId", "")
        if "," in id:
            raise invalid(f"An instant fleet takes exactly one subnet in an override: {id}")
        if subnet := ALL_SUBNETS.get(id):
            if subnets.setdefault(subnet.zone, id) != id:
                raise Ec2Refusal("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools.")
        elif id:
            raise Ec2Refusal("InvalidSubnetID.NotFound", f"The subnet ID '{id}' does not exist")
    structures = [one["InstanceRequirements"] for one in overrides if "InstanceRequirements" in one]
    if len(structures) > MOST_REQUIREMENTS:
        raise Ec2Refusal(
            "InvalidFleetConfig", f"At most {MOST_REQUIREMENTS} InstanceRequirements are allowed in a request."
        )
    for structure in structures:
        requirements.check(structure)
    if any("InstanceType" in one and "InstanceRequirements" in one for one in overrides):
        raise Ec2Refusal("InvalidParameterCombination", "InstanceType and InstanceRequirements can't be used together")


def _offers(account: Ec2Account, config: dict[str, Any]) -> Iterator[Offer]:
    """The template with each of its overrides laid over it."""
    named = config.get("LaunchTemplateSpecification", {})
    if "Version" not in named:
        raise Ec2Refusal(
            "MissingParameter", "The request must contain the parameter launchTemplateSpecification.version"
        )
    template = templates.find(account, named)
    version = templates.resolve(template, named["Version"])
    for override in config.get("Overrides") or [{}]:
        data = dict(template.versions[version])
        if "InstanceType" in override:
            data.pop("InstanceRequirements", None)
        elif "InstanceRequirements" in override:
            data.pop("InstanceType", None)
        own = {name: override[name] for name in ("InstanceType", "InstanceRequirements", "ImageId") if name in override}
        yield Offer(template, version, {**data, **own}, override)


def _targets(params: Params) -> dict[str, int]:
    """How many of each market; what is left open goes to the default one."""
    asked = params["TargetCapacitySpecification"]
    counts = {ON_DEMAND: asked.get("OnDemandTargetCapacity", 0), SPOT: asked.get("SpotTargetCapacity", 0)}
    rest = asked["TotalTargetCapacity"] - sum(counts.values())
    if rest < 0:
        raise invalid("The target capacities exceed TotalTargetCapacity")
    if rest:
        default = asked.get("DefaultTargetCapacityType")
        if default not in counts:
            raise Ec2Refusal("MissingParameter", "DefaultTargetCapacityType says which market the rest is of")
        counts[default] += rest
    return {market: count for market, count in counts.items() if count}


def _check_market(options: dict[str, Any], market: str, offers: list[Offer]) -> None:
    strategy = options.get("AllocationStrategy", "lowest-price")
    if any("InstanceRequirements" in offer.data for offer in offers):
        if strategy not in BY_ATTRIBUTES[market]:
            raise Ec2Refusal(
                "InvalidFleetConfig", f"{strategy} can't be used with InstanceRequirements for {market} capacity"
            )
        if any("WeightedCapacity" in offer.override or "Priority" in offer.override for offer in offers):
            raise Ec2Refusal("InvalidFleetConfig", "weights and priorities can't be used with InstanceRequirements")
    minimum = options.get("MinTargetCapacity")
    if minimum is not None:
        if not options.get("SingleInstanceType") and not options.get("SingleAvailabilityZone"):
            raise invalid("MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone")
        if not 0 <= minimum <= MOST_MINIMUM:
            raise invalid(f"MinTargetCapacity must be 0 to {MOST_MINIMUM}")


def _answer(fleet_id: str, outcomes: list[FleetOutcome]) -> Answer:
    """Instances in groups of one pool each; neither key where there is nothing to say."""
    groups: dict[tuple[Offer, str, str], list[str]] = {}
    for outcome in outcomes:
        for offer, instance in outcome.launches:
            groups.setdefault((offer, instance.kind.name, instance.market), []).append(instance.id)
    shown = [
        {
            "LaunchTemplateAndOverrides": offer.shown(type_name),
            "Lifecycle": market,
            "InstanceIds": ids,
            "InstanceType": type_name,
        }
        for (offer, type_name, market), ids in groups.items()
    ]
    errors = [error for outcome in outcomes for error in outcome.errors]
    return {
        "FleetId": fleet_id,
        **({"Instances": shown} if shown else {}),
        **({"Errors": errors} if errors else {}),
    }
