"""`bullpen doctor` for an AWS account: credentials, clock, permissions, then what the pool and its machines need.

The checks run in the order in which you would repair what they find. They change nothing. Each answers with a finding;
one that fails says so and ends no other.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from bullpen.config import Settings
from bullpen.engines.aws.boot.userdata import LIMIT, own_user_data
from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.ec2.template import Template, desired_templates
from bullpen.engines.aws.errors import Declined, call
from bullpen.engines.aws.infrastructure.permissions import check_permissions
from bullpen.engines.aws.infrastructure.policies import QUOTA_CODES, place_of
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, ConfigError
from bullpen.ports import Clock, Gap
from bullpen.ports.health import Finding, Health

FEW_TYPES = 5
"""Fewer than this, and one shortage of capacity leaves little to choose from."""
NO_PROFILE = "NoSuchEntity"
NO_APPLIED_VALUE = "NoSuchResourceException"
"""Service Quotas knows no value of its own for an account that never asked for another: the default one holds."""
MOST_SKEW = 5.0
"""Seconds between this clock and that of AWS. Thresholds are written by one clock and judged by another: of control
planes that differ by minutes, one ends what the other has just given back."""


Gaps = Awaitable[list[Gap]]


async def examine(
    cloud: Cloud,
    settings: Settings,
    clock: Clock,
    table_gaps: Callable[[], Gaps],
    queue_gaps: Callable[[], Gaps],
    template_gaps: Callable[[list[Template]], Gaps],
) -> list[Finding]:
    try:
        who = await call(await cloud.client("sts"), "get_caller_identity")
        now = clock.now()
    except BullpenError as exc:  # whatever else is asked would fail for the same reason
        return [Finding("credentials", Health.FAILED, str(exc), exc.remedy)]
    region = (await cloud.client("dynamodb")).meta.region_name  # permissions are asked of what there is, not a pattern
    findings = [
        Finding("credentials", Health.OK, who["Arn"]),
        check_clock(who, now),
        await check_permissions(cloud, who["Arn"], place_of(settings, who["Account"], region=region)),
        await guarded("table", partial(_gaps, "table", table_gaps)),
        await guarded("queues", partial(_gaps, "queues", queue_gaps)),
    ]
    try:
        script = own_user_data(settings)
        desired = desired_templates(settings, script)
    except ConfigError as exc:
        findings.append(Finding("user data", Health.FAILED, str(exc), exc.remedy))
        desired = []
    else:
        findings.append(Finding("user data", Health.OK, f"{len(script.encode())} of {LIMIT} bytes"))
        gaps = partial(template_gaps, desired)
        findings.append(await guarded("templates", partial(_gaps, "templates", gaps)))
    ground = AccountChecks(cloud, settings)
    checks: dict[str, Callable[[], Awaitable[Finding]]] = {
        "subnets": ground.subnets,
        **{name: partial(ground.image, id) for name, id in _images(settings).items()},
        "security groups": ground.security_groups,
        "instance profile": ground.profile,
        **{f"types of {one.resource_class}": partial(ground.types, one) for one in desired},
        **{f"{market} quota": partial(ground.quota, market) for market in QUOTA_CODES},
    }
    return findings + [await guarded(name, check) for name, check in checks.items()]


async def _gaps(name: str, find: Callable[[], Gaps]) -> Finding:
    gaps = await find()
    if not gaps:
        return Finding(name, Health.OK, "as the settings ask")
    blocking = [gap for gap in gaps if gap.blocks]  # the others follow from it
    told = "; ".join(f"{gap.subject}: {gap.reason}" for gap in blocking or gaps)
    remedy = 'Run `bullpen refresh`, or apply your Terraform if aws.manage = "external".'
    return Finding(name, Health.FAILED, told, remedy)


async def guarded(name: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """The finding of a check, also of one that could not be made."""
    try:
        return await check()
    except BullpenError as exc:
        return Finding(name, Health.FAILED, str(exc), exc.remedy or "Run `bullpen doctor` again.")


def _images(settings: Settings) -> dict[str, str]:
    """Each AMI by the name of its check."""
    images = settings.images
    return {"image": images[0]} if len(images) == 1 else {f"image {id}": id for id in images}


def _root_size(image: Mapping[str, Any], device: str) -> int:
    """GiB of the root volume of an image; 0 if EC2 does not say."""
    volumes = [one.get("Ebs", {}) for one in image.get("BlockDeviceMappings", ()) if one.get("DeviceName") == device]
    return max((int(one.get("VolumeSize", 0)) for one in volumes), default=0)


def check_clock(answer: Mapping[str, Any], now: datetime) -> Finding:
    """Compare this clock with the time of an answer that has just come, which AWS gives in whole seconds."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        ahead = (now - parsedate_to_datetime(date)).total_seconds()
    except (TypeError, ValueError):  # unreadable, or of no time zone
        return Finding("clock", Health.WARNING, "the answer of AWS has no date", "Try again, without a proxy.")
    if abs(ahead) > MOST_SKEW:
        told = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} AWS"
        remedy = "Synchronize this machine's clock with NTP: processes judge each other's deadlines by it."
        return Finding("clock", Health.WARNING, told, remedy)
    return Finding("clock", Health.OK, f"within {MOST_SKEW:g} s of AWS")


class AccountChecks:
    """Subnets, image, groups, profile, types and quotas, as the settings name them."""

    def __init__(self, cloud: Cloud, settings: Settings) -> None:
        self._cloud = cloud
        self._settings = settings
        self._aws = settings.aws
        self._images: dict[str, list[Mapping[str, Any]]] = {}  # as EC2 answered: every class asks for its image

    async def subnets(self) -> Finding:
        found = await self._subnets()
        zones = [one["AvailabilityZone"] for one in found]
        free = sum(one.get("AvailableIpAddressCount", 0) for one in found)
        told = f"{len(found)} in {', '.join(sorted(set(zones)))}; {free} free addresses"
        if twice := ", ".join(sorted({zone for zone in zones if zones.count(zone) > 1})):
            remedy = f"Name one subnet for each zone in aws.subnets: EC2 refuses a fleet with two in {twice}."
            return Finding("subnets", Health.FAILED, told, remedy)
        if len({one["VpcId"] for one in found}) > 1:
            return Finding("subnets", Health.FAILED, f"{told}, in several VPCs", "Name subnets of one VPC.")
        if len(zones) == 1:
            remedy = "Add a subnet of another availability zone to aws.subnets: each is one more pool of capacity."
            return Finding("subnets", Health.WARNING, told, remedy)
        if free < (most := self._settings.limits.max_instances):
            remedy = f"Use larger subnets: each of limits.max-instances ({most}) needs an address."
            return Finding("subnets", Health.WARNING, told, remedy)
        return Finding("subnets", Health.OK, told)

    async def image(self, id: str) -> Finding:
        """It is there, and is what the classes that use it say."""
        name = next(name for name, one in _images(self._settings).items() if one == id)
        image, where = await self._image(id), self._setting_of(id)
        told = f"{id}: {image.get('Name', 'without a name')}, {image['Architecture']}"
        if (state := image.get("State", "available")) != "available":
            return Finding(name, Health.FAILED, f"{told}, {state}", f"Name an AMI in {where} that is available.")
        users = {of: one for of, one in self._settings.classes.items() if self._settings.image_of(of) == id}
        for of, one in users.items():
            if one.architecture not in ("", image["Architecture"]):
                found = f"{told}, and classes.{of}.architecture is {one.architecture}: nothing can be launched"
                remedy = f"Name an AMI of {one.architecture} in classes.{of}.image, or correct its architecture."
                return Finding(name, Health.FAILED, found, remedy)
        device = image.get("RootDeviceName", self._aws.root_device)
        sized = next((f"classes.{of}.disk" for of, one in users.items() if one.disk), "aws.volume")
        if (self._aws.volume or sized != "aws.volume") and device != self._aws.root_device:
            remedy = f'Set aws.root-device = "{device}": otherwise {sized} adds a second volume.'
            return Finding(name, Health.FAILED, f"{told}, its root device is {device}", remedy)
        least = _root_size(image, device)
        for of, one in users.items():
            size, setting = (one.disk, f"classes.{of}.disk") if one.disk else (self._aws.volume, "aws.volume")
            if 0 < size < least:
                found = f"{told}, with a root volume of {least} GiB, and {setting} is {size}: nothing can be launched"
                remedy = f"Set {setting} to {least} or more, or to 0 for the size of the image."
                return Finding(name, Health.FAILED, found, remedy)
        return Finding(name, Health.OK, told)

    async def security_groups(self) -> Finding:
        if not self._aws.security_groups:
            return Finding("security groups", Health.OK, "none named: the default group of the VPC")
        answer = await ask(self._cloud, "describe_security_groups", GroupIds=list(self._aws.security_groups))
        groups = {one["GroupId"]: one["VpcId"] for one in answer["SecurityGroups"]}
        vpcs = {one["VpcId"] for one in await self._subnets()}
        if strangers := [group for group, vpc in groups.items() if vpc not in vpcs]:
            found = f"{', '.join(strangers)} not in the VPC of the subnets"
            return Finding("security groups", Health.FAILED, found, "Name groups of that VPC in aws.security-groups.")
        return Finding("security groups", Health.OK, ", ".join(groups))

    async def profile(self) -> Finding:
        name = self._aws.instance_profile.rpartition("/")[2]
        remedy = "Make it with the policy that `bullpen iam-policy instance` prints, or correct aws.instance-profile."
        iam = await self._cloud.client("iam")
        try:
            answer = await call(iam, "get_instance_profile", expecting=(NO_PROFILE,), InstanceProfileName=name)
        except Declined:
            return Finding("instance profile", Health.FAILED, f"{name} does not exist", remedy)
        roles = [role["RoleName"] for role in answer["InstanceProfile"].get("Roles", ())]
        if not roles:
            found = f"{name} has no role: machines have no permissions"
            return Finding("instance profile", Health.FAILED, found, remedy)
        return Finding("instance profile", Health.OK, f"{name} with role {', '.join(roles)}")

    async def types(self, template: Template) -> Finding:
        """How many types fit a class, with the architecture of the image."""
        name = f"types of {template.resource_class}"
        answer = await ask(
            self._cloud,
            "get_instance_types_from_instance_requirements",
            ArchitectureTypes=[(await self._image(template.data["ImageId"]))["Architecture"]],
            VirtualizationTypes=["hvm"],
            InstanceRequirements=template.data["InstanceRequirements"],
        )
        found = sorted(one["InstanceType"] for one in answer.get("InstanceTypes", ()))
        told = f"{len(found)} fit" + (f": {', '.join(found)}" if 0 < len(found) <= FEW_TYPES else "")
        which = f"classes.{template.resource_class}.allowed-instance-types"
        if not found:
            return Finding(name, Health.FAILED, told, f"Widen {which}, or lower cpu and mem: nothing can be launched.")
        if len(found) < FEW_TYPES:
            return Finding(name, Health.WARNING, told, f"Widen {which}: with few types, capacity runs out sooner.")
        return Finding(name, Health.OK, told)

    async def quota(self, market: str) -> Finding:
        """Against what the limits would allow, in machines of the smallest class."""
        quotas = await self._cloud.client("service-quotas")
        named = {"ServiceCode": "ec2", "QuotaCode": QUOTA_CODES[market]}
        try:
            answer = await call(quotas, "get_service_quota", expecting=(NO_APPLIED_VALUE,), **named)
        except Declined:
            answer = await call(quotas, "get_aws_default_service_quota", **named)
        vcpus, name = answer["Quota"]["Value"], answer["Quota"]["QuotaName"]
        least = min(kind.cpu for kind in self._settings.classes.values())
        wanted = least * self._settings.limits.max_instances
        told = f"{vcpus:g} vCPUs of '{name}'"
        remedy = f"Ask for more in Service Quotas (EC2, {QUOTA_CODES[market]}), or lower limits.max-instances."
        if vcpus < least:
            return Finding(f"{market} quota", Health.FAILED, f"{told}: too few for one machine", remedy)
        if vcpus < wanted:
            return Finding(f"{market} quota", Health.WARNING, f"{told}: the limits allow {wanted}", remedy)
        return Finding(f"{market} quota", Health.OK, told)

    async def _subnets(self) -> list[Mapping[str, Any]]:
        return list((await ask(self._cloud, "describe_subnets", SubnetIds=list(self._aws.subnets)))["Subnets"])

    async def _image(self, id: str) -> Mapping[str, Any]:
        if id not in self._images:
            answer = await ask(self._cloud, "describe_images", ImageIds=[id], IncludeDeprecated=True)
            self._images[id] = list(answer.get("Images", ()))
        if not self._images[id]:  # EC2 refuses an id that it does not know, and keeps quiet about some that it knows
            raise ConfigError(
                f"{id}: EC2 has no such image",
                remedy=f"Correct {self._setting_of(id)}: name an AMI of this region that these credentials may use.",
            )
        return self._images[id][0]

    def _setting_of(self, image: str) -> str:
        """The setting that names it."""
        if image == self._aws.image:
            return "aws.image"
        return next(f"classes.{name}.image" for name, one in self._settings.classes.items() if one.image == image)
