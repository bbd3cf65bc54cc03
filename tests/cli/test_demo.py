"""The lines of `bullpen demo`; the demo itself runs in tests/test_distribution.py and tests/docs."""

from pathlib import Path

import pytest

from bullpen.cli.demo.stage import CheckFailed, DemoStage
from bullpen.config import Settings
from terminals import TerminalStream

LONG = "the 4 selected runners are on offer again, the created one, i-6ebabf4bd294d88b, is gone"


@pytest.mark.parametrize(("locale", "good", "bad"), [("C.UTF-8", "✔", "✘"), ("C", "ok", "FAILED")])
def test_a_line_that_is_too_long_for_the_terminal_breaks_between_words(
    locale: str, good: str, bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COLUMNS": "40", "NO_COLOR": "1", "LC_ALL": locale}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    monkeypatch.delenv("PYTHONUTF8", raising=False)
    monkeypatch.setattr("sys.stdout", screen := TerminalStream())
    monkeypatch.setattr("sys.stderr", TerminalStream())
    monkeypatch.setattr("bullpen.cli.progress.PATIENCE", 0.0)
    stage = DemoStage(tmp_path, Settings())
    stage.title("Cleaning: a job leaves a token behind, then the run is released")
    stage._progress.tick()  # the demo has waited, and shows that it works
    stage.check(True, LONG)
    with pytest.raises(CheckFailed):
        stage.check(False, LONG)
    _, title, released, *lines = screen.getvalue().splitlines()
    assert (title, released) == ("Cleaning: a job leaves a token behind,", "then the run is released")
    assert max(map(len, lines)) <= 40
    for mark, shown in ((good, lines[: len(lines) // 2]), (bad, lines[len(lines) // 2 :])):
        margin = len(f"  {mark} ")
        assert shown[0][:margin] == f"  {mark} "
        assert {line[:margin] for line in shown[1:]} == {" " * margin}
        assert " ".join(line[margin:] for line in shown) == LONG
