"""Workflow commands: text from outside neither ends a command nor begins one, and the summary is cut at the limit."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from bullpen.action import workflow_commands


def test_an_error_is_one_workflow_command_whatever_its_text_contains(capsys: pytest.CaptureFixture[str]) -> None:
    workflow_commands.error("a: title, with all", "50% of\r\n::set-output name=x::y")
    assert capsys.readouterr().out == "::error title=a%3A title%2C with all::50%25 of%0D%0A::set-output name=x::y\n"


def is_command(line: str) -> bool:
    """As the runner decides: trimmed on the left it begins with `::` and has another, or it has `##[` and then `]`.
    Its texts are compared as people do, so what is not seen does not count."""
    seen = "".join(char for char in line if unicodedata.category(char) not in ("Mn", "Me", "Cf", "Cc")).lstrip()
    return (seen.startswith("::") and "::" in seen[2:]) or ("##[" in seen and "]" in seen.partition("##[")[2])


LINES = [
    "::stop-commands::x",
    "  ::error::x",
    "\u00a0\u3000::error::x",
    "\u034f:\u034f:error::x",
    "##[error]x",
    "see ##[set-output name=label]evil and ##[error]y",
    "#\u034f#[error]x",
    "a\n::error::x",
    "a\r::error::x",
    "a\u2028 ##[error]x",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_log_is_never_a_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(map(is_command, line.splitlines()))
    workflow_commands.say(line)
    print(line, file=workflow_commands.Log())
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) >= 2
    assert [one for one in printed if is_command(one)] == []
    assert all("error" in one or "evil" in one or "stop" in one or one == "a" for one in printed), "it is still read"


def test_a_harmless_line_is_not_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    workflow_commands.say("bullpen: 2 of 3 ready; C++: std::vector [#1] ##")
    assert capsys.readouterr().out == "bullpen: 2 of 3 ready; C++: std::vector [#1] ##\n"


def test_each_line_of_a_secret_is_masked_except_very_short_ones(capsys: pytest.CaptureFixture[str]) -> None:
    workflow_commands.mask("-----BEGIN\n\n  }\n1\nabcdefg%")
    assert capsys.readouterr().out == "::add-mask::-----BEGIN\n::add-mask::abcdefg%25\n"


def test_a_group_is_closed_even_if_its_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="x"), workflow_commands.group("work"):
        raise ValueError("x")
    assert capsys.readouterr().out == "::group::work\n::endgroup::\n"


def test_a_summary_is_cut_at_a_line_before_github_drops_it(tmp_path: Path) -> None:
    (file := tmp_path / "summary").touch()
    workflow_commands.summarise({"GITHUB_STEP_SUMMARY": str(file)}, "| ü |\n" * 300_000)
    content = file.read_bytes()
    assert len(content) <= 1024 * 1024
    assert content.decode().endswith(workflow_commands.CUT)
    assert "| ü |\n\n\n_Cut" in content.decode()


def test_outputs_and_summary_are_skipped_without_their_files() -> None:
    workflow_commands.put_out({}, {"label": "4711"})
    workflow_commands.summarise({}, "text")
