"""Launch templates: what a machine is like, as data whose hash is its name.

A template is never changed. Other settings have another hash and so another template. A process compares the content of
a template before it first launches from it, and then names it by its id with the version "1" pinned: what was compared
is what is launched, even if another process adds versions or replaces the template meanwhile. Several programs with
different settings may share a pool for a while (an update is being rolled out): each makes its own templates, and
retires only those of an older version of the program or an older generation of their class. Of two programs at most one
may retire what the other uses, so they do not take templates from each other in turns.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bullpen import __version__
from bullpen.config import Aws, ResourceClass, Settings
from bullpen.engines.aws.dynamodb.schema import POOL_TAG
from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.ec2.error_codes import TEMPLATE_MISSING
from bullpen.engines.aws.ec2.fleet import CLASS_TAG, PINNED, tags
from bullpen.engines.aws.errors import Declined, all_pages
from bullpen.engines.aws.session import Cloud
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass

GENERATION_TAG = "bullpen:generation"
VERSION_TAG = "bullpen:version"
ANY_PRICE = 999_999
"""Percent over the cheapest: EC2 would silently leave out every type that costs a fifth more."""
MANUFACTURERS = {"x86_64": ("amd", "intel"), "arm64": ("amazon-web-services",)}
"""Of the processors of each architecture. An image of another one launches nothing, instead of the wrong machines."""
IN_USE = timedelta(hours=1)
"""A template younger than this may be another program's, or of a run that asked for types of its own."""
PAGE = 200
MISSING = "it is missing"
EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
NO_VERSION = "InvalidLaunchTemplateId.VersionNotFound"


@dataclass(frozen=True, slots=True)
class Template:
    """A launch template as it should be. `data` is EC2's LaunchTemplateData."""

    name: str
    resource_class: str
    generation: int
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """A launch template of this pool that EC2 has."""

    id: str
    name: str
    resource_class: str
    generation: int
    version: str  # of the program that made it
    made_at: datetime


def template(
    settings: Settings, user_data: str, resource_class: str, allowed_types: Sequence[str], cpu: int, mem: int
) -> Template:
    """The template for machines of a class with at least `cpu` and `mem`."""
    own_class = settings.resource_class(resource_class)
    data = _data(settings.aws, own_class, user_data, allowed_types, cpu, mem)
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    return Template(f"{settings.aws.pool}-{digest}", resource_class, own_class.image_generation, data)


def desired_templates(settings: Settings, user_data: str) -> list[Template]:
    """The templates that fleets of the configured classes use. Runs that ask for other types make theirs as needed."""
    wanted = [
        template(settings, user_data, name, own.allowed_instance_types, own.cpu, own.mem)
        for name, own in settings.classes.items()
    ]
    return list({one.name: one for one in wanted}.values())


def retired(found: Iterable[Found], desired: Iterable[Template], settings: Settings, now: datetime) -> Iterator[Found]:
    """Those that are not needed any more: superseded, older than an hour, and older than what replaced them.

    One that was made after its successor is kept: an older program that still runs has created it again.
    """
    found, wanted = list(found), {one.name for one in desired}
    kept = [one for one in found if one.name in wanted]
    for one in found:
        if one.name in wanted or not _is_superseded(one, settings):
            continue
        gone = one.resource_class not in settings.classes
        instead = [other.made_at for other in kept if gone or other.resource_class == one.resource_class]
        if instead and one.made_at < min(max(instead), now - IN_USE):
            yield one


def _is_superseded(one: Found, settings: Settings) -> bool:
    """Whether its version and its generation are not newer than here, and one of them is older: an order, so no two
    programs supersede each other. Of equals none is known to be the right one."""
    version, own_version = _order(one.version), _order(__version__)
    own_class = settings.classes.get(one.resource_class)
    own_generation = own_class.image_generation if own_class else one.generation
    no_newer = version <= own_version and one.generation <= own_generation
    return no_newer and (version < own_version or one.generation < own_generation)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def differences(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """The fields in which a stored template is not as it should be. EC2 adds defaults of its own inside of fields."""
    return [name for name in sorted({*wanted, *found}) if not _covers(found.get(name), wanted.get(name))]


def template_tags(aws: Aws, wanted: Template) -> dict[str, str]:
    """Those of the template itself: whose it is, and which version of the program made it for which class as it was."""
    return {
        **aws.tags,
        POOL_TAG: aws.pool,
        CLASS_TAG: wanted.resource_class,
        GENERATION_TAG: str(wanted.generation),
        VERSION_TAG: __version__,
    }


class Templates:
    """The templates of a pool. Only those with its tag are ever changed or deleted."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._pool = cloud.settings.pool

    async def ensure(self, wanted: Template) -> None:
        """Create the template if it is missing, and again if it is wrong. A foreign one of that name is left
        alone, and refused."""
        for _ in range(2):
            try:
                await self._make(wanted)
                return
            except Declined:
                # Two processes make the same one at the same time: then it is right, or not visible yet.
                _, wrong = await self.compared(wanted)
                if wrong in ("", MISSING):
                    return
            same = [one for one in await self.found() if one.name == wanted.name]
            if not same:
                raise ConfigError(
                    f"launch template {wanted.name}: {wrong}, and it does not carry the tag {POOL_TAG}={self._pool}",
                    remedy="Delete or rename it if nothing else uses it, then run `bullpen refresh` again.",
                )
            await self.retire(same[0])
        raise ConfigError(
            f"launch template {wanted.name}: another process keeps recreating it with different content",
            remedy="Find the process that creates it, and stop it.",
        )

    async def verified(self, wanted: Template) -> str:
        """The id of the stored template, whose content is compared; empty if there is none. Raise ConfigError if it is
        not as it should be: a principal that may create templates could make machines run anything, as root.

        A fleet asks by this id. Under the name another one may stand at any time, and under the id never."""
        id_, wrong = await self.compared(wanted)
        if wrong in ("", MISSING):
            return id_
        raise ConfigError(
            f"launch template {wanted.name}: {wrong}; nothing is launched from it",
            remedy="Find out which process created it. `bullpen refresh` creates it again, with the control plane's"
            " credentials.",
        )

    async def compared(self, wanted: Template) -> tuple[str, str]:
        """The id of the stored template, and what is wrong with it; empty if it is as it should be."""
        answer, expecting = dict[str, Any](), (*TEMPLATE_MISSING, NO_VERSION)
        asked = {"LaunchTemplateName": wanted.name, "Versions": [PINNED]}
        try:
            answer = await ask(self._cloud, "describe_launch_template_versions", expecting=expecting, **asked)
        except Declined as declined:
            if declined.code != NO_VERSION:
                return "", MISSING
        versions = answer.get("LaunchTemplateVersions", ())
        if not versions:
            return "", "its version 1 is missing"
        wrong = differences(wanted.data, versions[0].get("LaunchTemplateData", {}))
        return versions[0]["LaunchTemplateId"], f"{', '.join(wrong)} differ from the settings" if wrong else ""

    async def found(self) -> list[Found]:
        """Every template with the tag of the pool."""
        own = [{"Name": f"tag:{POOL_TAG}", "Values": [self._pool]}]
        describe = partial(ask, self._cloud, "describe_launch_templates")
        return [_found(one) for one in await all_pages(describe, "LaunchTemplates", Filters=own, MaxResults=PAGE)]

    async def retire(self, one: Found) -> None:
        """Delete a template; gone already is success. Machines launched from it do not mind."""
        with suppress(Declined):
            # By its id: another of the same name may stand in its place by now, and not be this pool's.
            await ask(self._cloud, "delete_launch_template", expecting=TEMPLATE_MISSING, LaunchTemplateId=one.id)

    async def _make(self, wanted: Template) -> None:
        owned = template_tags(self._cloud.settings, wanted)
        await ask(
            self._cloud,
            "create_launch_template",
            expecting=(EXISTS,),
            LaunchTemplateName=wanted.name,
            LaunchTemplateData=wanted.data,
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags(owned)}],
        )


def _data(
    aws: Aws, own_class: ResourceClass, user_data: str, allowed_types: Sequence[str], cpu: int, mem: int
) -> dict[str, Any]:
    image, disk = own_class.image or aws.image, own_class.disk or aws.volume
    if not image:
        raise ConfigError("aws.image is not set", remedy="Name an AMI of Amazon Linux 2023 or Ubuntu of the region.")
    requirements: dict[str, Any] = {
        "VCpuCount": {"Min": cpu},
        "MemoryMiB": {"Min": mem},
        "BurstablePerformance": "included",
        "OnDemandMaxPricePercentageOverLowestPrice": ANY_PRICE,
        "SpotMaxPricePercentageOverLowestPrice": ANY_PRICE,
    }
    if own_class.architecture:
        # EC2 takes types of the image's architecture. It knows no requirement of that name, but who makes which.
        requirements["CpuManufacturers"] = list(MANUFACTURERS[own_class.architecture])
    if "*" not in allowed_types:
        requirements["AllowedInstanceTypes"] = sorted({pattern.lower() for pattern in allowed_types})
    data: dict[str, Any] = {
        "ImageId": image,
        "InstanceInitiatedShutdownBehavior": "terminate",  # an agent that ends its machine ends the bill
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        # Instances are tagged by the fleet, which knows for whom they are. Volumes can be tagged here only.
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tags({**aws.tags, POOL_TAG: aws.pool})}],
        "UserData": base64.b64encode(user_data.encode()).decode(),
        "InstanceRequirements": requirements,
    }
    if aws.instance_profile:
        kind = "Arn" if aws.instance_profile.startswith("arn:") else "Name"
        data["IamInstanceProfile"] = {kind: aws.instance_profile}
    if aws.security_groups:
        data["SecurityGroupIds"] = list(aws.security_groups)
    if disk:
        ebs = {"VolumeSize": disk, "VolumeType": "gp3", "DeleteOnTermination": True}
        data["BlockDeviceMappings"] = [{"DeviceName": aws.root_device, "Ebs": ebs}]
    return data


def _covers(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted was found, in lists in any order. What was not wanted at all must not be there."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(any(_covers(one, each) for one in found) for each in wanted)
    return bool(found == wanted) or (wanted is None and not found)


def _found(one: Mapping[str, Any]) -> Found:
    owned = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
    generation = owned.get(GENERATION_TAG, "")
    return Found(
        id=one["LaunchTemplateId"],
        name=one["LaunchTemplateName"],
        resource_class=owned.get(CLASS_TAG, ""),
        generation=int(generation) if generation.isdigit() else 0,
        version=owned.get(VERSION_TAG, ""),
        made_at=one["CreateTime"],
    )
