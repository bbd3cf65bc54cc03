"""docs/client.md: its Python examples run against a real server, and its messages and methods are the program's."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bullpen.cli.overview import COMMANDS
from bullpen.client import Client
from server.served import a_server, environment
from walkthroughs import ROOT

PAGE = (ROOT / "docs/client.md").read_text()
EXAMPLES = re.findall(r"<!-- example -->\n```python\n(.*?)```", PAGE, re.S)


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 3
    project = tmp_path / "project"
    project.mkdir()
    (project / "tracked").write_text("1")
    with a_server(tmp_path / "home") as served:
        said = [
            subprocess.run(
                [sys.executable, "-c", example],
                env={**environment(), "BULLPEN_SERVER": served.url},
                cwd=project,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for example in EXAMPLES
        ]
    assert said == ["hello from a runner\nsucceeded\n", "idle local.small\n" * 2, ""]
    assert (tmp_path / "out" / "list").read_text() == "list\ntracked\n"


def test_the_table_of_commands_says_which_of_them_work_through_a_server() -> None:
    def row(begin: str) -> set[str]:
        (names,) = re.findall(rf"^\| {begin}.*? \| (.*) \|$", PAGE, re.M)
        return set(re.findall(r"`([\w-]+)`", names))

    names = {name for commands in COMMANDS.values() for name in commands}
    modules = {name: import_module(f"bullpen.cli.{name.replace('-', '_')}") for name in names}
    written = {name: inspect.getsource(module) for name, module in modules.items()}
    remote = {name for name, text in written.items() if ".target()" in text or "bullpen.cli.operating" in text}
    assert row("work through a server") == remote
    assert row("need the pool's home") == names - remote - {"completion"}


def test_the_table_of_methods_has_them_all() -> None:
    rows = re.findall(r"^\| (?:runs|operations|jobs|files|pool|history|operate) \| (.*) \|$", PAGE, re.M)
    told = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    methods = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    assert told == methods - {"close"}


def test_the_messages_are_the_programs() -> None:
    section = PAGE.partition("### What can be wrong")[2].partition("\n## ")[0]
    messages = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.M)))
    folders = [ROOT / "src/bullpen" / name for name in ("client", "server")]
    source = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    assert len(messages) == 10
    for message in messages:  # in the source, a word that varies stands between braces
        assert all(part.strip() in source for part in re.split(r"\b(?:read|operate|newer|older)\b", message)), message
