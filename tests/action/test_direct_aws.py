"""The action with a pool on AWS: refresh has all inputs, and the other modes need three."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from action.steps import run_action
from fakes.aws_fixtures import CREDENTIALS
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, SUBNETS
from fakes.github.hub import FakeGithub
from fakes.java_engines import Engines

pytestmark = pytest.mark.slow


@pytest.fixture
def environ(engines: Engines, cloud: Control, github: FakeGithub) -> dict[str, str]:
    endpoints = {"dynamodb": engines.dynamodb, "sqs": engines.sqs}
    endpoints |= dict.fromkeys(("ec2", "sts", "iam", "service-quotas"), cloud.url)
    told = ", ".join(f"{name} = {json.dumps(url)}" for name, url in endpoints.items())
    return {
        **CREDENTIALS,
        "BULLPEN_AWS_ENDPOINTS": f"{{{told}}}",
        "GITHUB_SERVER_URL": github.url,
        "GITHUB_API_URL": github.api_url,
    }


def test_provision_and_release_use_the_settings_that_refresh_published(
    environ: dict[str, str], github: FakeGithub, tmp_path: Path
) -> None:
    where = {"aws-region": "eu-central-1", "table-name": f"test-{secrets.token_hex(6)}"}
    early = run_action({"mode": "release", **where}, environ, tmp_path)
    assert early.code == 2
    assert "does not exist" in early.errors[0]
    token = github.token()
    told = {
        "ec2-image-id": AMAZON_LINUX.id,
        "subnet-ids": " ".join(subnet.id for subnet in SUBNETS),
        "iam-instance-profile": PROFILE,
        "github-token": token,
        "resource-class-config": '{"large": {"cpu": 2, "mmem": 4096}}',
    }
    refreshed = run_action({"mode": "refresh", **where, **told}, environ, tmp_path)
    assert refreshed.code == 0, refreshed.log
    assert "| make table |" in refreshed.summary
    assert token not in refreshed.log + refreshed.summary
    released = run_action({"mode": "release", **where}, environ, tmp_path)
    assert released.code == 0, released.log
    assert "4711 holds no runners" in released.summary
    again = run_action({"mode": "refresh", **where, **told}, environ, tmp_path)
    assert "nothing to do" in again.log
