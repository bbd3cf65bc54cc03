"""Walk-throughs: console blocks of the documents that must run as they stand and print what they show.

A block belongs to it if `<!-- walk-through -->` stands on the line before. All of a document's blocks run one after the
other in one folder. A block of TOML below `<!-- bullpen.toml -->` is added to that file of the folder in its turn.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "docs/quickstart.md", "docs/operating.md")

_BLOCK = re.compile(
    r"^<!-- (?:walk-through -->\n```console|bullpen\.toml -->\n```(?P<is_toml>toml))\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from one time to the next: ids and rounds, then times, then every other number.
_VARYING = (
    (re.compile(r"^Pool: /.*$", re.MULTILINE), "Pool: /#"),
    (re.compile(r"\bi-[0-9a-f]{16,17}/[0-9a-f]{8}\b"), "i-#/#"),
    (re.compile(r"\bbpo_[0-9a-f]{16}_[0-9a-f]{64}\b"), "bpo_#"),
    (re.compile(r"\b[0-9a-f]{16,17}\b"), "#"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "#"),
    (re.compile(r"\d+(\.\d+)?"), "#"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class Shown:
    """A command as the document has it, and the output below it."""

    command: str
    output: str


@dataclass(frozen=True)
class Written:
    """Settings that the reader adds to `bullpen.toml`."""

    toml: str


def walkthrough(document: str) -> list[Shown]:
    return [step for step in steps(document) if isinstance(step, Shown)]


def steps(document: str) -> list[Shown | Written]:
    """What a reader does, in order."""
    found: list[Shown | Written] = []
    for block in _BLOCK.finditer((ROOT / document).read_text()):
        found += [Written(block["text"])] if block["is_toml"] else commands(block["text"])
    return found


def every_command(document: str) -> list[str]:
    """The commands of all console blocks, run or not."""
    text = (ROOT / document).read_text()
    return [shown.command for block in _CONSOLE.findall(text) for shown in commands(block)]


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a `bullpen …` line as a user in `folder` would, with no setting but its own."""
    program, *arguments = shlex.split(command)
    assert program == "bullpen", f"a walk-through runs bullpen only, not {command!r}"
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


def commands(block: str) -> list[Shown]:
    """The commands of one block."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    return [Shown(command, output) for command, _, output in (part.partition("\n") for part in parts[1:])]
