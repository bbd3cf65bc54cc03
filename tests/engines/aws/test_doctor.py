"""Doctor's checks of an account: each says what it found and what to do, and one that fails ends no other."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from builders import NOW
from bullpen.config import Aws, Engines, ResourceClass, Settings
from bullpen.engines.aws import session
from bullpen.engines.aws.ec2.template import template
from bullpen.engines.aws.infrastructure import doctor
from bullpen.engines.aws.infrastructure.doctor import AccountChecks, check_clock, guarded
from bullpen.engines.aws.infrastructure.permissions import check_permissions, principal_of, questions
from bullpen.engines.aws.infrastructure.policies import control_plane, place_of
from bullpen.ports.health import Finding, Health
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, AMAZON_LINUX_ARM, PROFILE, SECURITY_GROUP, SUBNETS, UBUNTU

pytestmark = pytest.mark.real_loop
USER = "arn:aws:iam::123456789012:user/operator"
ROLE_SESSION = "arn:aws:sts::123456789012:assumed-role/operators/me"


def settings_on(cloud: Control, **changed: Any) -> Settings:
    ground = {"image": AMAZON_LINUX.id, "subnets": tuple(one.id for one in SUBNETS[:2]), "instance_profile": PROFILE}
    endpoints = dict.fromkeys(("ec2", "iam", "service-quotas"), cloud.url)
    aws = Aws(**{"region": "us-east-1", "endpoints": endpoints, **ground, **changed})
    return Settings(engines=Engines(pool="aws"), aws=aws)


async def found(settings: Settings, check: Callable[[AccountChecks], Awaitable[Finding]]) -> Finding:
    async with session.opened(settings.aws) as cloud:
        ground = AccountChecks(cloud, settings)
        return await guarded("it", lambda: check(ground))


async def of_image(ground: AccountChecks) -> Finding:
    """The check of the only image."""
    (image,) = ground._settings.images
    return await ground.image(image)


@pytest.mark.parametrize(
    ("changed", "check", "health", "told", "remedy"),
    [
        ({}, AccountChecks.subnets, "ok", "2 in us-east-1a, us-east-1b", ""),
        ({"subnets": ("subnet-0000000000000dead",)}, AccountChecks.subnets, "failed", "DescribeSubnets", "aws.subnets"),
        (
            {"image": UBUNTU.id, "volume": 20},
            of_image,
            "failed",
            "/dev/sda1",
            'aws.root-device = "/dev/sda1"',
        ),
        ({"image": UBUNTU.id}, of_image, "ok", "x86_64", ""),
        ({"image": "ami-0000000000000dead"}, of_image, "failed", "DescribeImages", "aws.image"),
        ({}, AccountChecks.security_groups, "ok", "default group", ""),
        ({"security_groups": (SECURITY_GROUP,)}, AccountChecks.security_groups, "ok", SECURITY_GROUP, ""),
        (
            {"security_groups": ("sg-0000000000000dead",)},
            AccountChecks.security_groups,
            "failed",
            "Groups",
            "security-groups",
        ),
        ({}, AccountChecks.profile, "ok", f"{PROFILE} with role", ""),
        (
            {"instance_profile": "missing"},
            AccountChecks.profile,
            "failed",
            "missing does not exist",
            "iam-policy instance",
        ),
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


CLASSES = {
    "small": ResourceClass(cpu=1, mem=1024),
    "arm": ResourceClass(cpu=2, mem=4096, image=AMAZON_LINUX_ARM.id, architecture="arm64"),
}


@pytest.mark.parametrize("image", [AMAZON_LINUX.id, AMAZON_LINUX_ARM.id])
async def test_each_image_is_looked_at(cloud: Control, image: str) -> None:
    settings = replace(settings_on(cloud), classes=CLASSES)
    assert doctor._images(settings) == {f"image {id}": id for id in (AMAZON_LINUX.id, AMAZON_LINUX_ARM.id)}
    assert (await found(settings, lambda ground: ground.image(image))).health == "ok"


async def test_the_types_of_a_class_are_those_of_its_own_image(cloud: Control) -> None:
    settings = replace(settings_on(cloud), classes=CLASSES)
    wanted = template(settings, "", "arm", ("m7g.l*", "m6i.*"), 2, 4096)
    assert (await found(settings, lambda ground: ground.types(wanted))).found == "1 fit: m7g.large"


async def test_an_image_of_another_architecture_than_its_class_says_is_a_failure(cloud: Control) -> None:
    classes = {"arm": replace(CLASSES["arm"], image=AMAZON_LINUX.id)}
    finding = await found(replace(settings_on(cloud), classes=classes), of_image)
    assert finding.health == "failed"
    assert "x86_64, and classes.arm.architecture is arm64: nothing can be launched" in finding.found
    assert finding.remedy == "Name an AMI of arm64 in classes.arm.image, or correct its architecture."


async def test_the_disk_of_a_class_needs_the_root_device_of_its_image(cloud: Control) -> None:
    classes = {"big": ResourceClass(cpu=1, mem=1024, image=UBUNTU.id, disk=200)}
    finding = await found(replace(settings_on(cloud), classes=classes), of_image)
    assert finding.health == "failed"
    assert finding.remedy == 'Set aws.root-device = "/dev/sda1": otherwise classes.big.disk adds a second volume.'


@pytest.mark.parametrize(
    ("disk", "volume", "setting"),
    [(7, 0, "classes.big.disk is 7"), (0, 7, "aws.volume is 7"), (7, 20, "classes.big.disk is 7")],
)
async def test_a_disk_that_is_smaller_than_the_image_is_a_failure(
    cloud: Control, disk: int, volume: int, setting: str
) -> None:
    classes = {"big": ResourceClass(cpu=1, mem=1024, disk=disk)}
    finding = await found(replace(settings_on(cloud, volume=volume), classes=classes), of_image)
    assert finding.health == "failed"
    assert finding.found.endswith(f"with a root volume of 8 GiB, and {setting}: nothing can be launched")
    assert finding.remedy == f"Set {setting.split()[0]} to 8 or more, or to 0 for the size of the image."


@pytest.mark.parametrize(("disk", "volume"), [(8, 0), (0, 0), (0, 8), (8, 7)])
async def test_a_disk_of_the_size_of_the_image_or_more_is_right(cloud: Control, disk: int, volume: int) -> None:
    classes = {"big": ResourceClass(cpu=1, mem=1024, disk=disk)}
    assert (await found(replace(settings_on(cloud, volume=volume), classes=classes), of_image)).health == "ok"


async def test_types_are_of_the_images_architecture(cloud: Control) -> None:
    settings = settings_on(cloud, image=AMAZON_LINUX_ARM.id)
    wanted = template(settings, "", "small", ("c5.*",), 1, 1024)
    assert (await found(settings, lambda ground: ground.types(wanted))).found == "0 fit"


async def test_an_image_that_ec2_does_not_show_is_a_failure_and_is_asked_for_once(
    cloud: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    async def ask(cloud: session.Cloud, method: str, /, **request: Any) -> dict[str, Any]:
        asked.append({"method": method, **request})
        return {"Images": []}

    monkeypatch.setattr(doctor, "ask", ask)
    settings = settings_on(cloud)
    wanted = template(settings, "", "small", ("*",), 1, 1024)
    async with session.opened(settings.aws) as opened:
        ground = AccountChecks(opened, settings)
        finding = await guarded("image", lambda: ground.image(AMAZON_LINUX.id))
        assert (await guarded("types", lambda: ground.types(wanted))).health is Health.FAILED
    assert finding.health is Health.FAILED
    assert AMAZON_LINUX.id in finding.found
    assert "aws.image" in finding.remedy
    assert asked == [{"method": "describe_images", "ImageIds": [AMAZON_LINUX.id], "IncludeDeprecated": True}]


async def test_all_classes_share_one_look_at_the_image(cloud: Control) -> None:
    settings = settings_on(cloud)
    wanted = template(settings, "", "small", ("*",), 1, 1024)
    async with session.opened(settings.aws) as opened:
        ground = AccountChecks(opened, settings)
        assert {
            (await ground.image(AMAZON_LINUX.id)).health,
            *[(await ground.types(wanted)).health for _ in range(3)],
        } == {Health.OK}
    assert cloud.calls()["DescribeImages"] == 1


@pytest.mark.parametrize(("vcpus", "health"), [(100_000, "ok"), (64, "warning"), (0, "failed")])
async def test_a_quota_is_held_against_the_limits(cloud: Control, vcpus: float, health: str) -> None:
    cloud.quota("spot", vcpus)
    finding = await found(settings_on(cloud), lambda ground: ground.quota("spot"))
    assert finding.health == health
    assert health == "ok" or "L-34B43A08" in finding.remedy


async def test_where_an_account_has_no_quota_of_its_own_the_default_one_holds(cloud: Control) -> None:
    cloud.refuse("GetServiceQuota", "NoSuchResourceException", "The request failed because there is no such value")
    cloud.quota("spot", 64)
    finding = await found(settings_on(cloud), lambda ground: ground.quota("spot"))
    assert (finding.health, finding.found.partition(" ")[0]) == (Health.WARNING, "64")
    assert cloud.calls() == {"GetServiceQuota": 1, "GetAWSDefaultServiceQuota": 1}


@pytest.mark.parametrize(
    ("ahead", "health", "told"),
    [
        (4.9, "ok", "within 5 s of AWS"),
        (5.1, "warning", "5 s ahead of AWS"),
        (-125.0, "warning", "125 s behind AWS"),
    ],
)
def test_a_clock_that_is_not_that_of_aws_is_a_warning(ahead: float, health: str, told: str) -> None:
    answer = {"ResponseMetadata": {"HTTPHeaders": {"date": "Tue, 01 Jan 2030 00:00:00 GMT"}}}
    finding = check_clock(answer, NOW + timedelta(seconds=ahead))
    assert (finding.health, finding.found) == (health, told)
    assert ("NTP" in finding.remedy) is (health == "warning")


@pytest.mark.parametrize("headers", [{}, {"date": "soon"}, {"date": "Tue, 01 Jan 2030 00:00:00 -0000"}])
def test_an_answer_without_a_time_leaves_the_clock_open(headers: dict[str, str]) -> None:
    finding = check_clock({"ResponseMetadata": {"HTTPHeaders": headers}}, NOW)
    assert finding.health is Health.WARNING
    assert "has no date" in finding.found


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
async def test_permissions_of_a_session_are_those_of_its_role(caller: str, principal: str) -> None:
    assert principal_of(caller) == principal


def matches(statement: dict[str, Any], action: str, resource: str, context: dict[str, str]) -> bool:
    """IAM's judgement, as far as our policies go."""
    conditions = [one for block in statement.get("Condition", {}).values() for one in block.items()]
    return (
        action in statement["Action"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
        and all(context.get(key) in (wanted if isinstance(wanted, list) else [wanted]) for key, wanted in conditions)
    )


@pytest.mark.parametrize("manage", ["refresh", "external"])
def test_our_own_policy_allows_everything_that_is_asked_about(cloud: Control, manage: str) -> None:
    place = place_of(settings_on(cloud, manage=manage), "123456789012")
    statements = control_plane(place)["Statement"]
    for one in questions(place, USER):
        for action, resource in product(one.actions, one.resources):
            assert any(matches(each, action, resource, dict(one.context)) for each in statements), (action, resource)


def test_every_action_of_the_policy_is_asked_about(cloud: Control) -> None:
    place = place_of(settings_on(cloud), "123456789012")
    asked = {action for one in questions(place, USER) for action in one.actions}
    assert asked == {action for one in control_plane(place)["Statement"] for action in one["Action"]}


@pytest.mark.parametrize(
    ("action", "never"),
    [
        ("ec2:CreateFleet", ":instance/"),
        ("ec2:CreateFleet", ":subnet/"),
        ("ec2:RunInstances", ":fleet/"),
        ("dynamodb:PutItem", "/index/"),
        ("iam:SimulatePrincipalPolicy", "*"),
        ("servicequotas:GetServiceQuota", "*"),
    ],
)
def test_an_action_is_asked_about_only_on_what_it_is_done_to(cloud: Control, action: str, never: str) -> None:
    asked = list(questions(place_of(settings_on(cloud), "123456789012"), USER))
    on = [resource for one in asked if action in one.actions for resource in one.resources]
    assert on
    assert not [resource for resource in on if never in resource]


def test_simulated_resources_name_their_region_and_account(cloud: Control) -> None:
    asked = questions(place_of(settings_on(cloud), "123456789012"), USER)
    assert not [resource for one in asked for resource in one.resources if ":*:" in resource]


async def test_credentials_that_may_not_ask_get_a_warning_not_a_failure(cloud: Control) -> None:
    cloud.refuse("SimulatePrincipalPolicy", "AccessDenied")
    finding = await permissions(cloud, USER)
    assert finding.health is Health.WARNING
    assert "could not be checked" in finding.found
    assert "iam-policy control-plane" in finding.remedy


async def test_the_root_user_gets_a_warning(cloud: Control) -> None:
    finding = await permissions(cloud, "arn:aws:iam::123456789012:root")
    assert finding.health is Health.WARNING
    assert cloud.calls() == {}


async def test_a_class_asks_for_what_its_template_asks_for(cloud: Control) -> None:
    settings = Settings(aws=settings_on(cloud).aws, classes={"huge": ResourceClass(1024, 1024)})
    wanted = template(settings, "", "huge", ("*",), 1024, 1024)
    assert (await found(settings, lambda ground: ground.types(wanted))).health is Health.FAILED


@pytest.mark.parametrize(("caller", "kind"), [(USER, "user"), (ROLE_SESSION, "role")])
def test_whether_one_may_be_simulated_is_asked_of_the_caller_alone(cloud: Control, caller: str, kind: str) -> None:
    asked = questions(place_of(settings_on(cloud), "123456789012"), principal_of(caller))
    about = [one.resources for one in asked if "iam:SimulatePrincipalPolicy" in one.actions]
    assert about == [(principal_of(caller),)]
    assert f":{kind}/" in about[0][0]
