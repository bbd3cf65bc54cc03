"""Running the command line in this process, on a home of the test's own."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bullpen.cli.program import run


@dataclass(frozen=True)
class Ran:
    """What came of one command."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything beside it fails the test."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


class CommandLine:
    """Call it with the arguments. The working directory is `folder`, which starts out empty."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def __call__(self, *arguments: str) -> Ran:
        self._capture.readouterr()
        code = run(arguments)
        out, err = self._capture.readouterr()
        return Ran(code, out, err)

    def write_settings(self, text: str) -> None:
        (self.folder / "bullpen.toml").write_text(text)

    @property
    def left_behind(self) -> list[str]:
        """What stands in the folder besides the settings."""
        return sorted(name for name in os.listdir(self.folder) if name != "bullpen.toml")
