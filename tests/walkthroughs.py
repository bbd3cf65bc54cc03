"""Walk-throughs: what a reader of a document does and sees. A comment above a block says what a test does with it:

    <!-- walk-through -->          runs the commands of the console block and compares what they print
    <!-- walk-through: PLACE -->   the same in a directory of that name, with a pool of its own
    <!-- bullpen.toml -->          adds the block to that file of the directory; also `<!-- bullpen.toml: PLACE -->`
    <!-- meanwhile: WHAT -->       has no block: what happens now is a function of the page's test
    <!-- not run: WHY -->          nothing

`docs/followed_pages.py` follows most pages with a shell; test_aws_page.py and test_github_page.py follow theirs.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]

STEP = re.compile(
    r"^(?P<indent> *)<!-- (?P<mark>walk-through|meanwhile|workflow|[\w/-]+\.\w+)(?:: (?P<about>[^\n]*))? -->\n"
    r"(?: *```\w*\n(?P<text>.*?)^ *```$)?",
    re.MULTILINE | re.DOTALL,
)
_CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n?(?P<output>(?:(?!\$ ).*\n?)*)", re.MULTILINE)
# What differs from one time to the next: ids and rounds, then times, then every other number.
_VARYING = (
    (re.compile(r"^Pool: /.*$", re.MULTILINE), "Pool: /#"),
    (re.compile(r"\bi-[0-9a-f]{16,17}/[0-9a-f]{8}\b"), "i-#/#"),
    (re.compile(r"\b(run|token)-[0-9a-f]{8}\b"), r"\1-#"),
    (re.compile(r"\bbp[or]_[\w=-]+"), "bp_#"),
    (re.compile(r"\b[0-9a-f]{16,17}\b"), "#"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "#"),
    (re.compile(r"\d+\.\d+\.\d+\+[0-9a-f]+"), "#"),
    (re.compile(r"\d+(\.\d+)?"), "#"),
    (re.compile(r"[░█]{2,}|█"), "█"),  # the length of a bar is a time, too
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class Shown:
    """A command as the document has it, and the output below it."""

    command: str
    output: str


@dataclass(frozen=True)
class PageStep:
    """Something that a reader does, or that happens meanwhile."""

    mark: str  # of the comment: walk-through, meanwhile, workflow, or the name of a file
    about: str  # behind the colon: the place, or what happens
    text: str  # of the block

    @property
    def commands(self) -> list[Shown]:
        return commands(self.text) if self.mark == "walk-through" else []


def steps(document: str) -> list[PageStep]:
    """What a reader does, in order."""
    return [step_of(found) for found in STEP.finditer((ROOT / document).read_text())]


def step_of(found: re.Match[str]) -> PageStep:
    return PageStep(found["mark"], found["about"] or "", textwrap.dedent(found["text"] or ""))


def every_command(document: str) -> list[str]:
    """The commands of all console blocks, run or not."""
    text = (ROOT / document).read_text()
    return [shown.command for block in _CONSOLE.findall(text) for shown in commands(textwrap.dedent(block))]


def commands(block: str) -> list[Shown]:
    """The commands of one block; one goes on below a line that ends with a backslash."""
    return [Shown(found["command"], found["output"]) for found in _COMMAND.finditer(block)]


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a `bullpen …` line as a user in `folder` would, with no setting but its own."""
    program, *arguments = shlex.split(command)
    assert program == "bullpen", f"not a command of bullpen: {command!r}"
    return subprocess.run(
        [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")},
        capture_output=True,
        text=True,
        check=False,
    )


def blanked(text: str) -> str:
    """The text without ids, times and numbers, so that two runs of one command compare equal."""
    for pattern, blank in _VARYING:
        text = pattern.sub(blank, text)
    return text.strip()


def normal(text: str) -> list[str]:
    """The same by line. Rows of a table come in the order of ids, which are drawn by chance, and lines of jobs as they
    arrive: the order among such lines does not count."""
    lines = groupby(blanked(text).splitlines(), lambda line: re.match(r" ?\w+-#", line) is not None)
    return [line for is_row, group in lines for line in (sorted(group) if is_row else group)]
