"""Running the command line in this process, on a home of the test's own."""

import asyncio
import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import open_provision
from bullpen.cli.program import run
from bullpen.config import Settings
from bullpen.wiring import opened
from made_homes import with_database


@dataclass(frozen=True)
class CommandResult:
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

    def __call__(self, *arguments: str) -> CommandResult:
        self._capture.readouterr()
        code = run(arguments)
        out, err = self._capture.readouterr()
        return CommandResult(code, out, err)

    def write_settings(self, text: str) -> None:
        (self.folder / "bullpen.toml").write_text(text)

    def make_pool(self, run_id: str = "") -> None:
        """A pool without instances in the default home; if a run is named, with an open provision of it."""

        async def make() -> None:
            async with opened(with_database(self.folder / ".bullpen"), Settings()) as ports:
                if run_id:
                    later = ports.clock.now() + timedelta(seconds=600)
                    await ports.records.apply(open_provision(f"p-{run_id}", run_id=run_id, deadline=later))

        asyncio.run(make())

    @property
    def left_behind(self) -> list[str]:
        """What stands in the folder besides the settings."""
        return sorted(name for name in os.listdir(self.folder) if name != "bullpen.toml")
