"""Pre-runner scripts that fail, hang or talk too much: the provision fails with their last words, and all is undone."""

from typing import Any

import pytest

from scenario.pool import Pool
from scenario.test_racing import stock


def fails(pool: Pool, script: str, timeout: float = 10) -> dict[str, Any]:
    """Provision one from the pool and one that boots with `script`; returns the answer, everything given back."""
    stocked = stock(pool, 1)
    pool.settings |= {"agent.pre-runner-script": script, "agent.pre-runner-timeout": timeout}
    answer = pool.refused("run-1", 2)
    assert pool.on_offer() == stocked
    assert pool.live() == stocked
    assert sorted(one["outcome"] for one in answer["discarded"]) == ["offered", "terminated"]
    assert pool.audit() == []
    return answer


def test_a_script_that_fails_is_quoted(pool: Pool) -> None:
    answer = fails(pool, "echo looking for the toolchain; echo no toolchain here >&2; exit 3")
    assert "exit code 3" in answer["reason"]
    assert "no toolchain here" in answer["reason"]
    assert answer["remedy"]


def test_a_script_that_hangs_is_killed_with_what_it_started_and_quoted(pool: Pool) -> None:
    answer = fails(pool, "echo waiting for the mirror; setsid sleep 600 & sleep 600", timeout=2)
    assert "did not end within 2 s" in answer["reason"]
    assert "waiting for the mirror" in answer["reason"]


def test_of_a_script_that_prints_a_megabyte_the_last_lines_are_shown(pool: Pool) -> None:
    answer = fails(pool, "yes 0123456789abcde | head -c 1048576; echo the last words; exit 1")
    assert answer["reason"].rstrip().endswith("the last words")
    assert len(answer["reason"]) < 5000


@pytest.mark.parametrize("script", ["yes 0123456789abcde | head -c 1048576", "(setsid sleep 600 &); echo ready"])
def test_a_script_may_print_much_or_leave_a_service_running(pool: Pool, script: str) -> None:
    pool.settings |= {"agent.pre-runner-script": script, "agent.pre-runner-timeout": 10}
    assert pool.provision("run-1", 1)["created"] == 1
    assert pool.release("run-1")["terminated"] == []
    assert pool.provision("run-2", 1)["created"] == 0
    assert pool.audit() == []
