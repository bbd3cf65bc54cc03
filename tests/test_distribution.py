"""The distribution as users install it: built, checked by the tools of its registry, and used in clean environments."""

import os
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from bullpen import __version__
from bullpen.extras import DISTRIBUTION
from installed import CONSTRAINTS, FILES, PIP, TOOLS, Environment, built, ran, succeeded, wheel
from walkthroughs import ROOT

__all__ = ["built", "wheel"]  # the fixtures

pytestmark = pytest.mark.slow


def test_the_wheel_and_the_sdist_satisfy_the_tools_of_the_registry(built: Path, wheel: Path) -> None:
    succeeded([TOOLS / "twine", "check", "--strict", wheel, built / f"{FILES}.tar.gz"], built)
    succeeded([TOOLS / "check-wheel-contents", wheel], built)


def test_the_wheel_has_the_package_its_types_and_its_licence_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"bullpen/py.typed", f"{FILES}.dist-info/licenses/LICENSE", "bullpen/engines/sqlite/schema.sql"} <= set(
        names
    )
    assert {name.split("/")[0] for name in names} == {"bullpen", f"{FILES}.dist-info"}


def test_the_base_shows_the_demo_and_runs_jobs(wheel: Path, tmp_path: Path) -> None:
    env = Environment(tmp_path)
    env.install(wheel)
    assert "aiobotocore" not in env.modules()
    assert f"bullpen {__version__}" in succeeded([env.bullpen, "--version"], tmp_path)
    assert "✔" in succeeded([env.bullpen, "demo"], tmp_path, PYTHONUTF8="1")
    output = succeeded([env.bullpen, "run", "--count", "2", "--", "echo", "hello"], tmp_path)
    assert output.count("hello") == 2
    succeeded([env.bullpen, "down"], tmp_path)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_command_that_is_printed_for_a_missing_extra_installs_it(
    installer: str, wheel: Path, tmp_path: Path
) -> None:
    """uv makes environments without pip. The extra is that of the installed version, which no registry has."""
    env = Environment(tmp_path, has_pip=installer == "pip")
    env.install(wheel, *(["uv"] if installer == "uv" else []))
    refused = ran([env.bullpen, "serve"], tmp_path)
    assert refused.returncode == 2
    command = shlex.split(refused.stderr.split("`")[1])
    path = f"{env.python.parent}:{os.environ['PATH']}"
    succeeded(command, tmp_path, PATH=path, PIP_CONSTRAINT=CONSTRAINTS, UV_CONSTRAINT=CONSTRAINTS)
    assert "litestar" in env.modules()


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("serve", "import uvloop; from bullpen.server.serve import serve"),
        ("github", "import httpx, jwt; from cryptography.hazmat.primitives.asymmetric import rsa"),
        ("aws", "from bullpen.engines.aws import session"),
        ("client", "from bullpen.client import Client; Client('http://127.0.0.1:1').close()"),
    ],
)
def test_an_extra_adds_what_its_engine_imports_and_nothing_of_the_others(
    extra: str, code: str, wheel: Path, tmp_path: Path
) -> None:
    env = Environment(tmp_path)
    env.install(f"{DISTRIBUTION}[{extra}] @ {wheel.as_uri()}")
    succeeded([env.python, "-c", code], tmp_path)
    own = {"serve": "litestar", "github": "pyjwt", "aws": "aiobotocore"}
    assert {name for name, module in own.items() if module in env.modules()} == {extra} & own.keys()


def test_the_page_s_way_from_the_old_name_leaves_a_working_command(wheel: Path, tmp_path: Path) -> None:
    """pip lets two distributions own one package folder: without the first step, the new one would lose its files."""
    old = tmp_path / "old" / wheel.name.replace("bullpen_ci", "bullpen")
    old.parent.mkdir()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("METADATA"):
                content = content.replace(b"Name: bullpen-ci", b"Name: bullpen")
            if name.endswith("RECORD"):
                content = b"".join(
                    re.sub(rb",sha256=.*", b",,", line).replace(b"bullpen_ci-", b"bullpen-") + b"\n"
                    for line in content.splitlines()
                )
            target.writestr(name.replace("bullpen_ci-", "bullpen-"), content)
    env = Environment(tmp_path)
    env.install(old)
    assert "bullpen" in env.modules()
    page = (ROOT / "docs/install.md").read_text()
    assert "$ python -m pip uninstall --yes bullpen\n$ python -m pip install .\n" in page
    succeeded([*PIP, "--python", env.python, "uninstall", "--yes", "bullpen"], tmp_path)
    env.install(wheel)
    assert f"bullpen {__version__}" in succeeded([env.bullpen, "--version"], tmp_path)
    assert {"bullpen", DISTRIBUTION} & env.modules() == {DISTRIBUTION}


def test_the_name_of_the_distribution_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert f'\nname = "{DISTRIBUTION}"\n' in project
    sources = [path for path in (ROOT / "src").rglob("*.py") if DISTRIBUTION in path.read_text()]
    assert sources == [ROOT / "src/bullpen/extras.py"]
