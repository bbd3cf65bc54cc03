"""A pool of real processes on a home of its own: commands, looks at the database, and an end for everything."""

import asyncio
import fcntl
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from bullpen.engines.sqlite.database import Database
from bullpen.host.processes import TreeSurvived, end_tree, mark_of
from real_machines import SubmittedJobs
from scenario import processes
from scenario.audit import audit
from scenario.commands import LOOK_AGAIN, Command, Commands, Ran, Starter

__all__ = ["Command", "Pool", "Ran", "Starter"]


@dataclass(kw_only=True)
class Pool(Commands):
    """The embedded engines."""

    def run_job(self, run_id: str, script: str) -> str:
        """Run a shell script as a job of the run, to its end; returns the id of the instance that took it."""
        job_id = self.submit(run_id, script)
        done = "SELECT instance_id, exit_code FROM jobs WHERE id = ? AND state = 'finished'"
        self.until(lambda: bool(self.rows(done, job_id)), "the job has ended")
        ((instance_id, code),) = self.rows(done, job_id)
        assert code == 0, f"the job failed with {code}"
        return str(instance_id)

    def submit(self, run_id: str, script: str) -> str:
        return asyncio.run(self._submit(run_id, ["/bin/sh", "-c", script]))

    async def _submit(self, run_id: str, command: Sequence[str]) -> str:
        async with Database.open(self.home) as database:
            return await SubmittedJobs(database).submit(run_id, command)

    # ------------------------------------------------------------------------------------------------------------ looks

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What the database says now, without touching it; nothing while there is none."""
        if not (self.home / "bullpen.db").exists():
            return []
        with closing(sqlite3.connect(f"file:{self.home / 'bullpen.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query, parameters).fetchall()

    def ids(self, state: str) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE state = ? ORDER BY id", state)]

    def on_offer(self) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE attested = 1 ORDER BY id")]

    def live(self) -> list[str]:
        return [id for (id,) in self.rows("SELECT id FROM instances WHERE state <> 'terminated' ORDER BY id")]

    def story(self, id: str) -> str:
        return "\n".join(why for (why,) in self.rows("SELECT why FROM stories WHERE record_id = ?", id))

    def agent(self, id: str) -> int:
        """The pid of an instance's agent."""
        pids = [one.pid for one in processes.of_home(self.home) if one.is_agent and one.instance_id == id]
        assert len(pids) == 1, f"agents of {id}: {pids}\n{self.story(id)}\n{self._told()}"
        return pids[0]

    def send(self, pid: int, number: signal.Signals) -> None:
        """Signal an agent or a command."""
        os.kill(pid, number)
        # One that is stopped in the middle of a write stops every other writer: that is another test.
        while number is signal.SIGSTOP and not self._can_write():
            os.kill(pid, signal.SIGCONT)
            time.sleep(LOOK_AGAIN)
            os.kill(pid, signal.SIGSTOP)

    def signal(self, id: str, number: signal.Signals) -> None:
        self.send(self.agent(id), number)

    def _can_write(self) -> bool:
        """True if both locks of the turnstile come free, as they do within milliseconds unless their holder stands."""
        give_up = time.monotonic() + 0.5
        while time.monotonic() < give_up:
            with open(self.home / "turn.lock") as turn, open(self.home / "db.lock") as db, suppress(BlockingIOError):
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.flock(db, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(LOOK_AGAIN)
        return False

    def is_calm(self) -> bool:
        reported = "SELECT 1 FROM signals WHERE instance_id = id AND round = instances.round AND kind LIKE 'UD_CLEAN_%'"
        cleaning = f"SELECT 1 FROM instances WHERE state = 'idle' AND attested = 0 AND NOT EXISTS ({reported})"
        return not self.rows(cleaning)

    def audit(self) -> list[str]:
        return audit(self.home)

    def _told(self) -> str:
        files = [*sorted(self.folder.glob("*.err")), *sorted(self.home.glob("instances/*/agent.log"))]
        return self._last_words(files, self.folder)

    # -------------------------------------------------------------------------------------------------------------- end

    def end(self) -> None:
        """End every process of this home, each by its pid: commands first, for they might start more."""
        self.kill_commands()
        for id in dict.fromkeys(one.instance_id for one in processes.of_home(self.home)):
            with suppress(TreeSurvived):
                end_tree(None, mark_of(id), patience=5.0)
        for left in processes.of_home(self.home):
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)
