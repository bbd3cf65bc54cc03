"""Fixtures of what the docs need beyond Python: where it cannot be fetched, the tests that need it are skipped visibly.

    docs_tools         what builds the site
    workflow_linters   actionlint and zizmor
    console_tools      the directory with `aws`, `pipx` and `uv`
    systemd_analyze    the program that checks units

BULLPEN_REQUIRE_ENGINES=1 fails instead.
"""

import os
import shutil
from pathlib import Path

import pytest

import docs_tools as tools
from fakes.aws_fixtures import SKIPPED


@pytest.fixture(scope="session")
def docs_tools() -> Path:
    try:
        return tools.zensical()
    except tools.DocsToolsMissing as exc:
        _skip(exc)
        raise


@pytest.fixture(scope="session")
def workflow_linters() -> tuple[Path, Path]:
    try:
        return tools.actionlint(), tools.zizmor()
    except tools.DocsToolsMissing as exc:
        _skip(exc)
        raise


@pytest.fixture(scope="session")
def console_tools() -> Path:
    try:
        return tools.console()
    except tools.DocsToolsMissing as exc:
        _skip(exc)
        raise


@pytest.fixture(scope="session")
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        missing = tools.DocsToolsMissing("no systemd-analyze on the PATH: install systemd (apt-get install systemd)")
        _skip(missing)
        raise missing
    return found


def _skip(missing: tools.DocsToolsMissing) -> None:
    if os.environ.get("BULLPEN_REQUIRE_ENGINES") != "1":
        pytest.skip(f"{SKIPPED}: {missing}")
