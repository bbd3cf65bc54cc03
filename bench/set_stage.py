"""A stage for the rows of scale sets: a GitHub of the tests that is 50 ms away, a real `bullpen serve`, and its agents.

Everything is real but GitHub and its runner. Each machine is an agent of its own process, launched by the embedded
engine; `bench/runner` stands in for GitHub's runner, and listens half a second after its start.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from bullpen.host.processes import TreeSurvived, end_tree, mark_of
from fakes.github.hub import FakeGithub, JobSpec, Run
from free_ports import a_free_port
from made_tokens import make_token
from scenario import processes
from server.served import CHECKOUT, ServeProcess, a_server, command, environment

LATENCY = 0.05  # seconds to GitHub and back
STARTS_IN = 0.5  # seconds, as `runner/run.sh` has it
PATIENCE = 600.0  # seconds; only the boots of many agents take more than a few
RUNNER = Path(__file__).parent / "runner"
REPOSITORY = "acme/widgets"
TICKS = os.sysconf("SC_CLK_TCK")

# A new session keeps one runner registered for five minutes, in case GitHub did not announce every job. Rows that are
# about sets without a registered runner leave that out, so that they need not wait for its end.
UNPROBED = (
    "import sys; from bullpen.scale_sets import supply; supply.PROBED = 0.0; "
    "from bullpen.cli import main; sys.exit(main())"
)
# GitHub's runner refuses to run as root, and root would need a user for each machine. In a user namespace root is
# another user to itself and to its children, with the same files.
AS_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--") if os.geteuid() == 0 else ()

SETTINGS = """
[engines]
ci = "github"

[github]
scope = "{repository}"
url = "{hub.url}"
token = "{token}"
runner-directory = "{runner}"

[agent]
serve-url = "http://127.0.0.1:{port}"

[limits]
max-instances = {machines}

[local]
capacity = {machines}

[classes.small]
cpu = 1
mem = 1024
idle-target = {warm}

[timings]
idle = 86400
{sets}
"""
SET = """
[github.scale-sets.{name}]
class = "small"
name = "{name}"
events = "trusted"
{more}
"""


@dataclass
class RunnerTimes:
    """When GitHub made a runner's configuration, and when that runner was first online; monotonic readings."""

    configured: float
    online: float = 0.0


@dataclass
class Stage:
    hub: FakeGithub
    served: ServeProcess
    home: Path
    times: dict[str, RunnerTimes] = field(default_factory=dict)  # by the names of runners, ended ones included

    def watch(self) -> None:
        """Note times of runners from now on."""
        self.hub._state.on_change.append(self._note)

    def _note(self) -> None:
        now = time.monotonic()
        for runner in self.hub._state.runners.values():
            known = self.times.setdefault(runner.name, RunnerTimes(now))
            if runner.is_session_open and not known.online:
                known.online = now

    def queue(self, set_name: str, count: int = 1, script: str = "true") -> tuple[Run, float]:
        """A run with so many jobs for a set, and when it was queued."""
        jobs = [JobSpec(f"job-{number}", runs_on=(set_name,), script=script) for number in range(count)]
        queued = time.monotonic()
        return self.hub.start_run(REPOSITORY, jobs), queued

    def until(self, holds: Callable[[], object], what: str) -> None:
        try:
            self.hub.wait_for(holds, PATIENCE)
        except TimeoutError as exc:
            log = (self.home.parent / "serve.log").read_text(errors="replace")[-1500:]
            raise TimeoutError(f"waited in vain until {what}: {exc}\n{log}") from None

    def completed(self, run: Run) -> None:
        self.until(lambda: run.state == "completed", "the run has completed")
        assert run.conclusion == "success", run.conclusion

    def is_listened_to(self, *sets: str) -> None:
        def listens() -> bool:
            found = {one.name for one in self.hub.sets.all() if one.session is not None and one.session.polls}
            return found >= set(sets)

        self.until(listens, "serve listens to its sets")

    def is_warm(self, count: int) -> None:
        self.until(lambda: self.on_offer() >= count, f"{count} machines are on offer")

    def on_offer(self) -> int:
        return self._count("attested = 1")

    def _count(self, where: str) -> int:
        with closing(sqlite3.connect(f"file:{self.home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
            (found,) = connection.execute(f"SELECT count(*) FROM instances WHERE {where}").fetchone()
        return int(found)

    def has_no_member(self, set_name: str) -> None:
        """No machine serves this set, and one is on offer."""
        serving = f"state IN ('claimed', 'running') AND run_id = 'set:{set_name}'"
        self.until(lambda: not self._count(serving) and self.on_offer(), f"{set_name} has given back its machine")

    def cpu(self) -> float:
        """Seconds of processor time that `serve` has used."""
        fields = Path(f"/proc/{self.served.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def a_stage(sets: Mapping[str, str], *, warm: int, machines: int = 0, probed: bool = True) -> Iterator[Stage]:
    """`sets` by name, with their settings; `warm` machines are kept on offer, of at most so many `machines`. Nothing
    of it runs when the block ends."""
    check_user()
    ground = Path(mkdtemp(prefix="bullpen-bench-")).resolve()
    try:
        with FakeGithub() as hub:
            hub.add_repository(REPOSITORY)
            hub.latency = LATENCY
            port = a_free_port()
            runner = shutil.copytree(RUNNER, ground / "runner")
            tables = "".join(SET.format(name=name, more=more) for name, more in sets.items())
            told = {"hub": hub, "token": hub.token(), "runner": runner, "port": port, "sets": tables}
            config = ground / "bullpen.toml"
            config.touch(mode=0o600)
            config.write_text(
                SETTINGS.format(repository=REPOSITORY, warm=warm, machines=machines or warm, **told), encoding="utf-8"
            )
            make_token(ground / "home")
            yield from _staged(hub, ground / "home", config, port, probed=probed)
            hub.check()
    finally:
        shutil.rmtree(ground, ignore_errors=True)


def check_user() -> None:
    """Raise PermissionError where root cannot be another user."""
    if AS_USER and subprocess.run([*AS_USER, "true"], capture_output=True, check=False).returncode:
        raise PermissionError("GitHub's runner refuses to run as root, and this machine allows no user namespaces")


def _staged(hub: FakeGithub, home: Path, config: Path, port: int, *, probed: bool) -> Iterator[Stage]:
    program = (*AS_USER, *(CHECKOUT if probed else (sys.executable, "-c", UNPROBED)))
    try:
        with a_server(home, "--port", str(port), "--config", str(config), program=program) as served:
            stage = Stage(hub, served, home)
            stage.watch()
            stage.is_listened_to(*_sets(config))
            yield stage
    finally:
        line = command(home, "down", "--yes", "--config", str(config), program=(*AS_USER, *CHECKOUT))
        subprocess.run(line, env=environment(), capture_output=True, timeout=PATIENCE, check=False)
        for id in dict.fromkeys(one.instance_id for one in processes.of_home(home)):
            with suppress(TreeSurvived):
                end_tree(None, mark_of(id), patience=5.0)


def _sets(config: Path) -> list[str]:
    lines = config.read_text(encoding="utf-8").splitlines()
    return [json.loads(line.partition("=")[2]) for line in lines if line.startswith("name = ")]
