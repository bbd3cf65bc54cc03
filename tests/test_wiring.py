"""The wiring: the settings pick the engine, and what an engine needs is loaded only when it is opened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.config import Aws, Engines, Github, Settings
from bullpen.engines.aws.dynamodb.vault import DynamoVault
from bullpen.engines.aws.ec2.compute import Ec2Compute
from bullpen.engines.github.infrastructure import ROTATE
from bullpen.engines.github.runners import GithubCI
from bullpen.engines.github.workflows import GithubWorkflows
from bullpen.engines.sqlite.queue import SqliteQueue
from bullpen.engines.sqlite.vault import FileVault
from bullpen.errors import ConfigError
from bullpen.one_off_calls import rate_limits
from bullpen.wiring import is_unused, opened
from fakes.github.hub import FakeGithub

ON_AWS = Settings(engines=Engines(pool="aws"), aws=Aws(region="eu-central-1"))
UNREADABLE = Github(scope="acme/widgets", token="file:/does/not/exist")
OPENING = """
import asyncio, sys
from pathlib import Path
from bullpen.config import Engines, Github, Settings
from bullpen.wiring import opened

settings = Settings(engines=Engines(ci="github"), github=Github(scope="acme", app_id="1", private_key="x"))

async def look():
    async with opened(Path("."), settings) as ports:
        await ports.infrastructure.gaps()

asyncio.run(look())
print(*sys.modules)
"""


@pytest.mark.real_loop
async def test_the_embedded_engine_is_the_default(tmp_path: Path) -> None:
    async with opened(tmp_path, Settings()) as ports:
        assert isinstance(ports.queue, SqliteQueue)
        assert await ports.infrastructure.gaps() == []


@pytest.mark.real_loop
async def test_on_aws_nothing_is_written_here_and_opening_makes_no_request(tmp_path: Path) -> None:
    async with opened(tmp_path, ON_AWS) as ports:
        assert isinstance(ports.compute, Ec2Compute)
    assert os.listdir(tmp_path) == []


@pytest.mark.real_loop
@pytest.mark.parametrize("pool", ["embedded", "aws"])
async def test_github_replaces_the_ci_of_either_pool_and_opening_it_reads_no_secret(pool: str, tmp_path: Path) -> None:
    engines = Engines(pool="aws" if pool == "aws" else "embedded", ci="github")
    settings = Settings(engines=engines, aws=Aws(region="eu-central-1"), github=UNREADABLE)
    async with opened(tmp_path, settings) as ports:
        assert isinstance(ports.ci, GithubCI)
        assert isinstance(ports.workflows, GithubWorkflows)
        assert isinstance(ports.vault, DynamoVault if pool == "aws" else FileVault)
        with pytest.raises(ConfigError, match=r"github.token: /does/not/exist cannot be read"):
            await ports.ci.registrations()


@pytest.mark.real_loop
async def test_github_adds_to_what_the_pool_stands_on(tmp_path: Path) -> None:
    settings = Settings(engines=Engines(ci="github"), github=UNREADABLE)
    async with opened(tmp_path, settings) as ports:
        assert [gap.what for gap in await ports.infrastructure.gaps()] == [ROTATE]


@pytest.mark.real_loop
async def test_rate_limits_are_asked_of_a_ci_that_has_any(github: FakeGithub) -> None:
    hub = Github(scope="acme/widgets", url=github.url, token=github.token())
    limits = await rate_limits(Settings(engines=Engines(ci="github"), github=hub))
    assert {one.resource: one.remaining for one in limits} == {"core": 5000, "actions_runner_registration": 10000}
    assert await rate_limits(Settings()) == []


def test_a_pool_on_aws_is_always_asked(tmp_path: Path) -> None:
    assert is_unused(tmp_path, Settings())
    assert not is_unused(tmp_path, ON_AWS)


@pytest.mark.slow
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
    assert "-m pip install 'bullpen-ci[aws]'" in ran.stderr


@pytest.mark.slow
def test_without_its_client_github_says_what_to_install(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['httpx'] = None"
    code = f"{missing}; from bullpen.cli.program import run; sys.exit(run(['refresh']))"
    variables = {"ENGINES_CI": "github", "GITHUB_SCOPE": "acme", "GITHUB_TOKEN": "t"}
    environ = {**os.environ, **{f"BULLPEN_{name}": value for name, value in variables.items()}}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environ)
    assert ran.returncode == 2, ran
    assert "-m pip install 'bullpen-ci[github]'" in ran.stderr


@pytest.mark.slow
def test_a_pool_on_github_is_opened_without_loading_its_client(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", OPENING], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"httpx", "jwt", "cryptography"} & set(ran.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", [["status"], ["iam-policy", "control-plane"], ["config", "show"]])
def test_commands_that_need_no_aws_do_not_load_its_client(command: list[str], tmp_path: Path) -> None:
    code = f"import sys; from bullpen.cli.program import run; run({command!r}); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"botocore", "aiobotocore"} & set(ran.stderr.split())
