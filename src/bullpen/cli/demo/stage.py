"""What the acts of the demo run on: a temporary pool, the real command line as child processes, and verified output."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from bullpen import jobs
from bullpen.cli.output import answer_width, legible, say
from bullpen.cli.progress import TICK, WORKING, ProgressDisplay
from bullpen.cli.text import wrapped
from bullpen.config import Settings
from bullpen.model.instance import Instance
from bullpen.ports import Ports
from bullpen.structured_log import has_colours
from bullpen.wiring import embedded

T = TypeVar("T")
Answer = dict[str, Any]
LOOK_EVERY = 0.02
PATIENCE = 20.0
LONGEST = 60  # seconds that a command may take


class CheckFailed(Exception):
    """A line of the demo is not true."""


class DemoStage:
    """A pool in a directory of its own; `check` prints a line only with its verification."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self._is_coloured = has_colours(sys.stdout)
        self._progress = ProgressDisplay()

    def close(self) -> None:
        """Restore the terminal."""
        self._progress.close()

    def title(self, text: str) -> None:
        self._progress.restart(WORKING)
        say("\n" + "\n".join(self._painted("1", line) for line in wrapped(text, answer_width())))

    def check(self, is_true: bool, line: str) -> None:
        """Print a line and whether it is true; if not, end the demo."""
        self._progress.restart(WORKING)  # first: while it is shown, it has put itself before stdout
        mark, colour = ("✔", "32") if is_true else ("✘", "31")
        head = f"  {legible(mark, sys.stdout)} "
        width = answer_width()
        text = f"\n{' ' * len(head)}".join(wrapped(line, max(width - len(head), 1) if width else 0))
        say(f"  {self._painted(colour, head.strip())} {text}")
        if not is_true:
            raise CheckFailed(line)

    def _painted(self, colour: str, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._is_coloured else text

    def start(self, command: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command as a user would."""
        program = "import sys; from bullpen.cli import main; sys.exit(main())"
        # On this machine, even if a bullpen.toml in the working directory says otherwise.
        changed = {"engines.pool": "embedded", **self._timings()}
        assignments = [part for name, value in changed.items() for part in ("--set", f"{name}={value}")]
        return subprocess.Popen(
            [sys.executable, "-c", program, "--home", str(self.home), *assignments, command, "--json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("BULLPEN_")},
        )

    def run(self, command: str, *arguments: str) -> Answer:
        """Run a command to its end and return its answer."""
        return self.answer(self.start(command, *arguments))

    def answer(self, process: "subprocess.Popen[str]") -> Answer:
        output = self._output(process)
        answer: Answer = json.loads(output)
        if process.returncode == 2:  # the demo called the command wrongly
            raise CheckFailed(answer["reason"])
        return answer | {"exitCode": process.returncode}

    def _output(self, process: "subprocess.Popen[str]") -> str:
        """What the command printed, after its end. Meanwhile time passes on the terminal."""
        for _ in range(LONGEST):
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=TICK)[0]
            self._progress.tick()
        raise CheckFailed(f"a command did not end within {LONGEST} s")

    def provision(self, run_id: str, count: int, *more: str) -> Answer:
        return self.run("provision", "--run-id", run_id, "--count", str(count), *more)

    def ask(self, question: Callable[[Ports], Coroutine[Any, Any, T]]) -> T:
        """Run a query on the pool through its ports."""

        async def asked() -> T:
            async with embedded(self.home, self.settings) as ports:
                return await question(ports)

        return asyncio.run(asked())

    def until(self, what: str, question: Callable[[Ports], Coroutine[Any, Any, T]]) -> T:
        """Repeat a query until its answer is true."""

        async def wait(ports: Ports) -> T:
            async with asyncio.timeout(PATIENCE):
                while not (found := await question(ports)):
                    await ports.signals.wait(LOOK_EVERY)
                    self._progress.tick()
                return found

        try:
            return self.ask(wait)
        except TimeoutError:
            raise CheckFailed(f"{what} did not happen within {PATIENCE:g} s") from None

    def run_jobs(self, run_id: str, commands: Sequence[Sequence[str]]) -> list[int]:
        """Execute commands on the runners of a run, one after the other; return their exit codes."""

        async def submitted(ports: Ports) -> list[int]:
            codes = []
            async with asyncio.timeout(PATIENCE):
                for command in commands:
                    (job,) = await jobs.submit(ports, [jobs.JobRequest(run_id, tuple(command))], by="demo")
                    while job.exit_code is None:
                        await ports.signals.wait(LOOK_EVERY)
                        self._progress.tick()
                        job = (await ports.jobs.jobs([job.id]))[job.id]
                    codes.append(job.exit_code)
            return codes

        return self.ask(submitted)

    def live(self) -> list[Instance]:
        return self.ask(lambda ports: ports.records.live(1000))

    def pids(self) -> dict[str, int]:
        async def asked(ports: Ports) -> dict[str, int]:
            return {seen.id: seen.pid for seen in await ports.compute.sightings() if seen.alive and seen.pid}

        return self.ask(asked)

    def _timings(self) -> dict[str, object]:
        """The settings of the demo that differ from the defaults, for the command line."""
        return {
            f"timings.{name.replace('_', '-')}": getattr(self.settings.timings, name)
            for name in self.settings.timings.__struct_fields__
            if getattr(self.settings.timings, name) != getattr(Settings().timings, name)
        }
