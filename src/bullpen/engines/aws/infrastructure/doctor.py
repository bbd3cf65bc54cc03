"""The whole examination of an account, in the order in which one would mend it: who asks, what they may do, what the
pool stands on, what machines stand on."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from bullpen.config import Settings
from bullpen.engines.aws.boot.userdata import LIMIT, own_user_data
from bullpen.engines.aws.ec2.template import Template, desired_templates
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.infrastructure.checks import Ground, check_clock, guarded
from bullpen.engines.aws.infrastructure.permissions import check_permissions
from bullpen.engines.aws.infrastructure.policies import QUOTA_CODES, Place, place_of
from bullpen.engines.aws.session import Cloud
from bullpen.errors import BullpenError, ConfigError
from bullpen.ports import Clock, Gap
from bullpen.ports.health import Finding, Health


class Standing(Protocol):
    """What a foundation tells of its parts."""

    async def table_gaps(self) -> list[Gap]: ...

    async def queue_gaps(self) -> list[Gap]: ...

    async def template_gaps(self, desired: list[Template]) -> list[Gap]: ...


async def examine(cloud: Cloud, settings: Settings, standing: Standing, clock: Clock) -> list[Finding]:
    try:
        who = await call(await cloud.client("sts"), "get_caller_identity")
        now = clock.now()
    except BullpenError as exc:  # whatever else is asked would fail for the same reason
        return [Finding("credentials", Health.FAILED, str(exc), exc.remedy)]
    ground = Ground(cloud, settings)
    findings = [
        Finding("credentials", Health.OK, who["Arn"]),
        check_clock(who, now),
        await check_permissions(cloud, who["Arn"], await _place(cloud, settings, who["Account"])),
        await guarded("table", partial(_gaps, "table", standing.table_gaps)),
        await guarded("queues", partial(_gaps, "queues", standing.queue_gaps)),
    ]
    try:
        script = own_user_data(settings)
        desired = desired_templates(settings, script)
    except ConfigError as exc:
        findings.append(Finding("user data", Health.FAILED, str(exc), exc.remedy))
        desired = []
    else:
        findings.append(Finding("user data", Health.OK, f"{len(script.encode())} of {LIMIT} bytes"))
        gaps = partial(standing.template_gaps, desired)
        findings.append(await guarded("templates", partial(_gaps, "templates", gaps)))
    for name, check in _of_the_ground(ground, desired):
        findings.append(await guarded(name, check))
    return findings


async def _place(cloud: Cloud, settings: Settings, account: str) -> Place:
    """With the region that is really used: permissions are asked of what there is, not of a pattern."""
    region = (await cloud.client("dynamodb")).meta.region_name
    return place_of(replace(settings, aws=replace(settings.aws, region=region)), account)


def _of_the_ground(ground: Ground, desired: list[Template]) -> Iterator[tuple[str, Callable[[], Awaitable[Finding]]]]:
    yield "subnets", ground.subnets
    yield "image", ground.image
    yield "security groups", ground.security_groups
    yield "instance profile", ground.profile
    for template in desired:
        yield f"types of {template.resource_class}", partial(ground.types, template)
    for market in QUOTA_CODES:
        yield f"{market} quota", partial(ground.quota, market)


async def _gaps(name: str, look: Callable[[], Awaitable[list[Gap]]]) -> Finding:
    gaps = await look()
    if not gaps:
        return Finding(name, Health.OK, "as the settings ask")
    blocking = [gap for gap in gaps if gap.blocks]  # the others follow from it
    told = "; ".join(f"{gap.subject}: {gap.reason}" for gap in blocking or gaps)
    return Finding(name, Health.FAILED, told, 'Run `bullpen refresh`; with aws.manage = "external", your Terraform.')
