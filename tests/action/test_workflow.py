"""What the runner is told: nothing from outside ends a command or begins one, and the summary fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from bullpen.action import workflow


def test_an_error_is_one_command_whatever_its_text_holds(capsys: pytest.CaptureFixture[str]) -> None:
    workflow.error("a: title, with all", "50% of\r\n::set-output name=x::y")
    assert capsys.readouterr().out == "::error title=a%3A title%2C with all::50%25 of%0D%0A::set-output name=x::y\n"


@pytest.mark.parametrize("line", ["::stop-commands::x", "  ::error::x", "##[error]x", "a\n::error::x"])
def test_a_line_of_the_log_is_never_a_command(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    workflow.say(line)
    (printed,) = capsys.readouterr().out.splitlines()
    assert not printed.startswith(("::", "##["))


def test_each_line_of_a_secret_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    workflow.mask("-----BEGIN\n\nabc%")
    assert capsys.readouterr().out == "::add-mask::-----BEGIN\n::add-mask::abc%25\n"


def test_a_group_is_closed_though_its_work_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="x"), workflow.group("work"):
        raise ValueError("x")
    assert capsys.readouterr().out == "::group::work\n::endgroup::\n"


def test_a_summary_is_cut_at_a_line_before_github_drops_it(tmp_path: Path) -> None:
    (file := tmp_path / "summary").touch()
    workflow.summarise({"GITHUB_STEP_SUMMARY": str(file)}, "| ü |\n" * 300_000)
    content = file.read_bytes()
    assert len(content) <= 1024 * 1024
    assert content.decode().endswith(workflow.CUT)
    assert "| ü |\n\n\n_Cut" in content.decode()


def test_without_a_file_for_it_nothing_is_written() -> None:
    workflow.put_out({}, {"label": "4711"})
    workflow.summarise({}, "text")
