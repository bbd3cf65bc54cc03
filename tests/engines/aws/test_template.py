"""Launch templates: what is in them, when they differ, and which of them are retired."""

import base64
import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bullpen import __version__
from bullpen.config import Aws, ResourceClass, Settings
from bullpen.engines.aws.ec2 import template as module
from bullpen.engines.aws.ec2.template import (
    MISSING,
    Found,
    Template,
    Templates,
    desired_templates,
    differences,
    retired,
    template,
)
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import opened
from bullpen.errors import ConfigError
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, SECURITY_GROUP, SUBNETS

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AWS = Aws(
    pool="ci-pool",
    image=AMAZON_LINUX.id,
    subnets=tuple(subnet.id for subnet in SUBNETS),
    security_groups=(SECURITY_GROUP,),
    instance_profile=PROFILE,
    volume=40,
    tags={"team": "build"},
)
SCRIPT = "#!/bin/sh\necho hello\n"


def settings(classes: dict[str, ResourceClass] | None = None, aws: Aws = AWS) -> Settings:
    return Settings(aws=aws, classes=classes or {"small": ResourceClass(cpu=1, mem=1024)})


def one(
    script: str = SCRIPT, types: tuple[str, ...] = ("*",), cpu: int = 1, mem: int = 1024, aws: Aws = AWS
) -> Template:
    return template(settings(aws=aws), script, "small", types, cpu, mem)


def found(
    name: str, hours_ago: float, *, generation: int = 1, version: str = "0.0.1", resource_class: str = "small"
) -> Found:
    return Found(f"lt-{name}", name, resource_class, generation, version, NOW - timedelta(hours=hours_ago))


def retired_of(*there: Found, **classes: ResourceClass) -> list[str]:
    own = settings(classes)
    wanted = [Template("now", "small", own.classes["small"].image_generation, {})]
    return [each.name for each in retired(there, wanted, own, NOW)]


# ---- content


def test_a_template_holds_what_every_machine_is_like() -> None:
    data = one().data
    assert data["ImageId"] == AMAZON_LINUX.id
    assert data["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }
    assert data["IamInstanceProfile"] == {"Name": PROFILE}
    assert data["SecurityGroupIds"] == [SECURITY_GROUP]
    assert base64.b64decode(data["UserData"]).decode() == SCRIPT
    (volume,) = data["TagSpecifications"]
    assert volume["ResourceType"] == "volume"
    assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]} == {"team": "build", "bullpen:pool": "ci-pool"}


def test_what_a_machine_must_have_is_in_the_template_and_price_rules_out_nothing() -> None:
    requirements = one(types=("M5.*", "c6i.*"), cpu=4, mem=8192).data["InstanceRequirements"]
    assert requirements == {
        "VCpuCount": {"Min": 4},
        "MemoryMiB": {"Min": 8192},
        "AllowedInstanceTypes": ["c6i.*", "m5.*"],
        "BurstablePerformance": "included",
        "OnDemandMaxPricePercentageOverLowestPrice": 999_999,
        "SpotMaxPricePercentageOverLowestPrice": 999_999,
    }
    assert "AllowedInstanceTypes" not in one().data["InstanceRequirements"]


def test_a_profile_may_be_named_by_its_arn_and_a_volume_left_to_the_image() -> None:
    arn = f"arn:aws:iam::123456789012:instance-profile/{PROFILE}"
    data = one(aws=Aws(image="ami-1", instance_profile=arn)).data
    assert data["IamInstanceProfile"] == {"Arn": arn}
    assert "BlockDeviceMappings" not in data
    assert "SecurityGroupIds" not in data


def test_a_class_may_have_an_image_an_architecture_and_a_disk_of_its_own() -> None:
    arm = ResourceClass(cpu=1, mem=1024, image="ami-2", architecture="arm64", disk=200)
    small, large = desired_templates(settings({"small": ResourceClass(cpu=1, mem=1024), "large": arm}), SCRIPT)
    assert (small.data["ImageId"], large.data["ImageId"]) == (AMAZON_LINUX.id, "ami-2")
    sizes = [one.data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] for one in (small, large)]
    assert sizes == [40, 200]
    assert "CpuManufacturers" not in small.data["InstanceRequirements"]
    assert large.data["InstanceRequirements"]["CpuManufacturers"] == ["amazon-web-services"]


@pytest.mark.parametrize("changed", [{"image": "ami-2"}, {"architecture": "x86_64"}, {"disk": 41}])
def test_what_a_class_has_of_its_own_is_content(changed: dict[str, Any]) -> None:
    plain, own = ResourceClass(cpu=1, mem=1024), ResourceClass(cpu=1, mem=1024, **changed)
    (before,), (after,) = (desired_templates(settings({"small": one}), SCRIPT) for one in (plain, own))
    assert before.name != after.name


def test_a_class_that_says_what_the_pool_says_shares_its_template() -> None:
    own = ResourceClass(cpu=1, mem=1024, image=AMAZON_LINUX.id, disk=40)
    assert len(desired_templates(settings({"small": ResourceClass(cpu=1, mem=1024), "same": own}), SCRIPT)) == 1


def test_the_name_says_the_content() -> None:
    assert one().name == one().name
    assert one().name.startswith("ci-pool-")
    assert len(one().name) == len("ci-pool-") + 16
    others = [
        one("other"),
        one(types=("m5.*",)),
        one(cpu=2),
        one(mem=2048),
        one(aws=Aws(pool="ci-pool", image="ami-2")),
    ]
    assert len({one().name, *(each.name for each in others)}) == 6


def test_the_order_of_types_is_no_content() -> None:
    assert one(types=("a.*", "b.*")).name == one(types=("b.*", "A.*")).name


def test_without_an_image_there_is_no_template() -> None:
    with pytest.raises(ConfigError, match=r"aws\.image"):
        one(aws=Aws())


def test_classes_of_the_same_content_share_a_template() -> None:
    small, large = ResourceClass(cpu=1, mem=1024), ResourceClass(cpu=8, mem=1024, allowed_instance_types=("m5.*",))
    wanted = desired_templates(settings({"a": small, "b": small, "c": large}), SCRIPT)
    assert len(wanted) == 2
    assert wanted[1].data["InstanceRequirements"]["AllowedInstanceTypes"] == ["m5.*"]


def test_defaults_that_ec2_adds_are_no_difference() -> None:
    stored: dict[str, Any] = copy.deepcopy(dict(one().data))
    stored["MetadataOptions"]["State"] = "applied"
    stored["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] = False
    stored["SecurityGroups"] = []
    assert differences(one().data, stored) == []


@pytest.mark.parametrize(
    ("field", "edit"),
    [
        ("MetadataOptions", lambda data: data["MetadataOptions"].update(HttpTokens="optional")),
        ("UserData", lambda data: data.update(UserData="ZWNobyBoYQ==")),
        ("KeyName", lambda data: data.update(KeyName="back-door")),
        ("SecurityGroupIds", lambda data: data["SecurityGroupIds"].append("sg-2")),
        ("IamInstanceProfile", lambda data: data.pop("IamInstanceProfile")),
    ],
)
def test_every_edit_of_a_template_is_a_difference(field: str, edit: Any) -> None:
    stored: dict[str, Any] = copy.deepcopy(dict(one().data))
    edit(stored)
    assert differences(one().data, stored) == [field]


# ---- retiring


def test_what_was_replaced_an_hour_ago_is_retired() -> None:
    assert retired_of(found("now", 2), found("before", 3)) == ["before"]


def test_a_template_younger_than_an_hour_or_than_its_successor_is_kept() -> None:
    assert retired_of(found("now", 0.1), found("before", 0.5)) == []
    assert retired_of(found("now", 9), found("an older program's, created again", 3)) == []


@pytest.mark.parametrize("version", [__version__, "999.0.0", "999.10"])
def test_templates_of_the_same_or_a_newer_version_are_not_retired(version: str) -> None:
    assert retired_of(found("now", 2), found("other", 3, version=version)) == []


def test_an_older_generation_of_the_same_version_is_retired() -> None:
    raised = ResourceClass(cpu=1, mem=1024, image_generation=2)
    assert retired_of(found("now", 2), found("before", 3, version=__version__), small=raised) == ["before"]
    assert retired_of(found("now", 2), found("newer", 3, version="999.0"), small=raised) == []


def test_versions_are_compared_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", "0.10.0")
    assert retired_of(found("now", 2), found("before", 3, version="0.9.1")) == ["before"]


def test_two_versions_that_run_side_by_side_do_not_retire_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look every hour, for half a day, and create theirs again if it is gone."""
    there: dict[str, Found] = {}
    retirements = []
    for hour in range(12):
        now = NOW + timedelta(hours=2 * hour)
        for version in ("1.0.0", "2.0.0"):
            monkeypatch.setattr(module, "__version__", version)
            there.setdefault(version, Found("lt-1", version, "small", 1, version, now + timedelta(minutes=len(there))))
            for old in [*retired(there.values(), [Template(version, "small", 1, {})], settings(), now)]:
                retirements.append(old.name)
                del there[old.name]
    assert retirements == ["1.0.0"]


def test_a_newer_generations_template_is_never_retired() -> None:
    assert retired_of(found("now", 2), found("newer", 3, generation=2)) == []


def test_nothing_is_retired_before_its_successor_stands() -> None:
    assert retired_of(found("before", 30)) == []


def test_a_class_that_another_program_has_is_no_reason() -> None:
    assert retired_of(found("now", 2), found("x", 3, resource_class="x", version=__version__)) == []


def test_another_class_says_nothing_about_when_a_template_was_replaced() -> None:
    small = ResourceClass(cpu=1, mem=1024)
    there = found("now", 2), found("other", 3, resource_class="other")
    assert retired_of(*there, small=small, other=ResourceClass(cpu=2, mem=2048)) == []
    assert retired_of(*there, small=small) == ["other"]  # the class is no longer configured


# ---- on EC2


@pytest.fixture
def aws(cloud: Control) -> Aws:
    return Aws(pool="ci-pool", region="us-east-1", image=AMAZON_LINUX.id, endpoints={"ec2": cloud.url})


@pytest.mark.real_loop
async def test_a_template_is_made_once_found_and_retired(aws: Aws, cloud: Control) -> None:
    async with opened(aws) as session:
        templates, wanted = Templates(session), one(aws=aws)
        assert (await templates.compared(wanted))[1] == MISSING
        await templates.ensure(wanted)
        await templates.ensure(wanted)
        assert (await templates.compared(wanted))[1] == ""
        (there,) = await templates.found()
        assert (there.name, there.resource_class, there.generation) == (wanted.name, "small", 1)
        await templates.retire(there)
        await templates.retire(there)
        assert await templates.found() == []


@pytest.mark.real_loop
async def test_a_template_that_another_principal_recreated_under_its_name_is_found_and_corrected(
    aws: Aws, cloud: Control
) -> None:
    async with opened(aws) as session:
        templates, wanted = Templates(session), one(aws=aws)
        other = Template(wanted.name, "small", 1, {**wanted.data, "ImageId": "ami-evil"})
        await templates.ensure(other)
        assert (await templates.compared(wanted))[1] == "ImageId differ from the settings"
        await templates.ensure(wanted)
        assert (await templates.compared(wanted))[1] == ""


@pytest.mark.real_loop
async def test_versions_that_another_principal_adds_change_nothing(aws: Aws, cloud: Control) -> None:
    async with opened(aws) as session:
        templates, wanted = Templates(session), one(aws=aws)
        await templates.ensure(wanted)
        ec2 = await session.client("ec2")
        data = {"ImageId": "ami-evil"}
        await call(ec2, "create_launch_template_version", LaunchTemplateName=wanted.name, LaunchTemplateData=data)
        assert (await templates.compared(wanted))[1] == ""


@pytest.mark.real_loop
async def test_a_template_without_our_tag_is_left_alone(aws: Aws, cloud: Control) -> None:
    async with opened(aws) as session:
        templates, wanted = Templates(session), one(aws=aws)
        ec2 = await session.client("ec2")
        data = {"ImageId": "ami-theirs"}
        await call(ec2, "create_launch_template", LaunchTemplateName=wanted.name, LaunchTemplateData=data)
        assert await templates.found() == []
        with pytest.raises(ConfigError, match="does not carry the tag bullpen:pool=ci-pool"):
            await templates.ensure(wanted)
        assert cloud.calls().get("DeleteLaunchTemplate", 0) == 0


@pytest.mark.real_loop
async def test_all_pages_of_the_templates_of_the_pool_are_listed(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    async with opened(aws) as session:
        templates = Templates(session)
        for n in range(5):
            await templates.ensure(Template(f"ci-pool-{n}", "small", 1, {"ImageId": "ami-1"}))
        assert len(await templates.found()) == 5
