"""Doctor's checks of an account: each says what it found and what to do, and one that fails ends no other."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aws.cloud.control import Control
from aws.cloud.ground import AMAZON_LINUX, AMAZON_LINUX_ARM, PROFILE, SECURITY_GROUP, SUBNETS, UBUNTU
from bullpen.config import Aws, Engines, ResourceClass, Settings
from bullpen.engines.aws import session
from bullpen.engines.aws.checks import Ground, guarded
from bullpen.engines.aws.policies import place_of
from bullpen.engines.aws.rights import check_permissions, principal_of
from bullpen.engines.aws.template import template
from bullpen.ports.health import Finding, Health

pytestmark = pytest.mark.real_loop
USER = "arn:aws:iam::123456789012:user/operator"
ROLE_SESSION = "arn:aws:sts::123456789012:assumed-role/operators/me"


def settings_on(cloud: Control, **changed: Any) -> Settings:
    ground = {"image": AMAZON_LINUX.id, "subnets": tuple(one.id for one in SUBNETS[:2]), "instance_profile": PROFILE}
    endpoints = dict.fromkeys(("ec2", "iam", "service-quotas"), cloud.url)
    aws = Aws(**{"region": "us-east-1", "endpoints": endpoints, **ground, **changed})
    return Settings(engines=Engines(pool="aws"), aws=aws)


async def found(settings: Settings, check: Callable[[Ground], Awaitable[Finding]]) -> Finding:
    async with session.opened(settings.aws) as cloud:
        ground = Ground(cloud, settings)
        return await guarded("it", lambda: check(ground))


@pytest.mark.parametrize(
    ("changed", "check", "health", "told", "remedy"),
    [
        ({}, Ground.subnets, "ok", "2 in us-east-1a, us-east-1b", ""),
        ({"subnets": ("subnet-0000000000000dead",)}, Ground.subnets, "failed", "DescribeSubnets", "aws.subnets"),
        ({"image": UBUNTU.id, "volume": 20}, Ground.image, "failed", "/dev/sda1", 'aws.root-device = "/dev/sda1"'),
        ({"image": UBUNTU.id}, Ground.image, "ok", "x86_64", ""),
        ({"image": "ami-0000000000000dead"}, Ground.image, "failed", "DescribeImages", "aws.image"),
        ({}, Ground.security_groups, "ok", "default group", ""),
        ({"security_groups": (SECURITY_GROUP,)}, Ground.security_groups, "ok", SECURITY_GROUP, ""),
        ({"security_groups": ("sg-0000000000000dead",)}, Ground.security_groups, "failed", "Groups", "security-groups"),
        ({}, Ground.profile, "ok", f"{PROFILE} with role", ""),
        ({"instance_profile": "nobody"}, Ground.profile, "failed", "nobody does not exist", "iam-policy instance"),
    ],
)
async def test_the_ground_that_the_settings_name_is_looked_at(
    cloud: Control, changed: dict[str, Any], check: Any, health: str, told: str, remedy: str
) -> None:
    finding = await found(settings_on(cloud, **changed), check)
    assert finding.health == health
    assert told in finding.found
    assert remedy in finding.remedy
    assert bool(finding.remedy) is (health != "ok")


@pytest.mark.parametrize(
    ("patterns", "health"), [(("*",), "ok"), (("c5.large", "c5.xlarge"), "warning"), (("zz.*",), "failed")]
)
async def test_few_types_are_a_warning_and_none_a_failure(
    cloud: Control, patterns: tuple[str, ...], health: str
) -> None:
    settings = settings_on(cloud)
    wanted = template(settings, "", "small", patterns, 1, 1024)
    assert (await found(settings, lambda ground: ground.types(wanted))).health == health


async def test_types_are_of_the_images_architecture(cloud: Control) -> None:
    settings = settings_on(cloud, image=AMAZON_LINUX_ARM.id)
    wanted = template(settings, "", "small", ("c5.*",), 1, 1024)
    assert (await found(settings, lambda ground: ground.types(wanted))).found == "0 fit"


@pytest.mark.parametrize(("vcpus", "health"), [(100_000, "ok"), (64, "warning"), (0, "failed")])
async def test_a_quota_is_held_against_the_limits(cloud: Control, vcpus: float, health: str) -> None:
    cloud.quota("spot", vcpus)
    finding = await found(settings_on(cloud), lambda ground: ground.quota("spot"))
    assert finding.health == health
    assert health == "ok" or "L-34B43A08" in finding.remedy


async def permissions(cloud: Control, caller: str) -> Finding:
    settings = settings_on(cloud)
    async with session.opened(settings.aws) as opened:
        return await check_permissions(opened, caller, place_of(settings, "123456789012"))


@pytest.mark.parametrize("caller", [USER, ROLE_SESSION])
async def test_every_action_that_is_not_allowed_is_named(cloud: Control, caller: str) -> None:
    assert (await permissions(cloud, caller)).health is Health.OK
    cloud.deny("ec2:TerminateInstances")
    cloud.deny("sqs:SendMessage")
    finding = await permissions(cloud, caller)
    assert finding.health is Health.FAILED
    assert finding.found == "not allowed: sqs:SendMessage, ec2:TerminateInstances"


@pytest.mark.parametrize(
    ("caller", "principal"), [(USER, USER), (ROLE_SESSION, "arn:aws:iam::123456789012:role/operators")]
)
async def test_of_a_session_the_role_is_asked_about(caller: str, principal: str) -> None:
    assert principal_of(caller) == principal


async def test_who_may_not_ask_is_warned_not_failed(cloud: Control) -> None:
    cloud.refuse("SimulatePrincipalPolicy", "AccessDenied")
    finding = await permissions(cloud, USER)
    assert finding.health is Health.WARNING
    assert "could not be checked" in finding.found
    assert "iam-policy control-plane" in finding.remedy


async def test_the_root_user_is_told_to_be_somebody_else(cloud: Control) -> None:
    finding = await permissions(cloud, "arn:aws:iam::123456789012:root")
    assert finding.health is Health.WARNING
    assert cloud.calls() == {}


async def test_a_class_asks_for_what_its_template_asks_for(cloud: Control) -> None:
    settings = Settings(aws=settings_on(cloud).aws, classes={"huge": ResourceClass(1024, 1024)})
    wanted = template(settings, "", "huge", ("*",), 1024, 1024)
    assert (await found(settings, lambda ground: ground.types(wanted))).health is Health.FAILED
