"""Settings of AWS: what AWS would refuse is refused by name before the first call."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bullpen.config import Agent, Aws, Engines, Github, ResourceClass, Settings, Timings, Trust
from bullpen.errors import ConfigError
from bullpen.settings import load
from bullpen.settings.validation import contradictions

AWS = Aws(
    image="ami-0123456789abcdef0",
    subnets=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
    instance_profile="bullpen-instance",
)


def on_aws(**changed: Any) -> Settings:
    return Settings(engines=Engines(pool="aws"), aws=msgspec.structs.replace(AWS, **changed))


def test_image_subnets_and_profile_are_enough() -> None:
    assert list(contradictions(on_aws())) == []


def test_without_the_aws_engine_no_aws_setting_is_required() -> None:
    assert list(contradictions(Settings(aws=Aws(image="whatever")))) == []


@pytest.mark.parametrize(
    ("changed", "found", "allowed"),
    [
        ({"image": ""}, "aws.image ('')", "ami-0123456789abcdef0"),
        ({"image": "ami-linux"}, "aws.image ('ami-linux')", "ami-0123456789abcdef0"),
        ({"subnets": ()}, "aws.subnets ([])", "at least one subnet"),
        ({"subnets": ("vpc-01234567",)}, "aws.subnets has 'vpc-01234567'", "subnet-0123456789abcdef0"),
        ({"subnets": ("subnet-01234567",) * 2}, "aws.subnets has 'subnet-01234567'", "more than once"),
        ({"security_groups": ("default",)}, "aws.security-groups has 'default'", "sg-0123456789abcdef0"),
        ({"instance_profile": ""}, "aws.instance-profile ('')", "name or ARN"),
        ({"instance_profile": "arn:aws:iam::123456789012:role/x"}, "role/x", "name or ARN of an instance profile"),
        ({"instance_role": "bullpen-instance"}, "aws.instance-role ('bullpen-instance')", "the ARN of a role"),
        ({"region": "Frankfurt"}, "aws.region ('Frankfurt')", "eu-central-1"),
        ({"root_device": "xvda"}, "aws.root-device ('xvda')", "/dev/xvda"),
        ({"endpoints": {"dynamo": "http://127.0.0.1"}}, "aws.endpoints has 'dynamo'", "one of dynamodb, sqs"),
        ({"endpoints": {"sqs": "127.0.0.1:9324"}}, "aws.endpoints.sqs ('127.0.0.1:9324')", "http:// or https://"),
        ({"endpoints": {"sqs": "http://me:pw@host"}}, "aws.endpoints.sqs", "without credentials"),
        ({"tags": {"aws:team": "x"}}, "aws.tags has 'aws:team'", "must not start with"),
        ({"tags": {"Bullpen:pool": "x"}}, "aws.tags has 'Bullpen:pool'", "must not start with"),
        ({"tags": {"a" * 129: "x"}}, "aws.tags has", "1 to 128"),
        ({"tags": {"team": "x" * 257}}, "aws.tags.'team'", "at most 256"),
        ({"tags": {f"t{n}": "" for n in range(41)}}, "aws.tags has 41 tags", "at most 40"),
    ],
)
def test_a_setting_that_aws_would_refuse_is_named_with_value_and_what_is_allowed(
    changed: dict[str, Any], found: str, allowed: str
) -> None:
    (wrong,) = contradictions(on_aws(**changed))
    assert found in wrong
    assert allowed in wrong
    assert len(wrong) < 250


def with_class(settings: Settings, **changed: Any) -> Settings:
    return msgspec.structs.replace(settings, classes={"large": ResourceClass(cpu=1, mem=1024, **changed)})


def test_a_class_may_have_an_image_an_architecture_and_a_disk_of_its_own() -> None:
    own = {"image": "ami-0123456789abcdef1", "architecture": "arm64", "disk": 200}
    assert list(contradictions(with_class(on_aws(), **own))) == []
    assert list(contradictions(with_class(on_aws(image=""), **own))) == []  # no class needs that of the pool


def test_the_image_of_a_class_must_be_one() -> None:
    (wrong,) = contradictions(with_class(on_aws(), image="ubuntu"))
    assert wrong.startswith("classes.large.image ('ubuntu') must be the id of an AMI, such as ami-0123456789abcdef0")


@pytest.mark.parametrize(
    ("setting", "value"), [("image", "ami-0123456789abcdef1"), ("architecture", "arm64"), ("disk", 50)]
)
def test_on_this_host_no_class_has_an_image_an_architecture_or_a_disk(setting: str, value: Any) -> None:
    (wrong,) = contradictions(with_class(Settings(), **{setting: value}))
    assert wrong.startswith(f"classes.large.{setting} ('{value}') has a meaning with engines.pool = \"aws\" only")


def test_one_archive_of_the_runner_fits_no_two_architectures() -> None:
    classes = {name: ResourceClass(cpu=1, mem=1024, architecture=name) for name in ("arm64", "x86_64")}
    github = Github(scope="acme/web", token="t", runner_url="https://example.com/r.tar.gz", runner_sha256="a" * 64)
    both = Engines(pool="aws", ci="github")
    wrong = list(contradictions(msgspec.structs.replace(on_aws(), engines=both, github=github, classes=classes)))
    assert any("github.runner-url" in one and "arm64 and x86_64" in one for one in wrong), wrong


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "bullpen.toml"
    file.write_text('[classes.large]\ncpu = 1\nmem = 1024\narchitecture = "amd64"\n')
    with pytest.raises(ConfigError, match=r"classes\.large\.architecture"):
        load({}, config=str(file))


def test_with_serve_url_the_role_of_the_machines_is_required() -> None:
    served = msgspec.structs.replace(on_aws(), agent=Agent(serve_url="https://pool.example"))
    (wrong,) = contradictions(served)
    assert "aws.instance-role ('') must be the ARN of a role: with agent.serve-url" in wrong
    role = msgspec.structs.replace(AWS, instance_role="arn:aws:iam::123456789012:role/ci/bullpen-instance")
    assert list(contradictions(msgspec.structs.replace(served, aws=role))) == []


@pytest.mark.parametrize("patterns", [(), ("",), ("c5?",), ("c 5",), ("x" * 31,)])
def test_a_pattern_that_names_no_type_is_refused_on_every_engine(patterns: tuple[str, ...]) -> None:
    (wrong,) = contradictions(Settings(classes={"a": ResourceClass(1, 1, allowed_instance_types=patterns)}))
    assert "classes.a.allowed-instance-types" in wrong


def test_a_class_whose_queue_would_have_too_long_a_name_is_refused() -> None:
    long = msgspec.structs.replace(on_aws(), classes={"a" + "_" * 25: ResourceClass(1, 1)})
    (wrong,) = contradictions(long)
    assert "84 characters" in wrong
    assert "aws.pool ('bullpen')" in wrong


def test_more_trust_domains_than_one_condition_compares_are_refused() -> None:
    def inheriting(number: int) -> Settings:
        return msgspec.structs.replace(on_aws(), trust=Trust({"main": tuple(f"team-{n}" for n in range(number))}))

    (wrong,) = contradictions(inheriting(99))
    assert "trust.inherits of 'main' has 99 trust domains: must be at most 98" in wrong
    assert list(contradictions(inheriting(98))) == []


def test_a_put_back_longer_than_a_queue_can_hide_is_refused() -> None:
    (wrong,) = contradictions(msgspec.structs.replace(on_aws(), timings=Timings(put_back=901)))
    assert "timings.put-back (901) must be at most 900" in wrong


@pytest.mark.parametrize(
    ("text", "found", "allowed"),
    [
        ("[engines]\npool = 'azure'", "engines.pool = 'azure'", "one of aws, embedded"),
        ("[aws]\npool = 'a'", "aws.pool = 'a'", "3 to 32 letters, digits and dashes"),
        ("[aws]\nmanage = true", "aws.manage = True", "one of external, refresh"),
        ("[aws]\ntags = ['x']", "aws.tags = ['x']", "a table of texts"),
        ("[aws]\nsubnets = 'subnet-1'", "aws.subnets = 'subnet-1'", "a list of texts"),
        ("[aws.endpoints]\nsqs = 1", "aws.endpoints = {'sqs': 1}", "a table of texts"),
    ],
)
def test_a_mistake_in_the_file_says_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: str, allowed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bullpen.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load({})
    assert found in str(caught.value)
    assert allowed in str(caught.value)


def test_variables_reach_lists_and_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"BULLPEN_AWS_SUBNETS": "subnet-01234567, subnet-89abcdef", "BULLPEN_AWS_TAGS": '{ team = "build" }'}
    found = load(environ).settings.aws
    assert found.subnets == ("subnet-01234567", "subnet-89abcdef")
    assert found.tags == {"team": "build"}
