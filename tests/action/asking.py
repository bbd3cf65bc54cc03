"""Inputs and jobs for tests."""

from __future__ import annotations

from bullpen.action.inputs import Refusals, StepInputs, read
from bullpen.action.job_context import JobContext

JOB = JobContext(
    "4711", 2, "acme/widgets", 42, "push", "refs/heads/main", "octocat", "https://github.com", "https://api.github.com"
)
AMI, SUBNET, GROUP = "ami-0123456789abcdef0", "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
MACHINES = {"ami": AMI, "subnet-ids": SUBNET, "security-group-ids": GROUP, "iam-instance-profile": "ci-runner"}
POOL = {"table-name": "ci-pool", "aws-region": "eu-central-1"}
REFRESH = {"mode": "refresh", **POOL, **MACHINES, "github-token": "ghp_of_an_admin"}


def asked(mode: str = "provision", **inputs: str) -> StepInputs:
    """Inputs with underscores for dashes."""
    return read({"mode": mode} | {name.replace("_", "-"): value for name, value in inputs.items()})


def refusals(document: dict[str, str]) -> list[str]:
    """What is wrong with these inputs, each with its remedy."""
    try:
        read(document)
    except Refusals as exc:
        return [f"{one}. {one.remedy}" for one in exc.found]
    return []
