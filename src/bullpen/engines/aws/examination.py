"""The whole examination of an account, in the order in which one would mend it: who asks, what they may do, what the
pool stands on, what machines stand on."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

from bullpen.config import Settings
from bullpen.engines.aws.checks import Ground, guarded
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.policies import QUOTA_CODES, place_of
from bullpen.engines.aws.rights import check_permissions
from bullpen.engines.aws.session import Cloud
from bullpen.engines.aws.template import Template, desired_templates
from bullpen.engines.aws.userdata import LIMIT, own_user_data
from bullpen.errors import BullpenError, ConfigError
from bullpen.ports import Gap
from bullpen.ports.health import Finding, Health


class Standing(Protocol):
    """What a foundation tells of its parts."""

    async def table_gaps(self) -> list[Gap]: ...

    async def queue_gaps(self) -> list[Gap]: ...

    async def template_gaps(self, desired: list[Template]) -> list[Gap]: ...


async def examine(cloud: Cloud, settings: Settings, standing: Standing) -> list[Finding]:
    try:
        who = await call(await cloud.client("sts"), "get_caller_identity")
    except BullpenError as exc:  # whatever else is asked would fail for the same reason
        return [Finding("credentials", Health.FAILED, str(exc), exc.remedy)]
    ground = Ground(cloud, settings)
    findings = [
        Finding("credentials", Health.OK, who["Arn"]),
        await check_permissions(cloud, who["Arn"], place_of(settings, who["Account"])),
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
