"""The installed program and where its output goes."""

import ast
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from terminals import PROGRAM, on_a_terminal

pytestmark = pytest.mark.slow

SHORT = ["token", "create", "--scope", "read", "--json"]
COMMANDS = {"long": ["config", "show"], "short": SHORT, "overview": ["--help"], "help": ["run", "--help"]}
ANSWERS = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
UNBUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])


def ran_into(output: Any, command: list[str], folder: Path, unbuffered: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    line = [*PROGRAM, *command]
    return subprocess.run(line, stdout=output, stderr=subprocess.PIPE, text=True, cwd=folder, env=environ, check=False)


@ANSWERS
@UNBUFFERED
def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path, command: list[str], unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = ran_into(writer, command, tmp_path, unbuffered)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


@ANSWERS
@UNBUFFERED
def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path, command: list[str], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        ran = ran_into(full, command, tmp_path, unbuffered)
    assert ran.returncode == 1
    said, *remedy = ran.stderr.splitlines()
    assert said == "bullpen: error: stdout: cannot be written (No space left on device)"
    assert remedy == ([] if command == ["--help"] else ["  → The work is done; only the output is lost."])


def test_an_error_whose_answer_cannot_be_written_keeps_its_exit_code(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        ran = ran_into(full, ["provision", "--json"], tmp_path, "")
    assert ran.returncode == 2
    assert "--run-id" in ran.stderr
    assert "Exception" not in ran.stderr


@pytest.mark.parametrize("command", [["--version"], ["config", "show"]])
def test_a_closed_stdout_is_no_error(tmp_path: Path, command: list[str]) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, *command]
    ran = subprocess.run(closed, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_exit_code_reaches_the_caller(tmp_path: Path) -> None:
    ran = subprocess.run([*PROGRAM, "provision"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")


def test_output_works_on_a_terminal_that_has_only_ascii(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    show = [*PROGRAM, "config", "show", "--set", "agent.pre-runner-script=ü"]
    ran = subprocess.run(show, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\\xfc" in ran.stdout


def test_a_locale_without_unicode_gets_ascii(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHON"))}
    for given, expected in (
        ({}, "  -> "),
        ({"LANG": "C"}, "  -> "),
        ({"LC_ALL": "C", "LANG": "C.UTF-8"}, "  -> "),
        ({"LANG": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, "  -> "),
        ({"LANG": "C.UTF-8"}, "  → "),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, "  → "),
    ):
        environ = {**bare, **given}
        ran = subprocess.run([*PROGRAM, "status"], capture_output=True, cwd=tmp_path, env=environ, check=False)
        assert expected in ran.stderr.decode(), given
        if "→" not in expected:
            assert ran.stderr.isascii(), given


@pytest.mark.parametrize(("locale", "arrow"), [("C.UTF-8", "→"), ("C", "->")])
def test_an_error_and_its_remedy_break_between_words_on_a_terminal(tmp_path: Path, locale: str, arrow: str) -> None:
    assert on_a_terminal(("why", "i-1", "--home", "no-such-pool-of-mine"), tmp_path, 60, LANG=locale) == [
        "bullpen: error: there is no pool in",
        f"  {tmp_path}/no-such-pool-of-mine",
        f"  {arrow} Set --home or BULLPEN_HOME to the directory of a pool.",
        "    `bullpen provision` and `bullpen run` create one.",
    ]


def test_every_character_that_bullpen_prints_has_an_ascii_form() -> None:
    from bullpen.cli.output import ASCII

    source = Path(__file__).parents[2] / "src/bullpen"
    printed = [*source.glob("cli/**/*.py"), source / "refresh/launch.py", source / "settings/redaction.py"]
    nodes = [node for file in printed for node in ast.walk(ast.parse(file.read_text()))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings]
    texts = [node.value for node in constants if isinstance(node.value, str)]
    assert {char for text in texts for char in text if not char.isascii()} <= set(map(chr, ASCII))


def test_what_a_job_printed_is_passed_on_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from bullpen.cli.output import pass_on, say

    for name in ("LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C")
    say("a → b")
    pass_on("a → b")
    assert capsys.readouterr().out == "a -> b\na → b\n"
