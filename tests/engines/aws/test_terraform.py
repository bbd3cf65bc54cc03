"""The Terraform module makes what refresh makes: the published one is read back and compared with the engine's data."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

import terraform_module
from bullpen import __version__
from bullpen.config import Agent, Aws, Engines, ResourceClass, Settings
from bullpen.engines.aws.dynamodb.schema import recovery_specification, table_definition, ttl_specification
from bullpen.engines.aws.ec2.template import GENERATION_TAG, VERSION_TAG
from bullpen.engines.aws.infrastructure.policies import Place, control_plane, instance, workflow
from bullpen.engines.aws.infrastructure.terraform import variables
from bullpen.engines.aws.sqs.schema import ATTRIBUTES, tags

MODULE: dict[str, Any] = json.loads(terraform_module.MODULE.read_text())
RESOURCES = MODULE["resource"]
SUBNETS = ("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
SETTINGS = Settings(
    engines=Engines(pool="aws"),
    aws=Aws(
        pool="acme",
        manage="external",
        image="ami-0123456789abcdef0",
        subnets=SUBNETS,
        security_groups=("sg-0123456789abcdef0",),
        instance_profile="acme-instance",
        volume=50,
        tags={"team": "build"},
    ),
    classes={"a.b": ResourceClass(2, 4096, allowed_instance_types=("c*",)), "small": ResourceClass(1, 1024)},
)


def filled(value: Any) -> Any:
    """A value of the module with its variables put in, as far as they are plain texts."""
    known = {
        "var.pool": "acme",
        "var.image": "ami-0123456789abcdef0",
        "var.instance_profile": "acme-instance",
        "local.region": "eu-central-1",
        "local.account": "123456789012",
        "local.partition": "aws",
        "local.dns_suffix": "amazonaws.com",
    }
    match value:
        case str() if value.startswith("${concat("):
            return list(listed(value))
        case str():
            return re.sub(r"\$\{([a-z._]+)\}", lambda found: known.get(found[1], found[0]), value)
        case list():
            return [filled(one) for one in value]
        case dict():
            return {filled(key): filled(one) for key, one in value.items()}
    return value


def listed(expression: str) -> Iterator[str]:
    """The ARNs that Terraform works out of `concat([for one in (list) : "arn"], ["arn"], ...)`."""
    lists = {"var.subnets": SUBNETS, "security_groups": SETTINGS.aws.security_groups}
    for over, arn in re.findall(r'\[(?:for one in \((.*?)\) : )?("arn[^"]*")\]', expression):
        for one in next((values for name, values in lists.items() if name in over), ("",)):
            yield filled(json.loads(arn).replace("${one}", one))


def test_the_published_module_is_what_the_code_has() -> None:
    assert terraform_module.MODULE.read_text() == terraform_module.render(), "run python tools/terraform_module.py"


def test_the_table_is_the_one_that_refresh_makes() -> None:
    table = filled(RESOURCES["aws_dynamodb_table"]["pool"])

    def keys(drawn: Mapping[str, str]) -> list[dict[str, str]]:
        hash_key = {"AttributeName": drawn["hash_key"], "KeyType": "HASH"}
        return [hash_key, {"AttributeName": drawn["range_key"], "KeyType": "RANGE"}]

    def projection(index: Mapping[str, Any]) -> dict[str, Any]:
        included = index.get("non_key_attributes")
        return {"ProjectionType": index["projection_type"], **({"NonKeyAttributes": included} if included else {})}

    assert table_definition("acme") == {
        "TableName": table["name"],
        "BillingMode": table["billing_mode"],
        "KeySchema": keys(table),
        "AttributeDefinitions": [{"AttributeName": a["name"], "AttributeType": a["type"]} for a in table["attribute"]],
        "GlobalSecondaryIndexes": [
            {"IndexName": index["name"], "KeySchema": keys(index), "Projection": projection(index)}
            for index in table["global_secondary_index"]
        ],
        "DeletionProtectionEnabled": table["deletion_protection_enabled"],
        "Tags": [{"Key": key, "Value": value} for key, value in table["tags"].items()],
    }
    assert recovery_specification("acme")["PointInTimeRecoverySpecification"] == {
        "PointInTimeRecoveryEnabled": table["point_in_time_recovery"]["enabled"]
    }
    assert ttl_specification("acme")["TimeToLiveSpecification"] == {
        "Enabled": table["ttl"]["enabled"],
        "AttributeName": table["ttl"]["attribute_name"],
    }


def test_the_queues_are_those_that_refresh_makes() -> None:
    queue = filled(RESOURCES["aws_sqs_queue"]["class"])
    drawn = {
        "MessageRetentionPeriod": str(queue["message_retention_seconds"]),
        "VisibilityTimeout": str(queue["visibility_timeout_seconds"]),
        "DelaySeconds": str(queue["delay_seconds"]),
        "SqsManagedSseEnabled": json.dumps(queue["sqs_managed_sse_enabled"]),
    }
    assert drawn == ATTRIBUTES
    assert queue["tags"] == tags("acme")
    assert "redrive_policy" not in queue
    assert variables(SETTINGS)["queues"] == ["acme-a_2Eb", "acme-small"]


@pytest.mark.parametrize("policy", [control_plane, workflow, instance])
def test_the_policies_are_those_that_iam_policy_prints(policy: Any) -> None:
    place = Place(
        pool="acme",
        role="acme-instance",
        profile="acme-instance",
        image="ami-0123456789abcdef0",
        subnets=SUBNETS,
        security_groups=SETTINGS.aws.security_groups,
        region="eu-central-1",
        account="123456789012",
        makes_templates=False,
    )
    assert filled(MODULE["locals"][policy.__name__]) == policy(place)
    assert filled(MODULE["locals"]["launching_workflow"]) == workflow(place, launch=True)
    assert f"jsonencode(local.{policy.__name__})" in RESOURCES["aws_iam_policy"][policy.__name__]["policy"]


def test_machines_get_the_policy_of_their_way_to_work() -> None:
    place = Place("acme", "acme-instance", "acme-instance", region="eu-central-1", account="123456789012")
    escaped = json.loads(json.dumps(MODULE["locals"]["served_instance"]).replace("$${", "${"))
    assert filled(escaped) == instance(dataclasses.replace(place, served=True))
    assert filled(MODULE["locals"]["github_instance"]) == instance(dataclasses.replace(place, on_github=True))
    assert RESOURCES["aws_iam_policy"]["instance"]["policy"] == (
        "${var.served ? jsonencode(local.served_instance)"
        " : var.on_github ? jsonencode(local.github_instance) : jsonencode(local.instance)}"
    )
    on_github = replace(SETTINGS, engines=Engines(pool="aws", ci="github"))
    assert (variables(SETTINGS)["on_github"], variables(on_github)["on_github"]) == (False, True)
    served = replace(SETTINGS, agent=Agent(serve_url="https://pool.example"))
    assert (variables(SETTINGS)["served"], variables(served)["served"]) == (False, True)


@pytest.mark.parametrize(
    ("region", "partition", "zones"), [("ap-southeast-1", "aws", 16), ("us-gov-west-1", "aws-us-gov", 8)]
)
def test_a_policy_for_many_subnets_and_groups_fits_into_what_iam_takes(region: str, partition: str, zones: int) -> None:
    subnets = tuple(f"subnet-0123456789abcde{n:02}" for n in range(zones))
    groups = tuple(f"sg-0123456789abcdef{n}" for n in range(5))
    place = Place("a" * 32, "r" * 40, "p" * 40, "ami-0123456789abcdef0", subnets, groups, region, "1" * 12, partition)
    assert len(json.dumps(control_plane(place), separators=(",", ":"))) <= 6144


def test_hosts_that_find_their_region_otherwise_agree_on_the_templates() -> None:
    told = replace(SETTINGS, aws=replace(SETTINGS.aws, region="eu-central-1"))
    assert variables(told)["launch_templates"] == variables(SETTINGS)["launch_templates"]


def leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from leaves(one, f"{path}.{key}")
    else:
        yield path


def test_everything_in_a_template_reaches_terraform() -> None:
    """Each field that refresh would send is read by the module, and the module reads no other."""
    templates = variables(SETTINGS)["launch_templates"]
    sent = {leaf for one in templates.values() for leaf in leaves(one["data"], "each.value.data")}
    drawn = json.dumps(RESOURCES["aws_launch_template"]["class"])
    read = set(re.findall(r"each\.value\.data[A-Za-z.]+", drawn))
    assert read - {"each.value.data.IamInstanceProfile.Arn"} == sent
    inside = {"DeviceName", "Ebs.VolumeSize", "Ebs.VolumeType", "Ebs.DeleteOnTermination"}
    (mapping,) = next(iter(templates.values()))["data"]["BlockDeviceMappings"]
    assert {leaf.removeprefix("x.") for leaf in leaves(mapping, "x")} == inside
    assert set(re.findall(r"block_device_mappings\.value\.([A-Za-z.]+)", drawn)) == inside


def test_a_template_carries_the_tags_by_which_refresh_knows_it() -> None:
    (small,) = (
        one for one in variables(SETTINGS)["launch_templates"].values() if one["tags"]["bullpen:class"] == "small"
    )
    made = {GENERATION_TAG: "1", VERSION_TAG: __version__}
    assert small["tags"] == {"team": "build", "bullpen:pool": "acme", "bullpen:class": "small", **made}


@pytest.mark.parametrize(
    ("subject", "is_taken"),
    [
        ("repo:acme/app:ref:refs/heads/main", True),
        ("repo:acme/app:*", True),
        ("repo:acme@1234/app@5678:environment:ci", True),
        ("repo:acme/*", False),
        ("repo:*", False),
        ("*", False),
    ],
)
def test_only_workflows_of_a_repository_named_in_full_may_take_the_role(subject: str, is_taken: bool) -> None:
    assert terraform_module.SUBJECT in MODULE["variable"]["github_subjects"]["validation"]["condition"]
    assert bool(re.search(terraform_module.SUBJECT, subject)) is is_taken


def test_the_role_of_workflows_trusts_github_only() -> None:
    (statement,) = MODULE["locals"]["workflow_trust"]["Statement"]
    assert statement["Principal"] == {"Federated": "${local.github_provider}"}
    assert statement["Condition"] == {
        "StringEquals": {"token.actions.githubusercontent.com:aud": "sts.${local.dns_suffix}"},
        "StringLike": {"token.actions.githubusercontent.com:sub": "${var.github_subjects}"},
    }


def test_every_variable_is_declared_and_every_declared_one_is_used() -> None:
    text = terraform_module.MODULE.read_text()
    assert set(re.findall(r"var\.([a-z_]+)", text)) == set(MODULE["variable"])
    assert set(variables(SETTINGS)) <= set(MODULE["variable"])


def test_the_provider_is_one_that_knows_every_argument_and_needs_no_other() -> None:
    """Before 5.81 an OIDC provider wanted the thumbprint of GitHub's certificate, which the module does not name."""
    assert MODULE["terraform"]["required_providers"]["aws"]["version"] == ">= 5.81"
    assert "thumbprint_list" not in RESOURCES["aws_iam_openid_connect_provider"]["github"]


def test_services_have_the_names_of_their_partition() -> None:
    """In aws-cn machines assume their role as ec2.amazonaws.com.cn, and a token is made out to sts.amazonaws.com.cn."""
    assert MODULE["locals"]["dns_suffix"] == "${data.aws_partition.here.dns_suffix}"
    (machines,) = MODULE["locals"]["instance_trust"]["Statement"]
    assert machines["Principal"] == {"Service": "ec2.${local.dns_suffix}"}
    assert RESOURCES["aws_iam_openid_connect_provider"]["github"]["client_id_list"] == ["sts.${local.dns_suffix}"]
    text = json.dumps(MODULE).replace("role/aws-service-role/spot.amazonaws.com", "")
    named = set(re.findall(r"[a-z0-9]+\.amazonaws\.com", text))
    assert named == {"spot.amazonaws.com"}, "the names of service-linked roles are the same everywhere"


def test_what_iam_puts_in_when_it_judges_terraform_leaves_alone() -> None:
    text = json.dumps(MODULE)
    assert "#$${ec2:SourceInstanceARN}" in text
    assert not re.findall(r"(?<!\$)\$\{[a-z0-9]+:", text)
