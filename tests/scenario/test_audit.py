"""The audit is no rubber stamp: each kind of damage, done by hand, is found and named."""

import signal
import sqlite3
import subprocess
from contextlib import closing

import pytest

from scenario.pool import Pool
from scenario.test_racing import stock

DAMAGE = {
    "neither running nor on offer": "UPDATE instances SET state = 'claimed' WHERE id = :runs",
    "past its threshold": "UPDATE instances SET threshold = 1 WHERE id = :idle",
    "which has not committed": "UPDATE provisions SET state = 'aborted' WHERE run_id = 'run-1'",
    "but is no member": "UPDATE provisions SET members = '[]' WHERE run_id = 'run-1'",
    "1 of its 2 members running": "UPDATE provisions SET members = json_array(:runs, 'i-2') WHERE run_id = 'run-1'",
    "still owes terminate": "UPDATE instances SET owes_kind = 'terminate', owes_due = 1 WHERE id = :runs",
    "no process works on it": "UPDATE provisions SET state = 'open' WHERE run_id = 'stock'",
    "runs without a live record": "DELETE FROM instances WHERE id = :idle",
    "booked as alive": "DELETE FROM instances WHERE id = :idle",
    "left its directory": "DELETE FROM instances WHERE id = :idle",
    "is not registered": "DELETE FROM registrations",
    "registered for run-9": "UPDATE registrations SET label = 'run-9'",
    "which it does not serve": "INSERT INTO registrations (name, label, round) VALUES (:idle, 'run-1', '')",
    "a ticket offers": "UPDATE instances SET attested = 0, owes_kind = 'await-and-offer' WHERE id = :idle",
}


@pytest.mark.parametrize("complaint", DAMAGE)
def test_damage_in_the_books_is_found(pool: Pool, complaint: str) -> None:
    stock(pool, 2)
    pool.provision("run-1", 1)
    assert pool.audit() == []
    (idle,), (runs,) = pool.on_offer(), pool.ids("running")
    with closing(sqlite3.connect(pool.home / "bullpen.db", isolation_level=None)) as connection:
        connection.execute(DAMAGE[complaint], {"idle": idle, "runs": runs})
    assert complaint in "\n".join(pool.audit())


def test_a_record_without_a_process_is_found(pool: Pool) -> None:
    (idle,) = stock(pool, 1)
    pool.signal(idle, signal.SIGKILL)
    pool.until(lambda: pool.audit() == [f"{idle} is idle and has 0 agents"], "the audit misses the agent")


def test_a_process_that_outlives_its_instance_is_found_by_its_mark(pool: Pool) -> None:
    (gone,) = stock(pool, 1)
    with subprocess.Popen(["sleep", "600"], env={"BULLPEN_INSTANCE": gone}) as left:
        pool.signal(gone, signal.SIGKILL)
        with closing(sqlite3.connect(pool.home / "bullpen.db", isolation_level=None)) as connection:
            connection.execute("DELETE FROM instances WHERE id = ?", (gone,))
        assert f"process {left.pid} of {gone} runs without a live record" in pool.audit()
        left.kill()
