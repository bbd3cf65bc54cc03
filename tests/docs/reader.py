"""A reader of the documents: types the commands of a page into a shell, and sees what they print."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from free_ports import a_free_port
from scenario.commands import Command, Ran, Starter
from walkthroughs import PageStep, Shown, normal

PATIENCE = 180.0  # seconds; what is waited for takes a few at most
LONGEST_PAUSE = 2.0  # seconds between two questions
ADDRESS = "127.0.0.1:8420"
PROJECT = "/home/you/project"
NAME = re.compile(r"\bbp[or]_[\w=-]+|\b(?:op|j|i|p|run|token)-[0-9a-f]{8,17}(?:/[0-9a-f]{8})?\b")
ROW = re.compile(r"^(i-[0-9a-f]{16}) .* (\d+)$", re.MULTILINE)  # of `bullpen status`: the last column is the PID
QUESTION = re.compile(r"curl (?!.*-[dX] )|grep |bullpen (?:status|why|workers|job show|job list)\b")


@dataclass
class Place:
    """A directory of the reader's, with a shell: variables and working directory stay as a command left them."""

    home: Path
    starter: Starter | None  # plain commands of Bullpen are forked from it: that takes a tenth of the time
    environ: dict[str, str]
    folder: Path = field(init=False)
    port: int = field(default_factory=a_free_port)
    _servers: list[Command] = field(default_factory=list)
    _started: int = 0

    def __post_init__(self) -> None:
        self.home.mkdir()
        self.folder = self.home

    def run(self, line: str) -> Ran:
        if self.starter and line.startswith("bullpen ") and (words := _plain(line)):
            return self._start(self.starter, words).wait()
        state = self.home.with_suffix(".sh")
        ran = subprocess.run(
            ["bash", "-c", f"set -a -o pipefail\ntrap '{{ env -0; pwd; }} > {state}' EXIT\n{line}"],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        *variables, cwd = state.read_text().split("\0")
        self.environ = dict(one.split("=", 1) for one in variables)
        self.folder = Path(cwd.rstrip("\n"))
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def serve(self, line: str) -> str:
        """Leave a server running, with `serve.log` as its log. What it prints when it listens."""
        assert self.starter
        words = _plain(line.removesuffix(" &").removesuffix(" 2> serve.log"))
        server = self._start(self.starter, [*words, "--port", str(self.port)], self.folder / "serve.log")
        self._servers.append(server)
        give_up = time.monotonic() + PATIENCE
        while not server.said().endswith("\n") and not server.has_ended():
            assert time.monotonic() < give_up, f"{line} prints nothing"
            time.sleep(0.02)
        return server.said()

    def stop(self) -> list[int]:
        """End the servers as control-C would; their exit codes."""
        for server in self._servers:
            server.send(signal.SIGINT)
        return [server.wait().code for server in self._servers]

    def end(self) -> None:
        self.stop()
        self.folder = self.home
        if (self.home / ".bullpen").exists() or "BULLPEN_HOME" in self.environ:
            self.run("bullpen down --yes")

    def _start(self, starter: Starter, words: list[str], err: Path | None = None) -> Command:
        self._started += 1
        out = self.home.with_suffix(f".{self._started}.out")
        files = (out, err or out.with_suffix(".err"))
        around = {"cwd": str(self.folder), "environ": self.environ, "ahead": 0.0}
        pid = starter.ask(start=words, out=str(files[0]), err=str(files[1]), **around)["pid"]
        return Command(pid, time.monotonic(), starter, files)


class Reader:
    """Follows one page, with these differences and no others:

    - servers listen on free ports; the host of the page, `vm`, is this one, and its Python the one of the tests;
    - `instead` replaces what does not exist here, such as paths and public names;
    - the ids, tokens and process ids of the page are those that the commands printed here;
    - a question is asked again until its answer is the page's: people type slower, and heartbeats come meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        starter: Starter | None,
        *,
        instead: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        meanwhile: Mapping[str, Callable[[], object]] | None = None,
        varying: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.instead = {"/opt/bullpen/bin/python": sys.executable, **(instead or {})}
        self.meanwhile = dict(meanwhile or {})
        self.patience = PATIENCE
        self._starter = starter
        self._environ = dict(environ or {})
        self._varying = dict(varying or {})  # patterns of what this page prints on no two machines
        self._names: dict[str, str] = {}  # of the page → of this pool
        self._places: dict[str, Place] = {}

    def follow(self, step: PageStep) -> None:
        """AssertionError if a command prints something else than the page shows."""
        for shown in step.commands:
            printed, ran = self.type(shown, step.about)
            said = f"{shown.command}\nprinted:\n{printed}\n{ran}"
            assert self.normal(printed) == self.normal(self.here(shown.output, step.about)), said
            may_fail = re.search(r"\berror: | failed\b", shown.output) is not None
            assert shown.command.startswith("curl ") or (ran.code != 0) == may_fail, said
        if not step.commands:
            self.prepare(step)

    def prepare(self, step: PageStep) -> None:
        """Do what stands between two blocks of commands."""
        if step.mark == "meanwhile":
            self.meanwhile[step.about]()
        else:
            assert step.text, f"no block below {step.mark}"
            file = self.place(step.about).folder / self.here(step.mark)
            file.parent.mkdir(exist_ok=True)
            with file.open("a") as opened:
                opened.write(self.here(step.text, step.about))

    def type(self, shown: Shown, place: str = "") -> tuple[str, Ran]:
        """What a command prints, once it is what the page shows or patience is over."""
        pause, expected = 0.1, self.normal(self.here(shown.output, place))
        give_up = time.monotonic() + (self.patience if QUESTION.match(shown.command) else 0.0)
        while True:
            printed, ran = self._run(self.here(shown.command, place), self.place(place))
            if self.normal(printed) == expected or time.monotonic() > give_up:
                break
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._learn(shown.output, printed)
        return printed, ran

    def here(self, text: str, place: str = "") -> str:
        """A text of the page, as it is here."""
        return _replaced(self.renamed(text), self._instead(self.place(place)))

    def there(self, printed: str, place: str = "") -> str:
        """What a command printed here, as it stands on the page."""
        return _replaced(printed, {ours: theirs for theirs, ours in self._instead(self.place(place)).items()})

    def renamed(self, text: str) -> str:
        """A text of the page with the names of here."""
        return _replaced(text, self._names)

    def normal(self, text: str) -> list[str]:
        for pattern, blank in self._varying.items():
            text = re.sub(pattern, blank, text, flags=re.MULTILINE)
        return normal(text)

    def place(self, name: str = "") -> Place:
        if name not in self._places:
            kept = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
            path = f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
            environ = {**kept, "PATH": path, "LC_ALL": "C.UTF-8", **self._environ}
            self._places[name] = Place(self.folder / (name.replace(" ", "-") or "here"), self._starter, environ)
        return self._places[name]

    def program(self, name: str, script: str) -> None:
        """Put a program on the reader's PATH, which jobs inherit."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def end(self) -> None:
        for place in self._places.values():
            place.end()

    def _run(self, line: str, place: Place) -> tuple[str, Ran]:
        if line == "bullpen serve" or line.endswith(" &"):
            ran = Ran(0, place.serve(line), "")
        else:  # another program of this host may have the usual port
            ran = place.run(f"{line} --port {place.port}" if line.startswith("bullpen serve") else line)
        # Progress goes to standard error, and how many lines of it there are is a matter of time.
        complaint = "".join(ran.err.partition("bullpen: error:")[1:])
        host = rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])"
        return re.sub(host, "vm", ran.out + complaint), ran

    def _instead(self, place: Place) -> dict[str, str]:
        return {ADDRESS: f"127.0.0.1:{place.port}", PROJECT: str(place.home), **self.instead}

    def _learn(self, output: str, printed: str) -> None:
        """What the page calls by these names is called by those here. A name that is known stays. A job is never called
        by the name of an instance, although the page and the commands may show new instances at different places."""
        theirs = [name for name in dict.fromkeys(NAME.findall(output)) if name not in self._names]
        ours = [name for name in dict.fromkeys(NAME.findall(printed)) if name not in self._names.values()]
        for kind in {_kind(name) for name in theirs}:
            pairs = zip(*([name for name in names if _kind(name) == kind] for names in (theirs, ours)), strict=False)
            self._names.update(pairs)
        pids = dict(ROW.findall(printed))
        rows = [(self._names.get(id), pid) for id, pid in ROW.findall(output)]
        self._names.update({pid: pids[id] for id, pid in rows if id in pids})


def _kind(name: str) -> str:
    found = re.match(r"bp[or]_|[a-z]+", name)
    assert found
    return found[0] + ("/" if "/" in name else "")


def _replaced(text: str, instead: Mapping[str, str]) -> str:
    longest_first = sorted(instead, key=len, reverse=True)  # an id is also part of its worker's key
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: instead[found[0]], text) if instead else text


def _plain(line: str) -> list[str]:
    """The arguments of a command of Bullpen; none if it takes a shell to run it."""
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.whitespace_split = True
    _, *words = found
    return [] if any(re.fullmatch(r"[<>|&;()]+", word) for word in words) else words
