"""docs/aws.md, followed from its first line to its last, with DynamoDB Local, ElasticMQ and simulated EC2."""

import json
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.ec2.control import Control
from fakes.java_engines import Engines
from free_ports import a_free_port
from scenario.commands import Command, Starter
from walkthroughs import ROOT, Shown, Written, blanked, steps

PAGE = "docs/aws.md"
LISTENS_WITHIN = 180.0  # seconds for `serve`


class Reader:
    """Does in one folder what the page says, with these differences and no others:

    - the variable of the setting `aws.endpoints` names the test's engines;
    - the address and the port of `serve` are ones that this machine has;
    - the page's Python is the one that runs the test.
    """

    def __init__(self, folder: Path, starter: Starter, endpoints: dict[str, str]) -> None:
        self._folder = folder
        self._starter = starter
        urls = ", ".join(f"{name} = {json.dumps(url)}" for name, url in endpoints.items())
        self._environ = {"BULLPEN_AWS_ENDPOINTS": f"{{{urls}}}"}
        self._instead = {"10.0.0.5": "127.0.0.1", "8420": str(a_free_port()), "/opt/bullpen/bin/python": sys.executable}
        self._files: list[Path] = []
        self._background: list[Command] = []

    def add(self, settings: Written) -> None:
        with (self._folder / "bullpen.toml").open("a") as file:
            file.write(self._here(settings.toml))

    def type(self, shown: Shown) -> None:
        """Run a command of the page, and see it print what the page shows."""
        words, expected = shlex.split(self._here(shown.command)), blanked(self._here(shown.output))
        assert words[0] == "bullpen", f"the page runs bullpen only, not {shown.command!r}"
        if words[-1] == "&":
            self._leave_running(words[1:-1], expected)
            return
        words, saved = (words[:-2], words[-1]) if words[-2] == ">" else (words, "")
        ran = self._start(words[1:]).wait()
        if saved:
            (self._folder / saved).write_text(ran.out)
        _, mark, complaint = ran.err.partition("bullpen: error:")
        printed = blanked(("" if saved else ran.out) + mark + complaint)
        # Rows come in the order of ids, which are drawn by chance.
        assert sorted(printed.splitlines()) == sorted(expected.splitlines()), (shown.command, ran)
        assert (ran.code == 0) == ("error:" not in expected and " failed " not in expected), (shown.command, ran)

    def stop(self) -> list[int]:
        """End what was left running as control-C would; the exit codes."""
        for command in self._background:
            command.send(signal.SIGINT)
        return [command.wait().code for command in self._background]

    def _leave_running(self, words: list[str], expected: str) -> None:
        self._background.append(self._start(words))
        give_up = time.monotonic() + LISTENS_WITHIN
        while blanked(self._files[-1].read_text()) != expected:
            assert time.monotonic() < give_up, (words, self._files[-1].with_suffix(".err").read_text())
            time.sleep(0.05)

    def _start(self, words: list[str]) -> Command:
        out = self._folder / f"{len(self._files)}.out"
        err = out.with_suffix(".err")
        around = {"cwd": str(self._folder), "environ": self._environ, "ahead": 0.0}
        pid = self._starter.ask(start=words, out=str(out), err=str(err), **around)["pid"]
        self._files.append(out)
        return Command(pid, time.monotonic(), self._starter, (out, err))

    def _here(self, text: str) -> str:
        for written, instead in self._instead.items():
            text = text.replace(written, instead)
        return text


@pytest.fixture
def reader(tmp_path: Path, no_account: None, engines: Engines, cloud: Control) -> Iterator[Reader]:
    cloud.launch_for_real(tmp_path / "machines")
    endpoints = {"dynamodb": engines.dynamodb, "sqs": engines.sqs, **cloud.settings()["endpoints"]}
    starter = Starter("aws")
    reader = Reader(tmp_path, starter, endpoints)
    try:
        yield reader
    finally:
        reader.stop()
        starter.close()


@pytest.mark.slow
def test_the_page_leads_from_an_empty_account_to_jobs_and_back_to_nothing(reader: Reader, cloud: Control) -> None:
    followed = steps(PAGE)
    assert len(followed) > 15
    for step in followed:
        if isinstance(step, Written):
            reader.add(step)
        else:
            reader.type(step)
    assert reader.stop() == [0]
    assert cloud.instances("pending", "running") == {}


def test_every_command_of_the_page_is_run_or_marked_as_not_run() -> None:
    text = (ROOT / PAGE).read_text()
    blocks = re.findall(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kinds = {("walk-through", "console"), ("bullpen.toml", "toml"), ("not run: needs the AWS CLI", "sh")}
    assert {(mark, kind) for mark, kind, _ in blocks} == kinds
    not_run = [line for _, kind, block in blocks if kind == "sh" for line in block.splitlines()]
    assert [line for line in not_run if not line.startswith(("aws ", "  "))] == []
