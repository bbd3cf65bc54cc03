"""The Terraform module in deploy/terraform, drawn from the engine's own data: `python tools/terraform_module.py`.

Table, queue attributes and policies are what refresh would make; launch templates come in through a variable, whose
value `bullpen config terraform` prints. Written as JSON, which Terraform reads as well as its own language.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bullpen.engines.aws.dynamodb.schema import POOL_TAG, recovery_specification, table_definition, ttl_specification
from bullpen.engines.aws.infrastructure.policies import Place, Policy, control_plane, instance, workflow
from bullpen.engines.aws.sqs.schema import ATTRIBUTES, ENCRYPTED
from bullpen.model.boot import CALLER

MODULE = Path(__file__).parents[1] / "deploy/terraform/main.tf.json"
PLACE = Place(
    pool="${var.pool}",
    role="${var.instance_profile}",
    profile="${var.instance_profile}",
    image="${var.image}",
    subnets=("EACH SUBNET",),
    security_groups=("EACH GROUP",),
    region="${local.region}",
    account="${local.account}",
    partition="${local.partition}",
    dns_suffix="${local.dns_suffix}",
    makes_templates=False,
)
LISTS = {"EACH SUBNET": "var.subnets", "EACH GROUP": 'length(var.security_groups) > 0 ? var.security_groups : ["*"]'}
GITHUB = "token.actions.githubusercontent.com"
AUDIENCE = PLACE.service("sts")
SUBJECT = "^repo:[^*/:]+/[^*/:]+:.+$"
TAGS = {POOL_TAG: "${var.pool}"}
MADE_OR_GIVEN = (
    '${var.github_provider_arn != "" ? var.github_provider_arn : one(aws_iam_openid_connect_provider.github[*].arn)}'
)
INSTANCE_POLICY = (
    "${var.served ? jsonencode(local.served_instance)"
    " : var.on_github ? jsonencode(local.github_instance) : jsonencode(local.instance)}"
)
WORKFLOW_POLICY = "${var.workflows_launch ? jsonencode(local.launching_workflow) : jsonencode(local.workflow)}"
SOME_SUBJECTS = "${length(var.github_subjects) > 0 ? 1 : 0}"
SOME_PRINCIPALS = "${length(var.control_plane_principals) > 0 ? 1 : 0}"

TOML = """\
[engines]
pool = "aws"

[aws]
manage = "external"
pool = "${var.pool}"
region = "${local.region}"
image = "${var.image}"
instance-profile = "${aws_iam_instance_profile.instance.name}"
subnets = ${jsonencode(var.subnets)}
security-groups = ${jsonencode(var.security_groups)}
"""


def render() -> str:
    return json.dumps(module(), indent=2) + "\n"


def module() -> dict[str, Any]:
    return {
        "terraform": {
            "required_version": ">= 1.5",
            "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.81"}},
        },
        "variable": _variables(),
        "data": {"aws_caller_identity": {"here": {}}, "aws_region": {"here": {}}, "aws_partition": {"here": {}}},
        "locals": {
            "account": "${data.aws_caller_identity.here.account_id}",
            "region": "${data.aws_region.here.name}",
            "partition": "${data.aws_partition.here.partition}",
            "dns_suffix": "${data.aws_partition.here.dns_suffix}",
            "control_plane": _with_lists(control_plane(PLACE)),
            "workflow": workflow(PLACE),
            "launching_workflow": _with_lists(workflow(PLACE, launch=True)),
            "instance": instance(PLACE),
            "served_instance": _escaped(instance(replace(PLACE, served=True))),
            "github_instance": instance(replace(PLACE, on_github=True)),
            **{f"{who}_trust": trust for who, trust in _trusts().items()},
            "github_provider": MADE_OR_GIVEN,
        },
        "resource": {
            "aws_dynamodb_table": {"pool": _table()},
            "aws_sqs_queue": {"class": _queue()},
            "aws_launch_template": {"class": _template()},
            **_identities(),
        },
        "output": {
            "bullpen_toml": {"description": "Put this into bullpen.toml.", "value": TOML},
            "control_plane_policy_arn": {"value": "${aws_iam_policy.control_plane.arn}"},
            "control_plane_role_arn": {"value": "${one(aws_iam_role.control_plane[*].arn)}"},
            "workflow_role_arn": {"value": "${one(aws_iam_role.workflow[*].arn)}"},
        },
    }


def _variables() -> dict[str, Any]:
    told = "as `bullpen config terraform` prints it"
    form = "repo:OWNER/NAME:…, or repo:OWNER@ID/NAME@ID:…"
    return {
        "pool": {"type": "string", "description": f"aws.pool, {told}"},
        "image": {"type": "string", "description": f"aws.image, {told}"},
        "subnets": {"type": "list(string)", "description": f"aws.subnets, {told}"},
        "security_groups": {"type": "list(string)", "default": [], "description": f"aws.security-groups, {told}"},
        "instance_profile": {"type": "string", "description": "The machines' profile, and the name of their role"},
        "served": {"type": "bool", "default": False, "description": f"Whether agent.serve-url is set, {told}"},
        "on_github": {"type": "bool", "default": False, "description": f"Whether engines.ci is github, {told}"},
        "queues": {"type": "list(string)", "description": f"The queue of each class, {told}"},
        "launch_templates": {"type": "any", "description": f"Content by name, {told}"},
        "control_plane_principals": {
            "type": "list(string)",
            "default": [],
            "description": "ARNs of who may run refresh, serve and doctor; none: attach the policy yourself",
        },
        "github_subjects": {
            "type": "list(string)",
            "default": [],
            "description": f"Which workflows may provision: {form}; a * may end it. None: no role is made",
            "validation": {
                "condition": f"${{alltrue([for one in var.github_subjects : can(regex({json.dumps(SUBJECT)}, one))])}}",
                "error_message": f"Each must name its repository in full: {form}",
            },
        },
        "workflows_launch": {
            "type": "bool",
            "default": False,
            "description": "Whether these workflows launch machines, trusted like the control plane",
        },
        "github_provider_arn": {
            "type": "string",
            "default": "",
            "description": "The account's OIDC provider of GitHub; empty: it has none yet, and one is made",
        },
    }


def _table() -> dict[str, Any]:
    definition = table_definition("${var.pool}")
    hash_key, range_key = (key["AttributeName"] for key in definition["KeySchema"])
    ttl = ttl_specification("${var.pool}")["TimeToLiveSpecification"]
    recovery = recovery_specification("${var.pool}")["PointInTimeRecoverySpecification"]
    return {
        "name": definition["TableName"],
        "billing_mode": definition["BillingMode"],
        "hash_key": hash_key,
        "range_key": range_key,
        "attribute": [
            {"name": one["AttributeName"], "type": one["AttributeType"]} for one in definition["AttributeDefinitions"]
        ],
        "global_secondary_index": [_index(one) for one in definition["GlobalSecondaryIndexes"]],
        "ttl": {"attribute_name": ttl["AttributeName"], "enabled": ttl["Enabled"]},
        "point_in_time_recovery": {"enabled": recovery["PointInTimeRecoveryEnabled"]},
        "deletion_protection_enabled": definition["DeletionProtectionEnabled"],
        "tags": {tag["Key"]: tag["Value"] for tag in definition["Tags"]},
    }


def _index(index: dict[str, Any]) -> dict[str, Any]:
    hash_key, range_key = (key["AttributeName"] for key in index["KeySchema"])
    drawn = {"name": index["IndexName"], "hash_key": hash_key, "range_key": range_key}
    projection = index["Projection"]
    drawn["projection_type"] = projection["ProjectionType"]
    included = projection.get("NonKeyAttributes")
    return {**drawn, "non_key_attributes": included} if included else drawn


def _queue() -> dict[str, Any]:
    names = {
        "MessageRetentionPeriod": "message_retention_seconds",
        "VisibilityTimeout": "visibility_timeout_seconds",
        "DelaySeconds": "delay_seconds",
    }
    drawn: dict[str, Any] = {names[name]: int(ATTRIBUTES[name]) for name in names}
    drawn["sqs_managed_sse_enabled"] = ATTRIBUTES[ENCRYPTED] == "true"
    return {"for_each": "${toset(var.queues)}", "name": "${each.key}", **drawn, "tags": TAGS}


def _template() -> dict[str, Any]:
    """Each field of what EC2 calls LaunchTemplateData, as the provider names it."""
    data, needs = "each.value.data", "each.value.data.InstanceRequirements"
    return {
        "for_each": "${var.launch_templates}",
        "name": "${each.key}",
        "image_id": f"${{{data}.ImageId}}",
        "instance_initiated_shutdown_behavior": f"${{{data}.InstanceInitiatedShutdownBehavior}}",
        "user_data": f"${{{data}.UserData}}",
        "vpc_security_group_ids": f"${{try({data}.SecurityGroupIds, null)}}",
        "iam_instance_profile": {
            "name": f"${{try({data}.IamInstanceProfile.Name, null)}}",
            "arn": f"${{try({data}.IamInstanceProfile.Arn, null)}}",
        },
        "metadata_options": {
            "http_endpoint": f"${{{data}.MetadataOptions.HttpEndpoint}}",
            "http_tokens": f"${{{data}.MetadataOptions.HttpTokens}}",
            "http_put_response_hop_limit": f"${{{data}.MetadataOptions.HttpPutResponseHopLimit}}",
        },
        "instance_requirements": {
            "vcpu_count": {"min": f"${{{needs}.VCpuCount.Min}}"},
            "memory_mib": {"min": f"${{{needs}.MemoryMiB.Min}}"},
            "burstable_performance": f"${{{needs}.BurstablePerformance}}",
            "on_demand_max_price_percentage_over_lowest_price": (
                f"${{{needs}.OnDemandMaxPricePercentageOverLowestPrice}}"
            ),
            "spot_max_price_percentage_over_lowest_price": f"${{{needs}.SpotMaxPricePercentageOverLowestPrice}}",
            "allowed_instance_types": f"${{try({needs}.AllowedInstanceTypes, null)}}",
        },
        "dynamic": {
            "block_device_mappings": {
                "for_each": f"${{try({data}.BlockDeviceMappings, [])}}",
                "content": {
                    "device_name": "${block_device_mappings.value.DeviceName}",
                    "ebs": {
                        "volume_size": "${block_device_mappings.value.Ebs.VolumeSize}",
                        "volume_type": "${block_device_mappings.value.Ebs.VolumeType}",
                        "delete_on_termination": "${block_device_mappings.value.Ebs.DeleteOnTermination}",
                    },
                },
            },
            "tag_specifications": {
                "for_each": f"${{{data}.TagSpecifications}}",
                "content": {
                    "resource_type": "${tag_specifications.value.ResourceType}",
                    "tags": "${{for tag in tag_specifications.value.Tags : tag.Key => tag.Value}}",
                },
            },
        },
        "tags": "${each.value.tags}",
        "depends_on": ["aws_iam_instance_profile.instance"],
    }


def _trusts() -> dict[str, Policy]:
    """Who may take on which role."""
    workflows = {
        "StringEquals": {f"{GITHUB}:aud": AUDIENCE},
        "StringLike": {f"{GITHUB}:sub": "${var.github_subjects}"},
    }
    return {
        "instance": _trust({"Service": PLACE.service("ec2")}, "sts:AssumeRole"),
        "control_plane": _trust({"AWS": "${var.control_plane_principals}"}, "sts:AssumeRole"),
        "workflow": _trust({"Federated": "${local.github_provider}"}, "sts:AssumeRoleWithWebIdentity", workflows),
    }


def _identities() -> dict[str, Any]:
    """Roles with their policies; those that nobody may take on are not made."""
    names = {
        "instance": "${var.instance_profile}",
        "control_plane": "${var.pool}-control-plane",
        "workflow": "${var.pool}-workflow",
    }
    policies = {"instance": INSTANCE_POLICY, "workflow": WORKFLOW_POLICY}
    some = {"control_plane": {"count": SOME_PRINCIPALS}, "workflow": {"count": SOME_SUBJECTS}}
    return {
        "aws_iam_role": {
            who: {
                **some.get(who, {}),
                "name": name,
                "assume_role_policy": f"${{jsonencode(local.{who}_trust)}}",
                "tags": TAGS,
            }
            for who, name in names.items()
        },
        "aws_iam_policy": {
            who: {"name": name, "policy": policies.get(who, f"${{jsonencode(local.{who})}}"), "tags": TAGS}
            for who, name in names.items()
        },
        "aws_iam_role_policy_attachment": {
            who: {
                **some.get(who, {}),
                "role": f"${{aws_iam_role.{who}{'[0]' if who in some else ''}.name}}",
                "policy_arn": f"${{aws_iam_policy.{who}.arn}}",
            }
            for who in names
        },
        "aws_iam_instance_profile": {
            "instance": {"name": "${var.instance_profile}", "role": "${aws_iam_role.instance.name}", "tags": TAGS}
        },
        "aws_iam_openid_connect_provider": {
            "github": {
                "count": '${length(var.github_subjects) > 0 && var.github_provider_arn == "" ? 1 : 0}',
                "url": f"https://{GITHUB}",
                "client_id_list": [AUDIENCE],
                "tags": TAGS,
            }
        },
    }


def _trust(principal: dict[str, str], action: str, condition: dict[str, Any] | None = None) -> Policy:
    statement = {"Effect": "Allow", "Principal": principal, "Action": action}
    return {"Version": "2012-10-17", "Statement": [{**statement, "Condition": condition} if condition else statement]}


def _escaped(policy: Policy) -> Policy:
    """What IAM puts in when it judges is not for Terraform to put in."""
    escaped: Policy = json.loads(json.dumps(policy).replace(CALLER, f"${CALLER}"))
    return escaped


def _with_lists(policy: Policy) -> Policy:
    """Where a resource stands for each of a list, the list of ARNs is worked out by Terraform."""
    return {**policy, "Statement": [{**one, "Resource": _resources(one["Resource"])} for one in policy["Statement"]]}


def _resources(resources: list[str]) -> list[str] | str:
    if not any(mark in one for one in resources for mark in LISTS):
        return resources
    parts = []
    for one in resources:
        mark = next((mark for mark in LISTS if mark in one), "")
        arn = json.dumps(one.replace(mark, "${one}") if mark else one)
        parts.append(f"[for one in ({LISTS[mark]}) : {arn}]" if mark else f"[{arn}]")
    return f"${{concat({', '.join(parts)})}}"


if __name__ == "__main__":
    MODULE.write_text(render())
