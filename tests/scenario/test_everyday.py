"""The everyday story: provision, release, provision again."""

import json
import subprocess
import sys
from pathlib import Path

from scenario.pool import Pool

PROGRAM = Path(sys.executable).with_name("bullpen")


def ids(answer: dict[str, object]) -> list[str]:
    instances = answer["instances"]
    assert isinstance(instances, list)
    return sorted(one["instanceId"] for one in instances)


def test_what_was_released_serves_the_next_run_and_nothing_is_created(pool: Pool) -> None:
    cold = pool.provision("run-1", 3)
    assert (cold["selected"], cold["created"]) == (0, 3)
    assert sorted(pool.release("run-1")["offered"]) == ids(cold)
    assert pool.audit() == []
    warm = pool.provision("run-2", 3)
    assert (warm["selected"], warm["created"]) == (3, 0)
    assert ids(warm) == ids(cold)
    assert pool.audit() == []


def test_the_installed_program_does_the_same(pool: Pool) -> None:
    def bullpen(*arguments: str) -> dict[str, object]:
        line = [str(PROGRAM), *pool.line(*arguments), "--json"]
        answer: dict[str, object] = json.loads(subprocess.run(line, capture_output=True, check=True, text=True).stdout)
        return answer

    cold = bullpen("provision", "--run-id", "run-1", "--count", "2")
    bullpen("release", "--run-id", "run-1")
    warm = bullpen("provision", "--run-id", "run-2", "--count", "2")
    assert ids(warm) == ids(cold)
    assert bullpen("down")["terminated"] == ids(cold)
    assert pool.audit() == []


def test_a_second_provision_of_a_run_tops_up(pool: Pool) -> None:
    first = pool.provision("run-1", 1)
    second = pool.provision("run-1", 3)
    assert second["created"] == 2
    assert set(ids(first)) < set(ids(second))
    assert pool.ids("running") == ids(second)
    assert pool.provision("run-1", 3)["created"] == 0
    assert pool.audit() == []


def test_releasing_an_unknown_run_is_no_error(pool: Pool) -> None:
    pool.provision("run-1", 1)
    released = pool.release("unknown")
    assert (released["offered"], released["terminated"], released["pending"]) == ([], [], [])
    assert len(pool.ids("running")) == 1


def test_down_leaves_no_process_and_no_registration(pool: Pool) -> None:
    pool.provision("run-1", 2)
    pool.run_job("run-1", "setsid sleep 600 & setsid sleep 600 &")
    pool.provision("run-2", 1)
    pool.release("run-2")
    assert len(pool.run("down", "--json").answer["terminated"]) == 3
    assert pool.live() == []
    assert pool.rows("SELECT * FROM registrations") == []
    assert pool.audit() == []
