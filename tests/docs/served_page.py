"""docs/serve.md, followed with a real `bullpen serve` on a free port, by a reader with curl and a shell.

`python tests/docs/served_page.py` writes the outputs of the page again, as they are now: look at the difference.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __name__ == "__main__":  # as pytest does
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from free_ports import a_free_port
from walkthroughs import ROOT, Shown, blanked, commands

PAGE = "docs/serve.md"
PATIENCE = 120.0  # seconds; what is waited for takes a few at most
DOCUMENTED = "127.0.0.1:8420"
BLOCK = re.compile(
    r"^(?P<indent> *)<!-- walk-through(?P<new>: a new pool)? -->\n *```console\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
ID = re.compile(r"\b(?:op|j|i|p|run|token)-[0-9a-f]{8,17}\b")
PROGRAM = f"#!/bin/sh\nexec {sys.executable} -c 'import sys; from bullpen.cli import main; sys.exit(main())' \"$@\"\n"


class Reader:
    """Types the commands of the page in one folder, with these differences: other ports, and this host's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = a_free_port()
        self._server: subprocess.Popen[str] | None = None
        self._ids: dict[str, str] = {}  # of the page → of this pool
        programs = folder / "bin"
        programs.mkdir()
        (programs / "bullpen").write_text(PROGRAM)
        (programs / "bullpen").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        path = f"{programs}:{os.environ['PATH']}"
        self._environ = {**kept, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8"}

    def type(self, shown: Shown, in_new_pool: bool = False, patience: float = PATIENCE) -> str:
        """What the command prints, once it prints what the page shows, or when patience is over."""
        if shown.command == "bullpen serve":
            return self._serve()
        give_up = time.monotonic() + patience
        while True:
            printed = self._run(shown.command, self.folder / "new" if in_new_pool else self.folder)
            if normal(printed) == normal(shown.output) or not _may_change(shown.command):
                break
            if time.monotonic() > give_up:
                break
            time.sleep(0.1)
        if shown.command.startswith("bullpen token create"):
            self._environ["TOKEN"] = printed.strip()
            time.sleep(2.5)  # a process reads the tokens once a second
        # What the page calls by these names is called by those here.
        self._ids.update(zip(ID.findall(shown.output), ID.findall(printed), strict=False))
        return printed

    def renamed(self, command: str) -> str:
        """The command with the ids of this pool."""
        for theirs, ours in self._ids.items():
            command = command.replace(theirs, ours)
        return command

    def end(self) -> None:
        if self._server:
            self._server.terminate()
            self._server.communicate()
        self._run("bullpen down --yes", self.folder)
        self._run("bullpen down", self.folder)

    def _serve(self) -> str:
        command = ["bullpen", "serve", "--port", str(self._port)]
        with (self.folder / "serve.log").open("w") as log:
            self._server = subprocess.Popen(
                command, cwd=self.folder, env=self._environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._server.stdout is not None
        return self._server.stdout.readline().replace(f"127.0.0.1:{self._port}", DOCUMENTED)

    def _run(self, command: str, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        here = self.renamed(command).replace(DOCUMENTED, f"127.0.0.1:{self._port}")
        quiet = here.replace("curl ", "curl -s ", 1)
        if here.startswith("bullpen serve"):  # another program of this host may have the usual port
            quiet += f" --port {a_free_port()}"
        ran = subprocess.run(
            ["bash", "-c", quiet], cwd=folder, env=self._environ, capture_output=True, text=True, check=False
        )
        # Progress goes to standard error, and how many lines of it there are is a matter of time.
        complaint = "".join(ran.stderr.partition("bullpen: error:")[1:])
        printed = f"{ran.stdout}{complaint}".strip("\n") + "\n"
        return printed.replace(f"127.0.0.1:{self._port}", DOCUMENTED).replace(f'"{socket.gethostname()}"', '"vm"')


def normal(text: str) -> list[str]:
    """Without ids, times and numbers. Rows come in the order of ids, which are drawn by chance."""
    text = re.sub(r"bp[or]_[\w=-]+", "bp_#", text)
    text = ID.sub("#", text)
    text = re.sub(r"\d+\.\d+\.\d+\+[0-9a-f]+", "#", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", "#", text)
    return sorted(blanked(text).splitlines())


def _may_change(command: str) -> bool:
    """Whether the answer may be another one in a moment: it is a question, and asking again does no harm."""
    return command.startswith("curl http") and " -d " not in command


def blocks() -> list[tuple[bool, list[Shown]]]:
    """Each block that runs: whether in a new pool, and its commands."""
    found = BLOCK.finditer((ROOT / PAGE).read_text())
    return [(bool(block["new"]), commands(_plain(block["text"], block["indent"]))) for block in found]


@contextmanager
def a_reader() -> Iterator[Reader]:
    with tempfile.TemporaryDirectory(prefix="bullpen-page-") as folder:
        reader = Reader(Path(folder))
        try:
            yield reader
        finally:
            reader.end()


def _plain(text: str, indent: str) -> str:
    return re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def _rewritten() -> str:
    """The page with the outputs of now."""
    with a_reader() as reader:

        def again(block: re.Match[str]) -> str:
            lines = []
            for shown in commands(_plain(block["text"], block["indent"])):
                if _may_change(shown.command):
                    time.sleep(3)  # an operation or a job ends
                printed = reader.type(shown, bool(block["new"]), patience=0)
                lines += [f"$ {reader.renamed(shown.command)}\n", printed]
            written = "".join(f"{block['indent']}{line}\n" for line in "".join(lines).splitlines())
            return block[0].replace(block["text"], written)

        return BLOCK.sub(again, (ROOT / PAGE).read_text())


if __name__ == "__main__":
    (ROOT / PAGE).write_text(_rewritten())
