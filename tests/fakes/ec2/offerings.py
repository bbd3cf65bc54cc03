"""What there is to launch on and from: zones, subnets, security groups, images, and types with their attributes."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from fakes.ec2 import requirements
from fakes.ec2.account import Ec2Account
from fakes.ec2.catalogue import ON_DEMAND, SPOT, TYPES, InstanceType
from fakes.ec2.filters import filtered, page
from fakes.ec2.ground import ACCOUNT, ALL_IMAGES, ALL_SUBNETS, REGION, SECURITY_GROUP, SUBNETS, VPC, Image, Subnet
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal
from fakes.ec2.writing import Answer

Thing = TypeVar("Thing")


def zones(account: Ec2Account, params: Params) -> Answer:
    found = filtered(SUBNETS, params.get("Filters", []), lambda subnet, name: _zone_values(subnet, name))
    shown = [
        {"ZoneName": subnet.zone, "ZoneId": subnet.zone_id, "RegionName": REGION, "State": "available"}
        for subnet in found
    ]
    return {"AvailabilityZones": shown}


def subnets(account: Ec2Account, params: Params) -> Answer:
    found = _picked(ALL_SUBNETS, params.get("SubnetIds"), "InvalidSubnetID.NotFound", "The subnet ID")
    found = filtered(found, params.get("Filters", []), _subnet_values)
    shown, following = page(found, params)
    return {
        "Subnets": [
            {
                "SubnetId": subnet.id,
                "AvailabilityZone": subnet.zone,
                "AvailabilityZoneId": subnet.zone_id,
                "VpcId": VPC,
                "OwnerId": ACCOUNT,
                "State": "available",
                "AvailableIpAddressCount": subnet.free_addresses,
            }
            for subnet in shown
        ],
        **following,
    }


def security_groups(account: Ec2Account, params: Params) -> Answer:
    groups = {SECURITY_GROUP: SECURITY_GROUP}
    found = _picked(groups, params.get("GroupIds"), "InvalidGroup.NotFound", "The security group")
    found = filtered(found, params.get("Filters", []), lambda id, name: {"group-id": [id], "vpc-id": [VPC]}.get(name))
    shown = [{"GroupId": id, "GroupName": "bullpen", "VpcId": VPC, "OwnerId": ACCOUNT} for id in found]
    return {"SecurityGroups": shown}


def images(account: Ec2Account, params: Params) -> Answer:
    found = _picked(ALL_IMAGES, params.get("ImageIds"), "InvalidAMIID.NotFound", "The image id")
    shown = [
        {
            "ImageId": image.id,
            "Name": image.name,
            "Architecture": image.architecture,
            "RootDeviceName": image.root_device,
            "BlockDeviceMappings": [{"DeviceName": image.root_device, "Ebs": {"VolumeSize": image.root_size}}],
            "State": "available",
        }
        for image in filtered(found, params.get("Filters", []), _image_values)
    ]
    return {"Images": shown}


def instance_types(account: Ec2Account, params: Params) -> Answer:
    found = _picked(TYPES, params.get("InstanceTypes"), "InvalidInstanceType", "The instance type")
    shown, following = page(filtered(found, params.get("Filters", []), _type_values), params, most=100)
    return {"InstanceTypes": [_shown_type(kind) for kind in shown], **following}


def types_from_requirements(account: Ec2Account, params: Params) -> Answer:
    """The union of both markets: what EC2 previews without knowing which one will be asked."""
    structure = params["InstanceRequirements"]
    requirements.check(structure)
    found = [
        kind
        for market in (ON_DEMAND, SPOT)
        for kind in requirements.matching(structure, params["ArchitectureTypes"], market)
    ]
    shown, following = page(sorted({kind.name for kind in found}), params)
    return {"InstanceTypes": [{"InstanceType": name} for name in shown], **following}


def _picked(known: dict[str, Thing], ids: Iterable[str] | None, code: str, what: str) -> list[Thing]:
    if not ids:
        return list(known.values())
    for id in ids:
        if id not in known:
            raise Ec2Refusal(code, f"{what} '{id}' does not exist")
    return [known[id] for id in ids]


def _zone_values(subnet: Subnet, name: str) -> Sequence[str] | None:
    return {"zone-name": [subnet.zone], "zone-id": [subnet.zone_id], "state": ["available"]}.get(name)


def _subnet_values(subnet: Subnet, name: str) -> Sequence[str] | None:
    return {"subnet-id": [subnet.id], "availability-zone": [subnet.zone], "vpc-id": [VPC]}.get(name)


def _image_values(image: Image, name: str) -> Sequence[str] | None:
    return {"image-id": [image.id], "name": [image.name], "architecture": [image.architecture]}.get(name)


def _type_values(kind: InstanceType, name: str) -> Sequence[str] | None:
    def said(claim: bool) -> list[str]:
        return ["true" if claim else "false"]

    return {
        "instance-type": [kind.name],
        "current-generation": said(kind.is_current),
        "bare-metal": said(kind.is_bare_metal),
        "burstable-performance-supported": said(kind.is_burstable),
        "processor-info.supported-architecture": [kind.architecture],
        "supported-usage-class": _usage_classes(kind),
        "vcpu-info.default-vcpus": [str(kind.vcpus)],
        "memory-info.size-in-mib": [str(kind.memory)],
    }.get(name)


def _usage_classes(kind: InstanceType) -> list[str]:
    return [ON_DEMAND, SPOT] if kind.sells_spot else [ON_DEMAND]


def _shown_type(kind: InstanceType) -> dict[str, Any]:
    return {
        "InstanceType": kind.name,
        "CurrentGeneration": kind.is_current,
        "BareMetal": kind.is_bare_metal,
        "BurstablePerformanceSupported": kind.is_burstable,
        "SupportedUsageClasses": _usage_classes(kind),
        "ProcessorInfo": {"SupportedArchitectures": [kind.architecture]},
        "VCpuInfo": {"DefaultVCpus": kind.vcpus},
        "MemoryInfo": {"SizeInMiB": kind.memory},
    }
