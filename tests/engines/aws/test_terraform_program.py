"""Terraform itself reads the module: its formatting, its structure, and what its expressions evaluate to.

Nothing here needs the network, an account or the AWS provider. Without `terraform` on the PATH these tests are skipped,
and the summary of the run says so; BULLPEN_REQUIRE_ENGINES does not require it.
"""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import terraform_module
from bullpen.engines.aws.infrastructure.policies import PolicyScope, control_plane, instance, workflow

TERRAFORM = shutil.which("terraform")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        TERRAFORM is None,
        reason="NOT TESTED: terraform is not on the PATH; install it to check deploy/terraform with it",
    ),
]
VALUES: dict[str, Any] = {
    "pool": "acme",
    "image": "ami-0123456789abcdef0",
    "images": ["ami-0123456789abcdef0", "ami-0123456789abcdef1"],
    "subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    "security_groups": ["sg-0123456789abcdef0"],
    "instance_profile": "acme-instance",
    "queues": [],
    "launch_templates": {},
}
PARTITION = """\
locals {
  account    = "123456789012"
  region     = "cn-north-1"
  partition  = "aws-cn"
  dns_suffix = "amazonaws.com.cn"
}
"""
PLACE = PolicyScope(
    pool="acme",
    role="acme-instance",
    profile="acme-instance",
    images=("ami-0123456789abcdef0", "ami-0123456789abcdef1"),
    subnets=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
    security_groups=("sg-0123456789abcdef0",),
    region="cn-north-1",
    account="123456789012",
    partition="aws-cn",
    makes_templates=False,
)


def terraform(folder: Path, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run in the folder, without the user's configuration and without asking for a newer version."""
    unset = ("TF_CLI_CONFIG_FILE", "TF_CLI_ARGS", "TF_LOG", "TF_WORKSPACE")
    env = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.run(
        [str(TERRAFORM), f"-chdir={folder}", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
        env={**env, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"},
    )


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A module of the policies and the variables alone, which Terraform evaluates without the AWS provider."""
    for name in ("policies.tf", "variables.tf"):
        shutil.copy(terraform_module.FOLDER / name, tmp_path)
    (tmp_path / "main.tf").write_text(PARTITION)
    return tmp_path


def evaluate(folder: Path, expression: str, **values: Any) -> subprocess.CompletedProcess[str]:
    (folder / "terraform.tfvars.json").write_text(json.dumps({**VALUES, **values}))
    return terraform(folder, "console", typed=expression)


def test_the_module_is_formatted_as_terraform_fmt_does() -> None:
    ran = terraform(terraform_module.FOLDER, "fmt", "-check", "-diff", "-recursive", "-no-color")
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_terraform_loads_the_module(tmp_path: Path) -> None:
    """`terraform providers` reads every file and finds syntax errors and names that are declared twice."""
    for file in terraform_module.FOLDER.glob("*.tf"):
        shutil.copy(file, tmp_path)
    ran = terraform(tmp_path, "providers")
    assert ran.returncode == 0, ran.stderr
    assert "provider[registry.terraform.io/hashicorp/aws] >= 5.81" in ran.stdout


@pytest.mark.parametrize("groups", [("sg-0123456789abcdef0",), ()])
def test_the_policies_evaluate_to_those_that_iam_policy_prints(policies: Path, groups: tuple[str, ...]) -> None:
    place = replace(PLACE, security_groups=groups or ("*",))
    expected = {
        "control_plane_policy": control_plane(place),
        "workflow_policy": workflow(place),
        "launching_workflow_policy": workflow(place, launch=True),
        "instance_policy": instance(place),
        "served_instance_policy": instance(replace(place, served=True)),
        "github_instance_policy": instance(replace(place, on_github=True)),
    }
    wanted = ", ".join(f"{name} = local.{name}" for name in expected)
    ran = evaluate(policies, f"jsonencode({{ {wanted} }})", security_groups=list(groups))
    assert ran.returncode == 0, ran.stderr
    assert json.loads(json.loads(ran.stdout)) == expected


@pytest.mark.parametrize("subject", ["repo:acme/app:ref:refs/heads/main", "repo:acme@1234/app@5678:*"])
def test_a_subject_that_names_its_repository_in_full_is_accepted(policies: Path, subject: str) -> None:
    ran = evaluate(policies, "var.github_subjects[0]", github_subjects=[subject])
    assert (ran.returncode, json.loads(ran.stdout)) == (0, subject)


@pytest.mark.parametrize("subject", ["repo:acme/*", "repo:*", "*"])
def test_a_subject_that_covers_several_repositories_is_refused(policies: Path, subject: str) -> None:
    ran = evaluate(policies, "var.pool", github_subjects=[subject])
    assert "Each subject must name its repository in full" in ran.stdout + ran.stderr
