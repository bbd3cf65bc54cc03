"""The Terraform module creates what refresh creates: its HCL is read and compared with the engine's data.

test_terraform_program.py has Terraform itself check the module.
"""

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

import terraform_module
from bullpen import __version__
from bullpen.config import Agent, Aws, Engines, ResourceClass, Settings
from bullpen.engines.aws.dynamodb.schema import recovery_specification, table_definition, ttl_specification
from bullpen.engines.aws.ec2.template import GENERATION_TAG, VERSION_TAG
from bullpen.engines.aws.infrastructure.policies import PolicyScope, control_plane, instance, workflow
from bullpen.engines.aws.infrastructure.terraform import variables
from bullpen.engines.aws.sqs.schema import ATTRIBUTES, tags
from terraform_reader import encoded, evaluated, heredoc, read

MODULE = read(terraform_module.FOLDER)
LOCALS = MODULE["locals"]
RESOURCES = MODULE["resource"]
SUBJECT = "^repo:[^*/:]+/[^*/:]+:.+$"
"""The regular expression that Terraform holds each of `github_subjects` to."""
IMAGES = ("ami-0123456789abcdef0", "ami-0123456789abcdef1")
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
    classes={
        "small": ResourceClass(1, 1024),
        "a.b": ResourceClass(2, 4096, allowed_instance_types=("c*",), image=IMAGES[1], architecture="arm64", disk=100),
    },
)


KNOWN = {
    "var.pool": "acme",
    "var.image": "ami-0123456789abcdef0",
    "var.images": [*IMAGES],
    "var.subnets": [*SUBNETS],
    "var.security_groups": [*SETTINGS.aws.security_groups],
    "var.instance_profile": "acme-instance",
    **{f"local.{name}": value for name, value in LOCALS.items()},
    "local.region": "eu-central-1",
    "local.account": "123456789012",
    "local.partition": "aws",
    "local.dns_suffix": "amazonaws.com",
}
PLACE = PolicyScope(
    pool="acme",
    role="acme-instance",
    profile="acme-instance",
    images=IMAGES,
    subnets=SUBNETS,
    security_groups=SETTINGS.aws.security_groups,
    region="eu-central-1",
    account="123456789012",
    makes_templates=False,
)


def filled(value: Any) -> Any:
    """A value of the module with the variables of `SETTINGS`."""
    return evaluated(value, KNOWN)


def only(blocks: list[Any]) -> Any:
    (block,) = blocks
    return block


def test_the_generated_policies_are_up_to_date() -> None:
    written = terraform_module.POLICIES.read_text()
    assert written == terraform_module.render(), "run python tools/terraform_module.py"


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
        "PointInTimeRecoveryEnabled": only(table["point_in_time_recovery"])["enabled"]
    }
    ttl = only(table["ttl"])
    assert ttl_specification("acme")["TimeToLiveSpecification"] == {
        "Enabled": ttl["enabled"],
        "AttributeName": ttl["attribute_name"],
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
    assert variables(SETTINGS)["queues"] == ["acme-small", "acme-a_2Eb"]


@pytest.mark.parametrize("policy", [control_plane, workflow, instance])
def test_the_policies_are_those_that_iam_policy_prints(policy: Any) -> None:
    name = policy.__name__
    assert filled(LOCALS[f"{name}_policy"]) == policy(PLACE)
    assert f"jsonencode(local.{name}_policy)" in RESOURCES["aws_iam_policy"][name]["policy"]


def test_workflows_that_launch_get_the_policy_that_iam_policy_prints_for_them() -> None:
    assert filled(LOCALS["launching_workflow_policy"]) == workflow(PLACE, launch=True)
    assert RESOURCES["aws_iam_policy"]["workflow"]["policy"] == (
        "${var.workflows_launch ? jsonencode(local.launching_workflow_policy) : jsonencode(local.workflow_policy)}"
    )


def test_without_security_groups_any_group_may_be_used() -> None:
    anywhere = dataclasses.replace(PLACE, security_groups=("*",))
    ungrouped = {**KNOWN, "var.security_groups": []}
    assert evaluated(LOCALS["control_plane_policy"], ungrouped) == control_plane(anywhere)
    assert evaluated(LOCALS["launching_workflow_policy"], ungrouped) == workflow(anywhere, launch=True)


def test_instances_get_the_policy_of_the_way_they_work() -> None:
    served = json.loads(json.dumps(LOCALS["served_instance_policy"]).replace("$${", "${"))
    assert filled(served) == instance(dataclasses.replace(PLACE, served=True))
    assert filled(LOCALS["github_instance_policy"]) == instance(dataclasses.replace(PLACE, on_github=True))
    assert RESOURCES["aws_iam_policy"]["instance"]["policy"] == (
        "${(var.served ? jsonencode(local.served_instance_policy)"
        " : var.on_github ? jsonencode(local.github_instance_policy) : jsonencode(local.instance_policy))}"
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
    place = PolicyScope("a" * 32, "r" * 40, "p" * 40, IMAGES[:1], subnets, groups, region, "1" * 12, partition)
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


def arguments(block: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """The path of each argument of a resource, and its expression; `dynamic` blocks by the name of what they repeat."""
    for name, value in block.items():
        if name == "dynamic":
            for repeated in value:
                ((inner, body),) = repeated.items()
                yield f"{path}{inner}", body["for_each"]
                yield from arguments(only(body["content"]), f"{path}{inner}.")
        elif isinstance(value, list) and isinstance(value[0], dict):
            yield from arguments(only(value), f"{path}{name}.")
        else:
            yield f"{path}{name}", str(value)


def test_each_field_of_a_template_goes_to_the_argument_of_its_name() -> None:
    spelled = {"MemoryMiB": "memory_mib", "SecurityGroupIds": "vpc_security_group_ids"}
    lists = {"block_device_mappings": "BlockDeviceMappings.", "tag_specifications": "TagSpecifications."}

    def argument(field: str) -> str:
        words = (spelled.get(one) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one).lower() for one in field.split("."))
        return ".".join(words)

    fields = re.compile(r"(each\.value\.data|[a-z_]+\.value)\.([A-Z][A-Za-z.]+)")
    checked = 0
    for path, expression in arguments(RESOURCES["aws_launch_template"]["class"]):
        for source, field in fields.findall(expression):
            checked += 1
            assert argument(lists.get(source.removesuffix(".value"), "") + field) == path
    assert checked == 24


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
    condition = only(MODULE["variable"]["github_subjects"]["validation"])["condition"]
    wanted = f"can(regex({json.dumps(SUBJECT)}, subject))"
    assert condition == f"${{alltrue([for subject in var.github_subjects : {wanted}])}}"
    assert bool(re.search(SUBJECT, subject)) is is_taken


def trust(role: str) -> dict[str, Any]:
    """The one statement that says which principals may assume the role."""
    policy = encoded(RESOURCES["aws_iam_role"][role]["assume_role_policy"])
    assert policy["Version"] == "2012-10-17"
    statement: dict[str, Any] = only(policy["Statement"])
    assert statement["Effect"] == "Allow"
    return statement


def test_the_role_of_workflows_trusts_github_only() -> None:
    statement = trust("workflow")
    assert statement["Principal"] == {"Federated": "${local.github_provider}"}
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Condition"] == {
        "StringEquals": {"token.actions.githubusercontent.com:aud": "sts.${local.dns_suffix}"},
        "StringLike": {"token.actions.githubusercontent.com:sub": "${var.github_subjects}"},
    }


def test_the_oidc_provider_is_the_given_one_or_a_new_one() -> None:
    assert LOCALS["github_provider"] == (
        '${(var.github_provider_arn != "" ? var.github_provider_arn'
        " : one(aws_iam_openid_connect_provider.github[*].arn))}"
    )
    provider = RESOURCES["aws_iam_openid_connect_provider"]["github"]
    assert provider["count"] == '${length(var.github_subjects) > 0 && var.github_provider_arn == "" ? 1 : 0}'
    assert provider["url"] == "https://token.actions.githubusercontent.com"


def test_the_other_roles_are_for_instances_and_for_the_named_principals() -> None:
    assert trust("instance") == {
        "Effect": "Allow",
        "Principal": {"Service": "ec2.${local.dns_suffix}"},
        "Action": "sts:AssumeRole",
    }
    assert trust("control_plane") == {
        "Effect": "Allow",
        "Principal": {"AWS": "${var.control_plane_principals}"},
        "Action": "sts:AssumeRole",
    }


@pytest.mark.parametrize(
    ("name", "called", "only_with"),
    [
        ("instance", "acme-instance", None),
        ("control_plane", "acme-control-plane", "control_plane_principals"),
        ("workflow", "acme-workflow", "github_subjects"),
    ],
)
def test_each_role_has_its_own_policy_and_exists_if_it_can_be_assumed(
    name: str, called: str, only_with: str | None
) -> None:
    role, policy = filled(RESOURCES["aws_iam_role"][name]), filled(RESOURCES["aws_iam_policy"][name])
    attachment = RESOURCES["aws_iam_role_policy_attachment"][name]
    count = f"${{length(var.{only_with}) > 0 ? 1 : 0}}" if only_with else None
    assert (role["name"], policy["name"]) == (called, called)
    assert (role.get("count"), attachment.get("count"), policy.get("count")) == (count, count, None)
    assert attachment["role"] == f"${{aws_iam_role.{name}{'[0]' if only_with else ''}.name}}"
    assert attachment["policy_arn"] == f"${{aws_iam_policy.{name}.arn}}"


def test_instances_get_their_role_through_the_profile_that_the_templates_name() -> None:
    profile = RESOURCES["aws_iam_instance_profile"]["instance"]
    assert profile["role"] == "${aws_iam_role.instance.name}"
    assert filled(profile["name"]) == variables(SETTINGS)["instance_profile"]
    assert RESOURCES["aws_launch_template"]["class"]["depends_on"] == ["${aws_iam_instance_profile.instance}"]


def test_everything_that_can_carry_a_tag_carries_that_of_the_pool() -> None:
    own_tags = {"aws_launch_template", "aws_iam_role_policy_attachment"}  # each.value.tags; cannot be tagged
    tagged = {kind: named for kind, named in RESOURCES.items() if kind not in own_tags}
    assert [filled(one["tags"]) for named in tagged.values() for one in named.values()] == [tags("acme")] * 10
    assert RESOURCES["aws_launch_template"]["class"]["tags"] == "${each.value.tags}"


def test_the_output_for_bullpen_toml_names_what_the_module_creates() -> None:
    known = {**KNOWN, "aws_iam_instance_profile.instance.name": "acme-instance"}
    text = evaluated(heredoc(MODULE["output"]["bullpen_toml"]["value"]), known)
    text = re.sub(r"\$\{jsonencode\(([a-z_.]+)\)\}", lambda found: json.dumps(known[found[1]]), text)
    assert tomllib.loads(text) == {
        "engines": {"pool": "aws"},
        "aws": {
            "manage": "external",
            "pool": "acme",
            "region": "eu-central-1",
            "image": "ami-0123456789abcdef0",
            "instance-profile": "acme-instance",
            "subnets": [*SUBNETS],
            "security-groups": ["sg-0123456789abcdef0"],
        },
    }


def test_the_outputs_name_the_roles_and_the_policy() -> None:
    assert {name: one["value"] for name, one in MODULE["output"].items() if name != "bullpen_toml"} == {
        "control_plane_policy_arn": "${aws_iam_policy.control_plane.arn}",
        "control_plane_role_arn": "${one(aws_iam_role.control_plane[*].arn)}",
        "workflow_role_arn": "${one(aws_iam_role.workflow[*].arn)}",
    }


def test_every_variable_and_local_is_declared_and_every_declared_one_is_used() -> None:
    text = json.dumps(MODULE)
    assert set(re.findall(r"\bvar\.([a-z_]+)", text)) == set(MODULE["variable"])
    assert set(re.findall(r"\blocal\.([a-z_]+)", text)) == set(LOCALS)
    assert set(variables(SETTINGS)) <= set(MODULE["variable"])


def test_what_config_terraform_always_prints_needs_no_default_and_the_rest_has_one() -> None:
    required = {name for name, one in MODULE["variable"].items() if "default" not in one}
    assert required == {"pool", "image", "images", "subnets", "instance_profile", "queues", "launch_templates"}
    assert required <= set(variables(SETTINGS))
    own = {name: MODULE["variable"][name]["default"] for name in set(MODULE["variable"]) - set(variables(SETTINGS))}
    assert own == {
        "control_plane_principals": [],
        "github_subjects": [],
        "workflows_launch": False,
        "github_provider_arn": "",
    }


def test_the_provider_is_one_that_knows_every_argument_and_needs_no_other() -> None:
    """Before 5.81 an OIDC provider required the thumbprint of GitHub's certificate, which the module does not name."""
    assert only(MODULE["terraform"]["required_providers"])["aws"] == {"source": "hashicorp/aws", "version": ">= 5.81"}
    assert "thumbprint_list" not in RESOURCES["aws_iam_openid_connect_provider"]["github"]


def test_services_have_the_names_of_their_partition() -> None:
    """In aws-cn instances assume their role as ec2.amazonaws.com.cn, and the audience of a token is
    sts.amazonaws.com.cn."""
    assert LOCALS["dns_suffix"] == "${data.aws_partition.current.dns_suffix}"
    assert trust("instance")["Principal"] == {"Service": "ec2.${local.dns_suffix}"}
    assert RESOURCES["aws_iam_openid_connect_provider"]["github"]["client_id_list"] == ["sts.${local.dns_suffix}"]
    text = json.dumps(MODULE).replace("role/aws-service-role/spot.amazonaws.com", "")
    named = set(re.findall(r"[a-z0-9]+\.amazonaws\.com", text))
    assert named == {"spot.amazonaws.com"}, "the names of service-linked roles are the same everywhere"


def test_terraform_leaves_the_variables_of_iam_alone() -> None:
    text = json.dumps(MODULE)
    assert "#$${ec2:SourceInstanceARN}" in text
    assert not re.findall(r"(?<!\$)\$\{[a-z0-9]+:", text)
