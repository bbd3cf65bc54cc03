"""The IAM policies, judged by a simulator that is not ours: what each role may do, and what it may not."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from bullpen.config import Agent, Aws, Engines, Settings
from bullpen.engines.aws.infrastructure.permissions import questions
from bullpen.engines.aws.infrastructure.policies import Policy, control_plane, instance, place_of, workflow
from bullpen.model.boot import ATTRIBUTES, failure_kind, machine_arn
from fakes.iam_simulator import AwsRequest, Judge

ACCOUNT, REGION = "123456789012", "eu-central-1"
SETTINGS = Settings(
    engines=Engines(pool="aws"),
    aws=Aws(
        pool="acme",
        region=REGION,
        image="ami-0123456789abcdef0",
        subnets=("subnet-0123456789abcdef0",),
        security_groups=("sg-0123456789abcdef0",),
        instance_profile="machines",
        instance_role=f"arn:aws:iam::{ACCOUNT}:role/machines",
    ),
)
SERVED = replace(SETTINGS, agent=Agent(serve_url="https://pool.example"))
ON_GITHUB = replace(SETTINGS, engines=Engines(pool="aws", ci="github"))
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/acme"
OPERATOR = f"arn:aws:iam::{ACCOUNT}:role/operators"
OWN_ID, OTHER_ID = "i-0123456789abcdef0", "i-0fedcba9876543210"
OWN, OTHER = (machine_arn(REGION, ACCOUNT, id) for id in (OWN_ID, OTHER_ID))
MACHINE = f"arn:aws:sts::{ACCOUNT}:assumed-role/machines/{OWN_ID}"
SECRETS = ("Secret", "Token", "AgentSecret")
"""Kinds of items that hold secrets, or are going to."""
SETS = ("ScaleSet", "SetSession")
"""What the control plane writes about scale sets: which jobs machines may run, and which process listens."""
RECORDS = (
    "Instance",
    "Provision",
    "Job",
    "Heartbeat",
    "WS",
    "Registration",
    "Agent",
    "Meta",
    "Repository",
    *SETS,
    *SECRETS,
)


def on_item(action: str, kind: str, **context: Any) -> AwsRequest:
    """A request for one item of the table, by the machine `OWN`."""
    keys = {"dynamodb:LeadingKeys": [f"TYPE#{kind}"], "ec2:SourceInstanceARN": OWN}
    return AwsRequest(f"dynamodb:{action}", TABLE, {**keys, **context})


def those_allowed(judge: Judge, policy: Policy, requests: Sequence[AwsRequest], principal: str) -> list[AwsRequest]:
    return [one for one, is_so in zip(requests, judge(policy, requests, principal), strict=True) if is_so]


def leave_word(arn: str, *more: str) -> AwsRequest:
    return on_item("PutItem", failure_kind(arn), **{"dynamodb:Attributes": [*ATTRIBUTES, *more]})


def test_a_served_machine_fetches_its_agent_and_leaves_word_in_its_own_partition(iam: Judge) -> None:
    policy = instance(place_of(SERVED, ACCOUNT))
    asked = [on_item("GetItem", "Agent"), leave_word(OWN)]
    assert those_allowed(iam, policy, asked, MACHINE) == asked


def test_a_served_machine_reads_and_writes_nothing_else(iam: Judge) -> None:
    policy = instance(place_of(SERVED, ACCOUNT))
    verbs = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem", "ConditionCheckItem")
    asked = [on_item(verb, kind) for verb, kind in product(verbs, RECORDS) if (verb, kind) != ("GetItem", "Agent")]
    asked += [on_item(verb, failure_kind(OWN)) for verb in verbs if verb != "PutItem"]
    asked += [leave_word(OTHER), leave_word(OWN, "poolKey"), leave_word("")]
    assert those_allowed(iam, policy, asked, MACHINE) == []


def test_credentials_that_belong_to_no_machine_leave_no_word(iam: Judge) -> None:
    context = {"dynamodb:Attributes": [*ATTRIBUTES]}
    asked = [
        AwsRequest("dynamodb:PutItem", TABLE, {**context, "dynamodb:LeadingKeys": [f"TYPE#{failure_kind(arn)}"]})
        for arn in (OWN, "", "${ec2:SourceInstanceARN}")
    ]
    assert those_allowed(iam, instance(place_of(SERVED, ACCOUNT)), asked, MACHINE) == []


def test_a_machine_without_a_service_writes_what_agents_write(iam: Judge) -> None:
    policy = instance(place_of(SETTINGS, ACCOUNT))
    verbs = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem", "ConditionCheckItem")
    found = those_allowed(iam, policy, [on_item(verb, kind) for verb, kind in product(verbs, RECORDS)], MACHINE)
    assert found == [
        *(on_item("GetItem", kind) for kind in ("Instance", "Agent")),
        on_item("PutItem", "Registration"),
        *(on_item("UpdateItem", kind) for kind in ("Heartbeat", "WS")),
        on_item("DeleteItem", "Registration"),
        *(on_item("ConditionCheckItem", kind) for kind in ("Instance", "Agent")),
    ]


@pytest.mark.parametrize(("settings", "read"), [(SETTINGS, []), (SERVED, []), (ON_GITHUB, ["Secret"])])
def test_no_machine_reaches_secrets_but_the_one_that_registers_it(
    iam: Judge, settings: Settings, read: list[str]
) -> None:
    policy = instance(place_of(settings, ACCOUNT))
    verbs = ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem")
    asked = [on_item(verb, kind) for verb, kind in product(verbs, SECRETS)]
    asked.append(AwsRequest("dynamodb:Scan", TABLE))
    assert those_allowed(iam, policy, asked, MACHINE) == [on_item("GetItem", kind) for kind in read]


@pytest.mark.parametrize("manage", ["refresh", "external"])
@pytest.mark.parametrize("caller", [OPERATOR, f"arn:aws:iam::{ACCOUNT}:user/operator"])
def test_the_control_plane_may_do_all_that_doctor_asks_about(iam: Judge, manage: str, caller: str) -> None:
    place = place_of(replace(SETTINGS, aws=replace(SETTINGS.aws, manage=manage)), ACCOUNT)
    asked = [
        AwsRequest(action, resource.replace("snapshot/*", "snapshot/snap-0123456789abcdef0"), dict(one.context))
        for one in questions(place, caller)
        for action, resource in product(one.actions, one.resources)
    ]
    assert those_allowed(iam, control_plane(place), asked, caller) == asked


def test_the_control_plane_reads_and_writes_scale_sets_and_their_sessions(iam: Judge) -> None:
    verbs = ("BatchGetItem", "Query", "UpdateItem", "ConditionCheckItem")
    asked = [on_item(verb, kind) for verb, kind in product(verbs, SETS)]
    assert those_allowed(iam, control_plane(place_of(SETTINGS, ACCOUNT)), asked, OPERATOR) == asked


def test_the_control_plane_ends_launches_and_passes_nothing_of_others(iam: Judge) -> None:
    here, iam_of = f"arn:aws:ec2:{REGION}:{ACCOUNT}", f"arn:aws:iam::{ACCOUNT}"
    foreign = {"aws:ResourceTag/bullpen:pool": "other"}
    to_ec2 = {"iam:PassedToService": "ec2.amazonaws.com"}
    asked = [
        AwsRequest("ec2:TerminateInstances", f"{here}:instance/{OWN_ID}", foreign),
        AwsRequest("ec2:TerminateInstances", f"{here}:instance/{OWN_ID}"),
        AwsRequest("ec2:DeleteLaunchTemplate", f"{here}:launch-template/lt-0123456789abcdef0", foreign),
        AwsRequest("ec2:RunInstances", f"{here}:launch-template/lt-0123456789abcdef0", foreign),
        AwsRequest("ec2:RunInstances", f"{here}:instance/*", {"aws:RequestTag/bullpen:pool": "other"}),
        AwsRequest("ec2:RunInstances", f"arn:aws:ec2:{REGION}::image/ami-0fedcba9876543210"),
        AwsRequest("iam:PassRole", f"{iam_of}:role/admin", to_ec2),
        AwsRequest("iam:PassRole", f"{iam_of}:role/machines", {"iam:PassedToService": "lambda.amazonaws.com"}),
        AwsRequest("iam:SimulatePrincipalPolicy", f"{iam_of}:group/admins"),
        AwsRequest("dynamodb:DeleteTable", TABLE),
        AwsRequest("dynamodb:PutItem", f"{TABLE}-other", {"dynamodb:LeadingKeys": ["TYPE#Instance"]}),
        AwsRequest("sqs:DeleteQueue", f"arn:aws:sqs:{REGION}:{ACCOUNT}:other-small"),
    ]
    assert those_allowed(iam, control_plane(place_of(SETTINGS, ACCOUNT)), asked, OPERATOR) == []


@pytest.mark.parametrize("launch", [False, True])
def test_a_workflow_reaches_records_and_no_secrets_settings_or_signals(iam: Judge, launch: bool) -> None:
    """Settings that others work by say what runs on machines; a signal says that a machine is clean."""
    policy = workflow(place_of(ON_GITHUB, ACCOUNT), launch=launch)
    writes = ("PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
    asked = [on_item(verb, kind) for verb, kind in product(("BatchGetItem", "Query", "GetItem"), SECRETS)]
    asked += [on_item(verb, kind) for verb, kind in product(writes, (*SECRETS, *SETS, "Meta", "WS", failure_kind(OWN)))]
    # One item of several is enough to deny a batch.
    both = {"dynamodb:LeadingKeys": ["TYPE#Instance", "TYPE#Secret"]}
    asked += [AwsRequest("dynamodb:BatchGetItem", TABLE, both), AwsRequest("dynamodb:Scan", TABLE)]
    assert those_allowed(iam, policy, asked, OPERATOR) == []
    records = (
        "Instance",
        "Provision",
        "Job",
        "Held#i-1/ab",
        "Gone",
        "Repository",
        *(("Heartbeat", "Agent") if launch else ()),
    )
    used = [on_item(verb, kind) for verb, kind in product((*writes, "BatchGetItem", "Query"), records)]
    used += [on_item("BatchGetItem", kind) for kind in ("WS", "Heartbeat", "Meta", "ScaleSet", failure_kind(OWN))]
    if launch:  # `bullpen run` cleans up workers, and notes their epochs
        used.append(on_item("UpdateItem", "Forgotten"))
    assert those_allowed(iam, policy, used, OPERATOR) == used


def launches() -> list[AwsRequest]:
    """All that leads to a machine whose user data the caller chooses."""
    here, to_ec2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}", {"iam:PassedToService": "ec2.amazonaws.com"}
    ours, tagged = {"aws:RequestTag/bullpen:pool": "acme"}, {"aws:ResourceTag/bullpen:pool": "acme"}
    template = f"{here}:launch-template/lt-0123456789abcdef0"
    return [
        AwsRequest("ec2:RunInstances", f"{here}:instance/*", ours),
        AwsRequest("ec2:CreateFleet", f"{here}:fleet/fleet-0123456789abcdef0", ours),
        AwsRequest("ec2:RunInstances", template, tagged),
        AwsRequest("ec2:CreateLaunchTemplate", template, ours),
        AwsRequest("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/machines", to_ec2),
    ]


def test_a_workflow_that_claims_starts_no_machine_and_plants_no_template(iam: Judge) -> None:
    others = [
        AwsRequest("ec2:CreateLaunchTemplateVersion", launches()[2].resource, launches()[2].context),
        AwsRequest("ec2:ModifyInstanceAttribute", OWN, {"aws:ResourceTag/bullpen:pool": "acme"}),
    ]
    assert those_allowed(iam, workflow(place_of(SETTINGS, ACCOUNT)), [*launches(), *others], OPERATOR) == []
    assert those_allowed(iam, workflow(place_of(SETTINGS, ACCOUNT), launch=True), launches(), OPERATOR) == launches()


@pytest.mark.parametrize("launch", [False, True])
def test_a_workflow_ends_machines_of_its_pool_only(iam: Judge, launch: bool) -> None:
    ends = [
        AwsRequest("ec2:TerminateInstances", OWN, {"aws:ResourceTag/bullpen:pool": pool}) for pool in ("acme", "other")
    ]
    assert those_allowed(iam, workflow(place_of(SETTINGS, ACCOUNT), launch=launch), ends, OPERATOR) == ends[:1]
