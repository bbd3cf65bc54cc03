"""The wiring: the settings pick the engine, and what an engine needs is loaded only when it is opened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.config import Aws, Engines, Settings
from bullpen.engines.aws.compute import Ec2Compute
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.errors import ConfigError
from bullpen.wiring import is_unused, on_aws, opened, terraform_variables

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


@pytest.mark.real_loop
async def test_without_its_client_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("bullpen.engines.aws", "aiobotocore", "botocore"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("aiobotocore", "botocore"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match="is not installed") as caught:
        async with on_aws(ON_AWS):
            pass
    assert "pip install 'bullpen[aws]'" in caught.value.remedy
    with pytest.raises(ConfigError, match="is not installed"):
        terraform_variables(ON_AWS)


@pytest.mark.parametrize("command", [["status"], ["iam-policy", "control-plane"], ["config", "show"]])
def test_commands_that_need_no_aws_do_not_load_its_client(command: list[str], tmp_path: Path) -> None:
    code = f"import sys; from bullpen.cli.program import run; run({command!r}); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert not {"botocore", "aiobotocore"} & set(ran.stderr.split())
