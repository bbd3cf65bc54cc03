"""The examples of every `--help`, run as printed and in order by a shell, on one home with real runners.

Only ids are filled in: an example cannot know them. Examples without an end, and those of `serve`, which take fixed
ports, are only parsed (tests/cli/test_help.py); `bullpen demo` verifies itself.
"""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bullpen.cli.overview import COMMANDS
from bullpen.cli.program import program
from bullpen.config import Settings
from bullpen.model import scale_set as sets
from bullpen.pool.repositories import see
from bullpen.wiring import embedded
from scenario.pool import Pool

pytestmark = pytest.mark.slow

ORDER = (
    *(
        "config",
        "iam-policy",
        "completion",
        "refresh",
        "provision",
        "plan",
        "status",
        "workers",
        "doctor",
        "job",
        "why",
        "evidence",
        "cost",
    ),
    *("pause", "drain", "resume", "rotate"),
    *("token", "run", "release", "down"),
)
NOT_RUN = ("demo", "serve", "top")
ENDLESS = "--watch"


def lines_of(command: str) -> list[str]:
    """The examples in the help of a command, without their comments."""
    found = program.get_command(click.Context(program), command)
    assert found is not None
    _, _, listed = (found.epilog or "").partition("Examples:\n")
    lines = [line.strip() for line in listed.partition("\n\n")[0].splitlines() if line.startswith("  ")]
    return [re.split(r" {3,}", line)[0] for line in lines]


def filled_in(example: str, pool: Pool) -> str:
    """With ids of this pool in the place of invented ones."""
    known = {"/srv/pool": str(pool.home)}
    for invented, query in (
        ("i-0123456789abcdef", "SELECT id FROM instances WHERE state = 'running'"),
        ("i-fedcba9876543210", "SELECT id FROM instances WHERE state = 'running' ORDER BY id DESC"),
        ("j-0123456789abcdef", "SELECT id FROM jobs"),
        ("build-host-7", "SELECT id FROM workers"),
    ):
        if invented in example:
            known[invented] = pool.rows(query)[0][0]
    for invented, id in known.items():
        example = example.replace(invented, id)
    return example


async def remember(home: Path) -> None:
    """What a pool with GitHub as its CI knows: a repository, and a scale set."""
    async with embedded(home, Settings()) as ports:
        await see(ports, "acme/widgets", 42, by="a test")
        wanted = sets.SetWanted(at=ports.clock.now(), by="a test", rules=sets.SetRules(), mark="")
        await ports.records.apply(sets.want(sets.absent("bullpen-medium"), wanted))


def test_every_example_of_the_help_works_as_printed(pool: Pool) -> None:
    assert {*ORDER, *NOT_RUN} == {name for commands in COMMANDS.values() for name in commands}
    empty = pool.folder / "empty"
    empty.mkdir()
    (pool.folder / ".config/fish/completions").mkdir(parents=True)  # as a user of fish has it
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(pool.folder),
        "BULLPEN_HOME": str(pool.home),
        "BULLPEN_TIMINGS_IDLE": "2000",
    }
    ran = 0
    for command in ORDER:
        if command == "why":
            asyncio.run(remember(pool.home))
        for example in lines_of(command):
            # Bash runs them, and cannot read what zsh can. This pool runs its own jobs, not those of GitHub.
            if any(part in example for part in (ENDLESS, " zsh)", "https://github.com")):
                continue
            line = f"set -o pipefail; {filled_in(example, pool)}"
            done = subprocess.run(
                ["bash", "-c", line], cwd=empty, env=environ, capture_output=True, text=True, timeout=180
            )
            assert done.returncode == 0, (example, done)
            assert "Traceback" not in done.stderr
            ran += 1
    assert ran > 40
    assert pool.live() == []
