"""The IAM policies allow every call that the engine makes, and no other.

What the engine calls is read off its sources: every text that is the name of a method of one of its clients.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from msgspec.structs import replace

import bullpen
from bullpen.config import Agent, Aws, Engines, Settings
from bullpen.engines.aws.dynamodb.tokens import AGENT_SECRET, TOKEN
from bullpen.engines.aws.infrastructure.policies import Policy, PolicyScope, control_plane, instance, place_of, workflow

SOURCES = Path(bullpen.__file__).parent
ENGINE = [source for source in (SOURCES / "engines/aws").rglob("*.py") if source.name != "policies.py"]
AGENT = [SOURCES / "agent/store/dynamodb.py", SOURCES / "agent/aws/boot.py"]
SERVICES = ("dynamodb", "sqs", "ec2", "iam", "service-quotas")  # every principal may ask STS for its identity
PREFIXES = {"service-quotas": "servicequotas"}

# IAM's own names of what a call does, where that is not the call's.
NAMED_OTHERWISE = {
    "dynamodb:TransactWriteItems": ("ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem"),
    "dynamodb:CreateTable": ("CreateTable", "TagResource"),
    "sqs:CreateQueue": ("CreateQueue", "TagQueue"),
    "sqs:DeleteMessageBatch": ("DeleteMessage",),
    "sqs:SendMessageBatch": ("SendMessage",),
    "ec2:CreateFleet": ("CreateFleet", "CreateTags", "RunInstances"),
}
# What EC2 does in the caller's name when a fleet is created.
OF_A_FLEET = {"iam:PassRole", "iam:CreateServiceLinkedRole"}
# What only refresh and doctor do, by source and function.
NOT_OF_A_WORKFLOW = {
    "console.py": None,
    "doctor.py": None,
    "permissions.py": None,
    "table_setup.py": None,
    "queues.py": {
        "names",
        "ensure",
        "retire",
        "misfits",
        "_listed",
        "_make",
        "_is_ours",
        "_corrections",
        "_attributes",
    },
    "template.py": {"retire"},
}
SETTINGS = Settings(
    engines=Engines(pool="aws"),
    aws=Aws(
        region="eu-central-1",
        image="ami-0123456789abcdef0",
        subnets=("subnet-0123456789abcdef0",),
        instance_profile="bullpen-instance",
    ),
)
PLACE = place_of(SETTINGS, "123456789012")


def operations() -> dict[str, str]:
    """The name of a client's method → the operation, as policies name it."""
    session = botocore.session.Session()
    return {
        xform_name(operation): f"{PREFIXES.get(service, service)}:{operation}"
        for service in SERVICES
        for operation in session.get_service_model(service).operation_names
    }


OPERATIONS = operations()
SPELT_OUT = {called.removeprefix("dynamodb:"): called for called in OPERATIONS.values()}
"""As the agent names them, which has no client."""


def called(source: Path, without: set[str] | None = None, names: dict[str, str] = OPERATIONS) -> Iterator[str]:
    """The actions behind the calls in a source, but those of some functions."""
    for node in _nodes(ast.parse(source.read_text()), without or set()):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            operation = names[node.value]
            service = operation.partition(":")[0]
            actions = NAMED_OTHERWISE.get(operation, (operation.partition(":")[2],))
            yield from (f"{service}:{action}" for action in actions)


def _nodes(tree: ast.AST, without: set[str]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.AsyncFunctionDef | ast.FunctionDef) and child.name in without):
            yield child
            yield from _nodes(child, without)


def allowed(policy: Policy) -> set[str]:
    statements = [statement for statement in policy["Statement"] if statement["Effect"] == "Allow"]
    return {action for statement in statements for action in statement["Action"]}


def test_the_control_plane_may_do_exactly_what_the_engine_does() -> None:
    made = {action for source in ENGINE for action in called(source)} | OF_A_FLEET
    assert allowed(control_plane(PLACE)) == made


def test_a_workflow_that_launches_may_do_exactly_what_provision_and_release_do() -> None:
    made = {
        action
        for source in ENGINE
        if NOT_OF_A_WORKFLOW.get(source.name, set()) is not None
        for action in called(source, NOT_OF_A_WORKFLOW.get(source.name))
    }
    assert allowed(workflow(PLACE, launch=True)) == made | OF_A_FLEET


def test_a_workflow_that_only_claims_may_launch_make_and_pass_nothing() -> None:
    launching = allowed(workflow(PLACE, launch=True)) - allowed(workflow(PLACE))
    assert launching == {
        "ec2:CreateFleet",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateTags",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:DescribeLaunchTemplates",
        "ec2:RunInstances",
        *OF_A_FLEET,
    }
    assert allowed(workflow(PLACE)) <= allowed(workflow(PLACE, launch=True))


def test_an_instance_may_do_exactly_what_its_agent_does() -> None:
    made = {action for source in AGENT for action in called(source, names=SPELT_OUT)}
    assert allowed(instance(PLACE)) == made


def test_everything_that_can_be_tied_to_the_pool_is() -> None:
    free = {
        action
        for statement in control_plane(PLACE)["Statement"]
        if statement["Resource"] == ["*"]
        for action in statement["Action"]
    }
    assert all(action.partition(":")[2].startswith(("Describe", "List", "Get")) for action in free)


@pytest.mark.parametrize("action", ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"])
def test_nothing_without_the_tag_of_the_pool_is_ended(action: str) -> None:
    (statement,) = (one for one in control_plane(PLACE)["Statement"] if action in one["Action"])
    assert statement["Condition"] == {"StringEquals": {"aws:ResourceTag/bullpen:pool": "bullpen"}}


def test_machines_get_the_one_role_and_nothing_else_does() -> None:
    (statement,) = (one for one in control_plane(PLACE)["Statement"] if "iam:PassRole" in one["Action"])
    assert statement["Resource"] == ["arn:aws:iam::123456789012:role/bullpen-instance"]
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_an_instance_reaches_only_the_kinds_of_items_that_it_reads_and_writes() -> None:
    for statement in instance(PLACE)["Statement"]:
        ((key, kinds),) = statement["Condition"]["ForAllValues:StringEquals"].items()
        assert key == "dynamodb:LeadingKeys"
        assert statement["Resource"] == ["arn:aws:dynamodb:eu-central-1:123456789012:table/bullpen"]
        assert not {"TYPE#Provision", "TYPE#Job", "TYPE#Meta", f"TYPE#{TOKEN}", f"TYPE#{AGENT_SECRET}"} & set(kinds)
        assert not {"TYPE#ScaleSet", "TYPE#SetSession", "TYPE#Repository"} & set(kinds)


def kinds_read(policy: Policy) -> list[str]:
    (read,) = (one for one in policy["Statement"] if "dynamodb:GetItem" in one["Action"])
    kinds: list[str] = read["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    return kinds


def test_only_an_instance_that_registers_at_github_by_itself_reads_the_secret_for_it() -> None:
    on_github = replace(SETTINGS, engines=Engines(pool="aws", ci="github"))
    served = replace(on_github, agent=Agent(serve_url="https://pool.example"))
    assert "TYPE#Secret" in kinds_read(instance(place_of(on_github)))
    assert "TYPE#Secret" not in kinds_read(instance(place_of(SETTINGS)))
    assert "TYPE#Secret" not in kinds_read(instance(place_of(served)))
    writes = [one for one in instance(place_of(on_github))["Statement"] if "dynamodb:GetItem" not in one["Action"]]
    assert "TYPE#Secret" not in str(writes)


def test_with_serve_an_instance_may_do_exactly_what_its_boot_does() -> None:
    served = instance(place_of(replace(SETTINGS, agent=Agent(serve_url="https://pool.example")), "123456789012"))
    in_direct_mode = {"dynamodb:UpdateItem"}  # the signal
    assert allowed(served) == set(called(SOURCES / "agent/aws/boot.py", names=SPELT_OUT)) - in_direct_mode
    kinds = {
        action: statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
        for statement in served["Statement"]
        for action in statement["Action"]
    }
    own = "TYPE#BootFailure#${ec2:SourceInstanceARN}"
    assert kinds == {"dynamodb:GetItem": ["TYPE#Agent"], "dynamodb:PutItem": [own]}


def test_a_control_plane_that_creates_no_templates_may_not_tag_any() -> None:
    (tagging,) = (
        one
        for one in control_plane(PolicyScope(pool="bullpen", role="r", profile="p", makes_templates=False))["Statement"]
        if "ec2:CreateTags" in one["Action"]
    )
    assert "launch-template" not in str(tagging)


def test_where_another_tool_creates_everything_the_control_plane_may_create_no_infrastructure() -> None:
    external = control_plane(PolicyScope(pool="bullpen", role="r", profile="p", makes_templates=False))
    makers = ("Create", "Delete", "Update", "Set", "Tag")
    made = {action for action in allowed(external) if action.partition(":")[2].startswith(makers)}
    assert made == {
        "dynamodb:DeleteItem",
        "dynamodb:UpdateItem",
        "ec2:CreateFleet",
        "ec2:CreateTags",
        "iam:CreateServiceLinkedRole",
        "sqs:DeleteMessage",
    }


def statement_texts(policy: Policy) -> Iterator[Any]:
    for statement in policy["Statement"]:
        yield from statement["Resource"]


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_other_partitions_have_their_own_names(region: str, partition: str) -> None:
    place = place_of(Settings(aws=Aws(region=region)))
    arns = [arn for arn in statement_texts(workflow(place, launch=True)) if arn != "*"]
    assert all(arn.startswith(f"arn:{partition}:") for arn in arns)


def test_in_china_machines_get_their_role_from_the_ec2_of_china() -> None:
    place = place_of(Settings(aws=Aws(region="cn-north-1")))
    (passing,) = (one for one in control_plane(place)["Statement"] if "iam:PassRole" in one["Action"])
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com.cn"}}


def test_doctor_may_simulate_roles_and_users_only() -> None:
    (asking,) = (one for one in control_plane(PLACE)["Statement"] if "iam:SimulatePrincipalPolicy" in one["Action"])
    account = "arn:aws:iam::123456789012"
    assert asking["Resource"] == [f"{account}:role/*", f"{account}:user/*"]
