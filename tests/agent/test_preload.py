"""Before its first job an agent has loaded every module that its kind can ever import."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import bullpen

pytestmark = pytest.mark.slow  # a process for each kind of agent

PACKAGE = Path(bullpen.__file__).parent
# What is in the configuration, what the connection has loaded by then, and what is never imported: that of other kinds.
OWN_USER, ACTIONS = "bullpen.agent.job_user", "bullpen.agent.github.runner"
FETCH, VAULT = "bullpen.agent.github.fetch", "bullpen.agent.github.token_source"
LEASE, ATTEST, IMDS = "bullpen.agent.store.lease", "bullpen.agent.aws.identity", "bullpen.agent.aws.imds"
SERVED, DIRECT = (
    ["bullpen.agent.wakeup", "bullpen.agent.store.http"],
    ["bullpen.agent.wakeup", "bullpen.agent.store.dynamodb"],
)
ON_EC2 = ["bullpen.agent.aws.imds", "bullpen.agent.aws.interruption"]
URL, GITHUB = {"serve_url": "http://127.0.0.1"}, {"ci": "github", "runner_user": "runner"}
RULES = "bullpen.model.served_set"  # of scale sets: their registrations come from the service
SETS = {RULES, "bullpen.model.scale_set"}
OWN_JOBS = {f"bullpen.agent.{name}" for name in ("store.jobs", "forked", "unpack_source", "collect_artifacts")}
KINDS: dict[str, tuple[dict[str, str], list[str], set[str]]] = {
    "embedded": ({}, [], {OWN_USER, ACTIONS, VAULT}),
    "embedded, own user": ({"runner_user": "runner"}, [], {ACTIONS, VAULT}),
    "embedded, GitHub": (GITHUB, [], {FETCH, *SETS}),
    "served": (URL, SERVED, {OWN_USER, ACTIONS, VAULT, LEASE, ATTEST, IMDS, *SETS}),
    "served, GitHub": ({**URL, **GITHUB, "runner_url": "x"}, SERVED, {VAULT, LEASE, ATTEST, IMDS}),
    "served on EC2": ({**URL, "runner_user": "r"}, [*SERVED, *ON_EC2, ATTEST], {ACTIONS, VAULT, LEASE, *SETS}),
    "direct": (
        {"table": "t", "runner_user": "r"},
        [*DIRECT, *ON_EC2],
        {ACTIONS, LEASE, VAULT, *OWN_JOBS},
    ),
    "direct, GitHub": ({"table": "t", **GITHUB}, [*DIRECT, *ON_EC2], {LEASE, FETCH, *OWN_JOBS, RULES}),
}
AT_START = {"ctypes"}  # before the loop begins
IN_ARCHIVES = {"zipfile"}  # where the agent is one file, and with the first heartbeat
APART = {"bullpen.agent.aws.boot"}  # a program of its own, which ends before the agent begins
PROGRAM = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import bullpen.agent.__main__
from bullpen.agent.config import Config
from bullpen.agent.preload import load_everything
told, connecting = json.loads(sys.argv[2])
for name in connecting:
    __import__(name)
usual = {"instance_id": "i-1", "home": "/", "directory": "/", "heartbeat": 5, "appears_within": 5, "max_runtime": 5}
load_everything(Config(**usual, pre_runner_script="", pre_runner_timeout=5, keep=(), **told))
print(json.dumps(sorted(sys.modules)))
"""


@cache
def loaded(kind: str) -> set[str]:
    told, connecting, _ = KINDS[kind]
    line = [sys.executable, "-I", "-S", "-c", PROGRAM, str(PACKAGE.parent), json.dumps([told, connecting])]
    return set(json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout))


def file_of(module: str) -> Path | None:
    """None for what is not a module of Bullpen."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)


def imports(node: ast.AST) -> Iterator[str]:
    """Every module that the code can import, at whatever depth; not what is there for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (name for alias in names if file_of(name := f"{module}.{alias.name}"))
        yield from imports(child)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_import_but_what_only_other_kinds_need(kind: str) -> None:
    there, others = loaded(kind), KINDS[kind][2]
    if ACTIONS in others:
        others = others | {ACTIONS.rpartition(".")[0]}
    files = {name: file for name in there if name.startswith("bullpen") and (file := file_of(name))}
    del files["bullpen.agent.__main__"], files["bullpen.agent.preload"]  # both have done their part
    missing = {(name, one) for name, file in files.items() for one in imports(ast.parse(file.read_text()))}
    left = {(name, one) for name, one in missing if one not in there | others | AT_START | IN_ARCHIVES}
    assert left == set()


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_other_kinds_need_is_not_loaded(kind: str) -> None:
    assert loaded(kind) & KINDS[kind][2] == set()


def test_every_module_of_the_agent_is_loaded_by_some_kind() -> None:
    files = (PACKAGE / "agent").rglob("*.py")
    named = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files}
    assert {name.removesuffix(".__init__") for name in named} - APART == {
        name for kind in KINDS for name in loaded(kind) if name.startswith("bullpen.agent")
    }
