"""What gets launched: pools of capacity, drawn from until the target is met, and errors for what is not available.

A pool is one type in one zone of one market. An instant fleet takes what there is: a shortage shows as errors inside an
answer that otherwise succeeds, unless the request named a minimum.
"""

from dataclasses import dataclass, field
from typing import Any

from fakes.ec2 import requirements
from fakes.ec2.account import Ec2Account, Ec2Instance, Template, new_id
from fakes.ec2.catalogue import ON_DEMAND, SPOT, TYPES, InstanceType
from fakes.ec2.ground import ALL_IMAGES, ALL_SUBNETS, PROFILE, PROFILE_ARN, SECURITY_GROUP, SUBNETS, Subnet
from fakes.ec2.models import ec2_shape
from fakes.ec2.reading import Params
from fakes.ec2.tags import tags_of
from fakes.ec2.writing import projected

NO_CAPACITY = {ON_DEMAND: "InsufficientInstanceCapacity", SPOT: "UnfulfillableCapacity"}
NO_QUOTA = {ON_DEMAND: "VcpuLimitExceeded", SPOT: "MaxSpotInstanceCountExceeded"}


@dataclass(frozen=True, eq=False)
class Offer:
    """One way to launch: a template's content with an override laid over it. Two are never the same."""

    template: Template
    version: int
    data: dict[str, Any]
    override: dict[str, Any]

    @property
    def subnet(self) -> Subnet:
        return ALL_SUBNETS[self.override["SubnetId"]] if "SubnetId" in self.override else SUBNETS[0]

    def shown(self, instance_type: str | None = None) -> dict[str, Any]:
        override = projected(self.override, ec2_shape("FleetLaunchTemplateOverrides"))
        named = {"LaunchTemplateId": self.template.id, "Version": str(self.version)}
        chosen = {"InstanceType": instance_type} if instance_type else {}
        return {"LaunchTemplateSpecification": named, "Overrides": {**override, **chosen}}


@dataclass
class FleetOutcome:
    market: str
    launches: list[tuple[Offer, Ec2Instance]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def fail(self, offer: Offer, code: str, message: str, instance_type: str | None = None) -> None:
        shown = {"LaunchTemplateAndOverrides": offer.shown(instance_type), "Lifecycle": self.market}
        self.errors.append({**shown, "ErrorCode": code, "ErrorMessage": message})


Pool = tuple[Offer, InstanceType]


def allocate(
    account: Ec2Account, fleet_id: str, params: Params, offers: list[Offer], market: str, count: int
) -> FleetOutcome:
    outcome = FleetOutcome(market)
    limit = count
    if spoiled := account.faults.spoiling():
        outcome.fail(offers[0], spoiled.code, spoiled.message)
        limit = min(count, spoiled.launches)
    options = params.get("SpotOptions" if market == SPOT else "OnDemandOptions", {})
    pools = _pools(offers, outcome)
    pools = _single(account, pools, options, market)
    taken = _take(account, pools, limit, outcome)
    if sum(number for _, number in taken) < options.get("MinTargetCapacity", 0):
        outcome.fail(offers[0], "UnfulfillableCapacity", "The minimum target capacity could not be met.")
        return outcome
    for (offer, kind), number in taken:
        account.faults.draw(kind.name, offer.subnet.zone, market, number)
        reservation = new_id("r")
        outcome.launches += [
            (offer, _launch(account, fleet_id, reservation, params, offer, kind, market)) for _ in range(number)
        ]
    return outcome


def _pools(offers: list[Offer], outcome: FleetOutcome) -> list[Pool]:
    """Every pool that could serve, the cheapest first; what is wrong with an offer becomes its error."""
    pools: list[Pool] = []
    for offer in offers:
        if mistake := _mistake(offer, outcome.market):
            outcome.fail(offer, *mistake)
            continue
        architecture = ALL_IMAGES[offer.data["ImageId"]].architecture
        if "InstanceRequirements" in offer.data:
            kinds = requirements.matching(offer.data["InstanceRequirements"], [architecture], outcome.market)
            if not kinds:
                outcome.fail(offer, "InvalidFleetConfiguration", "No instance type matches the instance requirements.")
        else:
            kinds = [TYPES[offer.data["InstanceType"]]]
        pools += [(offer, kind) for kind in kinds]
    return sorted(pools, key=lambda pool: (requirements.price_of(pool[1], outcome.market), pool[1].name))


def _mistake(offer: Offer, market: str) -> tuple[str, str] | None:
    data = offer.data
    image, type_name = data.get("ImageId"), data.get("InstanceType")
    if image not in ALL_IMAGES:
        return "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist"
    if "InstanceRequirements" not in data:
        if type_name not in TYPES:
            return "InvalidFleetConfiguration", f"There is no instance type {type_name} here."
        if TYPES[type_name].architecture != ALL_IMAGES[image].architecture:
            return "InvalidFleetConfiguration", f"The architecture of {type_name} does not match that of {image}."
    for group in data.get("SecurityGroupIds", []):
        if group != SECURITY_GROUP:
            return "InvalidGroup.NotFound", f"The security group '{group}' does not exist"
    profile = data.get("IamInstanceProfile", {})
    if profile.get("Name", PROFILE) != PROFILE or profile.get("Arn", PROFILE_ARN) != PROFILE_ARN:
        named = profile.get("Name") or profile.get("Arn")
        return "InvalidParameterValue", f"Value ({named}) for parameter iamInstanceProfile.name is invalid."
    if market == ON_DEMAND and tags_of(data, "spot-instances-request"):
        return "InvalidParameterValue", "'spot-instances-request' is not a valid taggable resource type."
    return None


def _single(account: Ec2Account, pools: list[Pool], options: dict[str, Any], market: str) -> list[Pool]:
    """One type, or one zone, where the request asks for that: whichever has most room."""

    def room(kept: list[Pool]) -> int:
        return sum(account.faults.room(kind.name, offer.subnet.zone, market) for offer, kind in kept)

    if options.get("SingleInstanceType") and pools:
        names = dict.fromkeys(kind.name for _, kind in pools)
        pools = max(([pool for pool in pools if pool[1].name == name] for name in names), key=room)
    if options.get("SingleAvailabilityZone") and pools:
        zones = dict.fromkeys(offer.subnet.zone for offer, _ in pools)
        pools = max(([pool for pool in pools if pool[0].subnet.zone == zone] for zone in zones), key=room)
    return pools


def _take(account: Ec2Account, pools: list[Pool], count: int, outcome: FleetOutcome) -> list[tuple[Pool, int]]:
    """How many of each pool; the budgets of `Faults.capacity` may span several, so they are drawn and put back."""
    market, missing = outcome.market, count
    taken: list[tuple[Pool, int]] = []
    for offer, kind in pools:
        if missing == 0:
            break
        room = account.faults.room(kind.name, offer.subnet.zone, market)
        affordable = int(vcpus_left(account, market, taken) // kind.vcpus)
        number = min(missing, max(0, room), max(0, affordable))
        if number:
            account.faults.draw(kind.name, offer.subnet.zone, market, number)
            taken.append(((offer, kind), number))
            missing -= number
        if missing and affordable <= room:
            limit = f"You have requested more vCPU capacity than your limit of {account.faults.quotas[market]:g}."
            outcome.fail(offer, NO_QUOTA[market], limit, kind.name)
        elif missing:
            short = f"There is no more {market} capacity of {kind.name} in {offer.subnet.zone}."
            outcome.fail(offer, NO_CAPACITY[market], short, kind.name)
    for (offer, kind), number in taken:
        account.faults.draw(kind.name, offer.subnet.zone, market, -number)
    return taken


def vcpus_left(account: Ec2Account, market: str, taken: list[tuple[Pool, int]]) -> float:
    alive = [one for one in account.instances.values() if one.market == market and one.ended_at is None]
    used = sum(one.kind.vcpus for one in alive) + sum(kind.vcpus * number for (_, kind), number in taken)
    return account.faults.quotas[market] - used


def _launch(
    account: Ec2Account,
    fleet_id: str,
    reservation_id: str,
    params: Params,
    offer: Offer,
    kind: InstanceType,
    market: str,
) -> Ec2Instance:
    automatic = {
        "aws:ec2:fleet-id": fleet_id,
        "aws:ec2launchtemplate:id": offer.template.id,
        "aws:ec2launchtemplate:version": str(offer.version),
    }
    instance = Ec2Instance(
        id=new_id("i"),
        kind=kind,
        market=market,
        subnet=offer.subnet,
        template=offer.template,
        version=offer.version,
        data=offer.data,
        tags={**tags_of(offer.data, "instance"), **tags_of(params, "instance"), **automatic},
        fleet_id=fleet_id,
        reservation_id=reservation_id,
        client_token=params.get("ClientToken", ""),
        launched_at=account.clock.now(),
    )
    account.instances[instance.id] = instance
    account.launched(instance)
    return instance
