"""Fixtures for every test that meets the real engines of the AWS engine.

    engines        DynamoDB Local and ElasticMQ, started by the first test that asks; one process for all of a run
    aws_settings   makes Settings of a pool of the test's own on them; the clients of the test's process never time out
    iam            judges IAM policies, by a simulator that is not ours

Without Java and Maven, or node and npm, these tests are skipped, and the end of the run says so;
BULLPEN_REQUIRE_ENGINES=1 fails it.
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from bullpen import config
from fakes import api_tools, iam_simulator
from fakes.java_engines import Engines, EnginesMissing, ToolsMissing, fetch, install_tools, running

SKIPPED = "SKIPPED ENGINES"
PATIENCE = 120.0  # seconds; an engine answers within milliseconds, on a busy machine within seconds
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class MakeSettings(Protocol):
    def __call__(self, *, endpoints: Mapping[str, str] | None = None, **changes: Any) -> config.Settings:
        """Settings of the test's pool. `endpoints` are added to the engines' own or replace them; `changes` are fields
        of `Settings`, or of `Aws` where only it has them."""


def pytest_sessionstart(session: pytest.Session) -> None:
    if _engines_required() and not hasattr(session.config, "workerinput"):  # once, before xdist's workers start
        try:
            install_tools()
            fetch()
            iam_simulator.fetch()
            api_tools.node_tools()
            api_tools.python_tools()
        except (EnginesMissing, iam_simulator.SimulatorMissing, api_tools.ApiToolsMissing) as exc:
            pytest.exit(f"BULLPEN_REQUIRE_ENGINES=1, and {exc}", returncode=1)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost, so that the line is the last one
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    yield
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    if skipped := [reason.partition(f"{SKIPPED}: ")[2] for reason in reasons if SKIPPED in reason]:
        line = f"{SKIPPED}: {len(skipped)} tests have not run; {skipped[0]}"
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture(scope="session", autouse=True)
def no_account() -> Iterator[None]:
    """No test meets a real account, whatever the environment and the home of the user say."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def models_read_once() -> Iterator[None]:
    """AWS's service descriptions are megabytes of JSON, and every session would read them again."""
    import botocore.session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(botocore.session.create_loader))
        yield


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory, models_read_once: None) -> Iterator[Engines]:
    try:
        with running(_folder_of_the_run(tmp_path_factory)) as engines:
            yield engines
    except ToolsMissing as exc:
        if _engines_required():
            raise
        pytest.skip(f"{SKIPPED}: {exc}")


@pytest.fixture(scope="session")
def iam() -> iam_simulator.Judge:
    try:
        iam_simulator.fetch()
    except iam_simulator.SimulatorMissing as exc:
        if _engines_required():
            raise
        pytest.skip(f"{SKIPPED}: {exc}")
    return iam_simulator.allowed


@pytest.fixture
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that times out is repeated. On a busy machine that adds requests, and many tests count requests."""
    from aiobotocore.config import AioConfig

    from bullpen.engines.aws import session

    usual = session._config

    def patient(service: str, attempts: int) -> AioConfig:
        return usual(service, attempts).merge(AioConfig(connect_timeout=PATIENCE, read_timeout=PATIENCE))

    monkeypatch.setattr(session, "_config", patient)


@pytest.fixture
def aws_settings(engines: Engines, patient_clients: None) -> MakeSettings:
    pool = f"test-{secrets.token_hex(6)}"
    own = {"dynamodb": engines.dynamodb, "sqs": engines.sqs}

    def make(*, endpoints: Mapping[str, str] | None = None, **changes: Any) -> config.Settings:
        of_aws = {name: changes.pop(name) for name in list(changes) if name not in config.Settings.__struct_fields__}
        aws = config.Aws(**{"pool": pool, "endpoints": {**own, **(endpoints or {})}, **of_aws})
        return config.Settings(**{"engines": config.Engines(pool="aws"), "aws": aws, **changes})

    return make


def _engines_required() -> bool:
    return os.environ.get("BULLPEN_REQUIRE_ENGINES") == "1"


def _folder_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the worker processes of one run only."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
