"""What cron and its like would start as the user of a machine goes when the machine is ended, cleaned or not."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from bullpen.engines.local import compute as local_compute
from bullpen.engines.local import machines
from bullpen.engines.local.compute import LAUNCH_LASTS
from bullpen.engines.local.launch import end
from bullpen.host import scheduled_jobs
from bullpen.host.processes import ProcessIdentity
from bullpen.model.fleet import LaunchedMachine
from bullpen.model.ticket import UsageClass
from engines.test_local_users import with_users
from real_machines import RealPool, a_plan

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user"),
]


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cron looks for tables."""
    monkeypatch.setattr(scheduled_jobs, "SPOOLS", (str(tmp_path),))
    return tmp_path


async def a_dead_machine(pool: RealPool, user: str) -> str:
    """It has been launched, and nothing of it runs."""
    machine = LaunchedMachine("i-00000000000000aa", "local.small", UsageClass.ON_DEMAND, 1, 1024)
    at = pool.clock.now() - LAUNCH_LASTS - timedelta(seconds=1)
    await pool.database.write(
        lambda transaction: machines.book(transaction, a_plan(), [machine], at, {machine.id: user}, {})
    )
    return machine.id


async def test_they_go_before_what_runs_is_ended_and_once_more_if_that_had_time_to_make_another(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_users(1) as (pool, (user,)):
        tables = [spool / user, spool / "root"]
        there: list[bool] = []

        def while_it_makes_another(
            home: Path, instance_id: str, process: ProcessIdentity | None, uid: int | None = None
        ) -> bool | None:
            if uid is not None:
                there.append(tables[0].exists())
                if len(there) == 1:
                    tables[0].touch()
            return end(home, instance_id, process, uid)

        monkeypatch.setattr(local_compute, "end", while_it_makes_another)
        for table in tables:
            table.touch()
        id_ = await a_dead_machine(pool, user)
        assert await pool.compute.terminate([id_]) == [id_]
        assert there == [False, False]
        assert os.listdir(spool) == ["root"]


async def test_a_machine_with_one_that_resists_is_not_ended_and_says_why(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, uid: int) -> bool:
        raise PermissionError(1, "Operation not permitted", str(spool / name))

    async with with_users(1) as (pool, (user,)):
        id_ = await a_dead_machine(pool, user)
        with monkeypatch.context() as patch:
            patch.setattr(scheduled_jobs, "clear", refuse)
            assert await pool.compute.terminate([id_]) == []
        (seen,) = await pool.compute.sightings()
        assert seen.alive  # what is started later is the machine's still
        assert f"user {user!r}, or shall run later, cannot be ended: " in seen.stays
        assert str(spool / user) in seen.stays
        assert await pool.compute.terminate([id_]) == [id_]
        assert await pool.compute.sightings() == []
