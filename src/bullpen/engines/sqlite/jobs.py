"""Jobs of the embedded CI: submitted here, taken by the agents of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import json

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.rows import to_micros
from bullpen.engines.sqlite.writer import Transaction
from bullpen.ports import Chance, Clock

SUBMIT = "INSERT INTO jobs (id, run_id, state, fence, command, queued_at) VALUES (?, ?, 'queued', 0, ?, ?)"
GET = "SELECT id, run_id, state, command, instance_id, exit_code FROM jobs WHERE id = ?"
RUNNERS = "SELECT id FROM instances WHERE run_id = ? AND run_id <> '' AND state <> 'terminated'"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Job:
    """A command that one runner of the run executes. `instance_id` is empty until one has taken it."""

    id: str
    run_id: str
    state: JobState
    command: tuple[str, ...]
    instance_id: str
    exit_code: int | None


class SqliteJobs:
    """The job queue of one home's database."""

    def __init__(self, database: Database, clock: Clock, chance: Chance) -> None:
        self._database = database
        self._clock = clock
        self._chance = chance

    async def submit(self, run_id: str, command: Sequence[str]) -> str:
        """Queue a command for the runners of a run, wake them, and return the job's id."""
        job_id = f"j-{self._chance.token()}"
        row = (job_id, run_id, json.encode(list(command)).decode(), to_micros(self._clock.now()))

        def write(transaction: Transaction) -> None:
            transaction.execute(SUBMIT, row)
            for (instance_id,) in transaction.execute(RUNNERS, (run_id,)).fetchall():
                transaction.wake(instance_id)

        await self._database.write(write)
        return job_id

    async def get(self, job_id: str) -> Job | None:
        row = await self._database.read(lambda snapshot: snapshot.execute(GET, (job_id,)).fetchone())
        if row is None:
            return None
        id_, run_id, state, command, instance_id, exit_code = row
        return Job(id_, run_id, JobState(state), json.decode(command, type=tuple[str, ...]), instance_id, exit_code)
