"""A command line of the test's own: an empty folder, no BULLPEN_* variables, signal handlers put back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.cli.unix_signals import SIGNALS
from command_line import CommandLine


@pytest.fixture
def bullpen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[CommandLine]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("BULLPEN_") or name == "NO_COLOR"]:
        monkeypatch.delenv(name)
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield CommandLine(tmp_path, capsys)
    for number, handler in before.items():
        signal.signal(number, handler)
