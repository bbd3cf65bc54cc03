"""A day in the life of a pool: three clients ask for two classes under one cap, beside a running service.

Commands, agents and the service are killed, one job fills the disk, another leaves a tree that no recursion can walk.
In the end nothing is lost, nothing is left, and every refusal has said why.
"""

import random
import signal
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bullpen.engines.sqlite.reserve import ROOM, room
from bullpen.errors import BullpenError
from scenario import processes
from scenario.commands import Command, Ran
from scenario.pool import Pool, Starter
from server.served import a_server
from small_disks import a_small_disk

CAP = 4
ROUNDS = 4
LONGEST = 500.0  # seconds; the day takes about one minute, and more beside busy processes
DEEP = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done"
FILL = "cat /dev/zero > big 2>/dev/null; sleep 600"
PLAIN = "echo hello > file"
KILLED = -signal.SIGKILL

Wait = Generator[None, None, None]
"""Stands still at each `yield`, while others go on."""


@dataclass(frozen=True)
class Client:
    """Provisions, runs a job and releases, round after round. `jobs` are the special ones, by round."""

    name: str
    resource_class: str
    count: int
    jobs: dict[int, str] = field(default_factory=dict)


CLIENTS = (
    Client("deep", "small", 2, {1: DEEP}),
    Client("full", "small", 1, {2: FILL}),
    Client("plain", "medium", 2),
)


@dataclass
class Day:
    pool: Pool
    disk: Path
    chance: random.Random
    refusals: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)

    def spend(self, client: Client) -> Wait:
        for number in range(ROUNDS):
            job = client.jobs.get(number, PLAIN)
            is_done, attempt = False, 0
            while not is_done:  # a special job that met a full disk is tried again
                attempt += 1
                run_id = f"{client.name}-{number}-{attempt}"
                if (yield from self._provision(run_id, client.count, client.resource_class, at_risk=job is PLAIN)):
                    is_done = yield from self._work(run_id, job)
                yield from self._release(run_id)
                is_done = is_done or job is PLAIN
        yield from self._provision(f"{client.name}-greedy", CAP + 1, client.resource_class)

    def _provision(
        self, run_id: str, count: int, resource_class: str, *, at_risk: bool = False
    ) -> Generator[None, None, bool]:
        wanted = ("--resource-class", resource_class, "--wait", "40s")
        ran = yield from self._ended(self.pool.start_provision(run_id, count, *wanted), at_risk)
        if ran.code == 0:
            assert len(ran.answer["instances"]) == count, ran
            self.did.append("provision")
        elif ran.code != KILLED:
            assert ran.code in (1, 75), ran
            assert "Traceback" not in ran.err
            self.refusals.append(ran.answer["reason"] if ran.code == 1 else ran.err)
        return ran.code == 0

    def _work(self, run_id: str, job: str) -> Generator[None, None, bool]:
        try:
            job_id = self.pool.submit(run_id, job)
        except BullpenError as refusal:
            self.refusals.append(str(refusal))
            return False
        if job is FILL:
            yield from self._until(lambda: room(self.disk) == 0, "the disk is full")
            self.did.append("fill")
            assert not (yield from self._provision(f"{run_id}-more", 1, "small"))
            return True
        ended = "SELECT instance_id, exit_code FROM jobs WHERE id = ? AND state = 'finished'"
        yield from self._until(lambda: bool(self.pool.rows(ended, job_id)), f"the job of {run_id} has ended")
        ((instance_id, exit_code),) = self.pool.rows(ended, job_id)
        if job is DEEP:
            if exit_code != 0:  # it met the full disk, and its tree is not deep
                return False
            self.pool.signal(instance_id, signal.SIGKILL)  # it cleans nothing: the whole tree is left
            self.did.append("dig")
        return True

    def _release(self, run_id: str) -> Wait:
        """One that is killed is called again; none may fail, whatever the disk and the agents are like."""
        while (ran := (yield from self._ended(self._released(run_id), True))).code == KILLED:
            pass
        assert ran.code == 0, ran

    def _released(self, run_id: str) -> Command:
        return self.pool.start("release", "--run-id", run_id, "--json")

    def _ended(self, command: Command, at_risk: bool) -> Generator[None, None, Ran]:
        """What came of a command. Of those at risk, some are killed on the way: the first ones, until one was."""
        none_yet = "kill" not in self.did
        dies_at = time.monotonic() + self.chance.uniform(0.0, 0.03 if none_yet else 0.4)
        is_doomed = at_risk and (none_yet or self.chance.random() < 0.3)
        while not command.has_ended():
            if is_doomed and time.monotonic() >= dies_at:
                self.did.append("kill")
                return command.kill()
            yield
        return command.wait()

    def _until(self, condition: Callable[[], bool], what: str) -> Wait:
        give_up = time.monotonic() + 240.0
        while not condition():
            assert time.monotonic() < give_up, f"not in time: {what}"
            yield


@pytest.fixture
def disk() -> Iterator[Path]:
    with a_small_disk(96) as mounted:
        yield mounted


@pytest.fixture
def small(disk: Path, folder: Path, starter: Starter) -> Iterator[Pool]:
    pool = Pool(home=disk / "home", folder=folder, starter=starter)
    pool.settings["limits.max-instances"] = CAP
    yield pool
    pool.end()


def live_together(day: Day) -> None:
    """The day of all clients, with a service that is killed in the middle of it, and a second one."""
    waiting = [day.spend(client) for client in CLIENTS]
    settings = [word for name, value in day.pool.settings.items() for word in ("--set", f"{name}={value}")]
    give_up = time.monotonic() + LONGEST
    for is_last in (False, True):
        with a_server(day.pool.home, *settings) as served:
            while waiting and (is_last or day.did.count("provision") < len(CLIENTS)):
                assert time.monotonic() < give_up, day.did
                waiting = [one for one in waiting if next(one, waiting) is None]
                assert len(day.pool.live()) <= CAP
                time.sleep(0.01)
            served.process.kill()


def test_a_day_of_kills_a_full_disk_deep_trees_and_a_cap_loses_and_leaves_nothing(small: Pool, disk: Path) -> None:
    day = Day(small, disk, random.Random(1))
    live_together(day)
    assert {"provision", "kill", "dig", "fill"} <= set(day.did)
    for reason in ("the disk is full or nearly full", "limits.max-instances is 4: 5 will never fit"):
        assert any(reason in refusal for refusal in day.refusals), day.refusals
    assert all(refusal.strip() for refusal in day.refusals)
    assert "Traceback" not in (disk / "serve.log").read_text()
    small.settle()
    assert small.audit() == []
    assert len(small.provision("after", CAP)["instances"]) == CAP
    assert small.run("down", "--yes").code == 0
    assert (small.live(), processes.of_home(small.home)) == ([], [])
    assert [*(small.home / "instances").iterdir()] == []
    assert room(disk) > ROOM
