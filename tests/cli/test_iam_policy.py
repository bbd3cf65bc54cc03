"""`bullpen iam-policy` and `bullpen config terraform`: documents for other programs, made without any request."""

import json

import pytest

from command_line import CommandLine

AWS = """
[engines]
pool = "aws"
[aws]
region = "eu-central-1"
image = "ami-0123456789abcdef0"
subnets = ["subnet-0123456789abcdef0"]
instance-profile = "machines"
"""


@pytest.mark.parametrize("whose", ["control-plane", "workflow", "instance"])
def test_a_policy_is_printed_as_one_document(bullpen: CommandLine, whose: str) -> None:
    ran = bullpen("iam-policy", whose)
    assert (ran.code, ran.err) == (0, "")
    assert ran.answer["Version"] == "2012-10-17"
    assert ran.answer["Statement"]
    assert json.loads(bullpen("iam-policy", whose, "--json").out) == ran.answer
    assert bullpen.left_behind == []


def test_the_resources_of_a_policy_name_pool_and_account(bullpen: CommandLine) -> None:
    bullpen.write_settings(AWS)
    given = ("--account", "123456789012", "--role", "team/machine-role")
    text = bullpen("iam-policy", "workflow", "--launch", *given).out
    assert "arn:aws:dynamodb:eu-central-1:123456789012:table/bullpen" in text
    assert "arn:aws:ec2:*:*:subnet/subnet-0123456789abcdef0" in text
    assert "arn:aws:iam::123456789012:role/team/machine-role" in text


def test_the_policy_of_a_workflow_allows_launches_only_with_launch(bullpen: CommandLine) -> None:
    assert "ec2:CreateFleet" not in bullpen("iam-policy", "workflow").out
    assert "ec2:CreateFleet" in bullpen("iam-policy", "workflow", "--launch").out


def test_machines_that_are_served_get_a_narrower_policy(bullpen: CommandLine) -> None:
    role = 'instance-role = "arn:aws:iam::123456789012:role/machines"'
    bullpen.write_settings(f'{AWS}{role}\n[agent]\nserve-url = "https://pool.example"\n')
    text = bullpen("iam-policy", "instance").out
    assert "TYPE#BootFailure#${ec2:SourceInstanceARN}" in text
    assert not [kind for kind in ("WS", "Heartbeat", "Registration", "Instance") if f"TYPE#{kind}" in text]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("everybody",), "everybody"),
        (("workflow", "--account", "acme"), "--account 'acme'"),
        (("workflow", "--role", "a role"), "--role 'a role'"),
        (("instance", "--launch"), "--launch: applies only to the policy workflow, not to instance"),
        ((), "POLICY: must be one of control-plane, workflow, instance"),
    ],
)
def test_a_mistake_is_named(bullpen: CommandLine, arguments: tuple[str, ...], named: str) -> None:
    ran = bullpen("iam-policy", *arguments)
    assert ran.code == 2
    assert named in ran.err


def test_the_variables_for_terraform_name_every_queue_and_template(bullpen: CommandLine) -> None:
    bullpen.write_settings(AWS)
    answer = bullpen("config", "terraform").answer
    assert answer["queues"] == ["bullpen-small", "bullpen-medium", "bullpen-large"]
    assert len(answer["launch_templates"]) == 3
    assert answer["instance_profile"] == "machines"


def test_terraform_variables_need_a_pool_on_aws(bullpen: CommandLine) -> None:
    ran = bullpen("config", "terraform")
    assert ran.code == 2
    assert "engines.pool" in ran.err
