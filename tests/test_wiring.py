"""The wiring: the settings pick the engine, and what an engine needs is loaded only when it is opened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.config import Aws, Engines, Settings
from bullpen.engines.aws.ec2.compute import Ec2Compute
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.wiring import is_unused, opened

ON_AWS = Settings(engines=Engines(pool="aws"), aws=Aws(region="eu-central-1"))


@pytest.mark.real_loop
async def test_the_embedded_engine_is_the_default(tmp_path: Path) -> None:
    async with opened(tmp_path, Settings()) as ports:
        assert isinstance(ports.records, SqliteRecords)
        assert await ports.foundation.gaps() == []


@pytest.mark.real_loop
async def test_on_aws_nothing_is_written_here_and_opening_asks_nobody(tmp_path: Path) -> None:
    async with opened(tmp_path, ON_AWS) as ports:
        assert isinstance(ports.compute, Ec2Compute)
    assert os.listdir(tmp_path) == []


def test_a_pool_on_aws_is_always_asked(tmp_path: Path) -> None:
    assert is_unused(tmp_path, Settings())
    assert not is_unused(tmp_path, ON_AWS)


@pytest.mark.parametrize("command", [["status"], ["config", "terraform"]])
def test_without_its_client_the_engine_says_what_to_install(command: list[str], tmp_path: Path) -> None:
    missing = "import sys; sys.modules['botocore'] = sys.modules['aiobotocore'] = None"
    code = f"{missing}; from bullpen.cli.program import run; sys.exit(run({command!r}))"
    variables = {
        "BULLPEN_ENGINES_POOL": "aws",
        "BULLPEN_AWS_IMAGE": "ami-0abc12345678",
        "BULLPEN_AWS_SUBNETS": "subnet-0abc1234",
    }
    environ = {**os.environ, **variables, "BULLPEN_AWS_INSTANCE_PROFILE": "runner"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environ)
    assert ran.returncode == 2, ran
    assert "is not installed" in ran.stderr
    assert "pip install 'bullpen[aws]'" in ran.stderr


@pytest.mark.parametrize("command", [["status"], ["iam-policy", "control-plane"], ["config", "show"]])
def test_commands_that_need_no_aws_do_not_load_its_client(command: list[str], tmp_path: Path) -> None:
    code = f"import sys; from bullpen.cli.program import run; run({command!r}); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"botocore", "aiobotocore"} & set(ran.stderr.split())
