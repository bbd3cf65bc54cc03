"""The installed program and where its output goes."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())"]
SHORT = ["token", "create", "--scope", "read", "--json"]
ANSWERS = pytest.mark.parametrize("command", [["config", "show"], SHORT], ids=["long", "short"])


@ANSWERS
def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*PROGRAM, *command], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (1, "")


@ANSWERS
def test_an_answer_that_cannot_be_written_is_an_error(tmp_path: Path, command: list[str]) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [*PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == (
        "bullpen: error: stdout: cannot be written (No space left on device)\n"
        "  → The work is done; only the output is lost.\n"
    )


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
