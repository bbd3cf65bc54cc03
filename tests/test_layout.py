"""What the repository promises about itself: light imports, and rules that a machine holds."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "src/bullpen/agent"
# The agent on a local machine takes the same locks and hears the same wake-ups as the engine beside it; the one that
# uses the table itself reads and writes the same items; at GitHub it bears the name that the engine knows it by.
SHARED_WITH_AGENT = (
    "bullpen.engines.aws.dynamodb.entries",
    "bullpen.engines.aws.dynamodb.items",
    "bullpen.engines.github.naming",
    "bullpen.host.packs",
    "bullpen.host.processes",
    "bullpen.host.scheduled_jobs",
    "bullpen.engines.sqlite.turnstile",
    "bullpen.engines.sqlite.notify",
    "bullpen.host.stored_files",
    "bullpen.host.sweep",
    "bullpen.host.unpack",
    "bullpen.host.subordinate_ids",
)
NEEDED_BY_SHARED = ("bullpen.engines.sqlite.reserve",)  # by the turnstile; the agent itself imports none of these
# And it takes the same steps: a lease or a job must not depend on who writes it down.
MODEL = ("bullpen.model", "bullpen.errors", "bullpen.lazy_dataclass")


def bans() -> dict[str, dict[str, str]]:
    tool: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found: dict[str, dict[str, str]] = tool["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    return found


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that `statement` adds to a fresh interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in answer.stdout.split()}


def imported_by(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)


def may_be_imported_by_agent(name: str, *more: str) -> bool:
    allowed = ("bullpen.agent", "bullpen.__version__", *MODEL, *SHARED_WITH_AGENT, *more)
    return name.partition(".")[0] in sys.stdlib_module_names or any(f"{name}.".startswith(f"{a}.") for a in allowed)


def test_importing_bullpen_loads_nothing_else() -> None:
    assert loaded_by("import bullpen") == {"bullpen"}


@pytest.mark.parametrize("module", ["bullpen.agent", "bullpen.engines.sqlite"])
def test_what_the_agent_loads_comes_without_third_parties(module: str) -> None:
    third_parties = loaded_by(f"import {module}") - set(sys.stdlib_module_names) - {"bullpen"}
    assert third_parties == set()


@pytest.mark.parametrize("source", sorted(AGENT.rglob("*.py")), ids=lambda path: str(path.relative_to(AGENT)))
def test_the_agent_imports_the_standard_library_the_model_and_the_shared_modules_only(source: Path) -> None:
    assert [name for name in imported_by(source) if not may_be_imported_by_agent(name)] == []


@pytest.mark.parametrize(
    "source", [*sorted((ROOT / "src/bullpen/model").glob("*.py")), ROOT / "src/bullpen/errors.py"], ids=lambda p: p.stem
)
def test_the_model_is_standard_library_only(source: Path) -> None:
    own = (*MODEL, *sys.stdlib_module_names)
    assert [n for n in imported_by(source) if not any(f"{n}.".startswith(f"{allowed}.") for allowed in own)] == []


@pytest.mark.parametrize("name", [*SHARED_WITH_AGENT, *NEEDED_BY_SHARED])
def test_what_the_agent_shares_with_an_engine_imports_no_more_than_the_agent_may(name: str) -> None:
    source = ROOT / "src" / Path(*name.split(".")).with_suffix(".py")
    assert [n for n in imported_by(source) if not may_be_imported_by_agent(n, *NEEDED_BY_SHARED)] == []


def test_every_ban_of_the_simulator_is_held_by_ruff() -> None:
    time_and_chance = {"time", "datetime.datetime.now", "datetime.datetime.utcnow", "uuid", "random", "secrets"}
    outside_world = {"threading", "subprocess", "socket", "signal"}
    ordered_by_address = {"asyncio.TaskGroup", "asyncio.wait", "asyncio.as_completed"}
    assert time_and_chance | outside_world | ordered_by_address <= bans().keys()


def test_every_ban_says_why_in_a_sentence() -> None:
    assert [api for api, ban in bans().items() if not ban["msg"].endswith(".")] == []


@pytest.mark.parametrize(
    ("path", "banned"),
    [
        ("model/instance.py", True),
        ("provision/pickup.py", True),
        ("release.py", True),
        ("sim/loop.py", True),
        ("engines/memory/queue.py", True),
        ("engines/sqlite/turnstile.py", False),
        ("engines/local/compute.py", False),
        ("agent/loop.py", False),
        ("cli/output.py", False),
    ],
)
def test_the_clock_is_banned_wherever_the_simulator_runs(path: str, banned: bool) -> None:
    assert (ROOT / "src/bullpen" / path).is_file()
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select=TID251"]
    command += ["--stdin-filename", f"src/bullpen/{path}", "-"]
    answer = subprocess.run(command, input="import time\n", capture_output=True, text=True, check=False, cwd=ROOT)
    assert ("TID251" in answer.stdout) is banned, answer.stdout + answer.stderr


def defined_more_than_once(sources: Iterable[Path]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source in sorted(sources):
        for name in re.findall(r"^class (\w+)", source.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(str(source.relative_to(ROOT)))
    return {name: files for name, files in found.items() if len(files) > 1}


def test_every_class_name_exists_once() -> None:
    """A reader who searches for a class finds one. Only `State` exists once for each state machine of the model."""
    repeated = defined_more_than_once((ROOT / "src/bullpen").rglob("*.py"))
    model = {str(one.relative_to(ROOT)) for one in (ROOT / "src/bullpen/model").glob("*.py")}
    assert {name: files for name, files in repeated.items() if name != "State" or not {*files} <= model} == {}


def test_every_class_name_that_tests_share_exists_once() -> None:
    """A test file may name its own classes as it likes; so may the stand-in of GitHub's runner, which is a program."""
    runner = ROOT / "tests/fakes/github/runner"
    sources = [one for one in (ROOT / "tests").rglob("*.py") if not one.name.startswith("test_")]
    assert defined_more_than_once(one for one in sources if runner not in one.parents) == {}


def test_dataclasses_are_compiled_when_they_are_first_used() -> None:
    sources = sorted((ROOT / "src/bullpen").rglob("*.py"))
    named = [one for one in sources if re.search(r"from dataclasses import (\(|.*\bdataclass\b)", one.read_text())]
    eager = [one for one in named if "dataclasses.dataclass" in imported_by(one) and one.stem != "lazy_dataclass"]
    assert eager == [], "import dataclass from bullpen.lazy_dataclass: every command and agent starts sooner"
