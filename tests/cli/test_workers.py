"""`bullpen workers` on the real store: a table for people, the schema of the API for programs."""

import asyncio
from pathlib import Path

import pytest

from bullpen.cli.workers import TITLES
from bullpen.config import Settings
from bullpen.liveness.heartbeat import record_heartbeat
from bullpen.liveness.schema import HeartbeatRequest, WorkerMetadata
from bullpen.wiring import opened
from command_line import CommandLine

METADATA = WorkerMetadata(
    capabilities=("docker", "gpu"),
    build_id="9.1+abc",
    host="build-host",
    pid=42,
    agent_version="9.1",
    extras={"rack": "7"},
)


def beat(*keys: str, lease: int = 60) -> None:
    async def send() -> None:
        async with opened(Path(".bullpen"), Settings()) as ports:
            for key in keys:
                request = HeartbeatRequest(key=key, lease=lease, domain="zone-a", metadata=METADATA)
                await record_heartbeat(ports, Settings(), request)

    asyncio.run(send())


def test_the_table_shows_lease_build_host_and_capabilities(bullpen: CommandLine) -> None:
    beat("build-7")
    ran = bullpen("workers")
    assert ran.code == 0
    titles, row = ran.out.splitlines()
    assert tuple(titles.split()) == TITLES
    cells = row.split()
    assert cells[:3] == ["build-7", "active", "1"]
    assert cells[-7:] == ["60s", "zone-a", "build-host", "42", "9.1+abc", "docker", "gpu"]


def test_the_json_is_what_the_api_answers(bullpen: CommandLine) -> None:
    beat("a", "b", "c")
    answer = bullpen("workers", "--json", "--limit", "2").answer
    assert answer["next"] == "b"
    assert [one["key"] for one in answer["workers"]] == ["a", "b"]
    first = answer["workers"][0]
    assert (first["buildId"], first["host"], first["pid"]) == ("9.1+abc", "build-host", 42)
    assert (first["capabilities"], first["extras"]) == (["docker", "gpu"], {"rack": "7"})
    rest = bullpen("workers", "--json", "--after", "b").answer
    assert ([one["key"] for one in rest["workers"]], rest["next"]) == (["c"], "")


def test_a_page_that_is_not_the_last_names_the_next_one(bullpen: CommandLine) -> None:
    beat("a", "b")
    assert bullpen("workers", "--limit", "1").out.endswith("there may be more workers; continue with --after a\n")


@pytest.mark.parametrize(("state", "keys"), [("active", ["a"]), ("inactive", []), ("suspect", [])])
def test_workers_can_be_filtered_by_state(bullpen: CommandLine, state: str, keys: list[str]) -> None:
    beat("a")
    assert [one["key"] for one in bullpen("workers", "--state", state, "--json").answer["workers"]] == keys


def test_a_pool_without_workers_has_an_empty_list(bullpen: CommandLine) -> None:
    bullpen.make_pool()
    assert bullpen("workers").out == "no workers\n"
    assert bullpen("workers", "--json").answer == {"workers": [], "next": ""}


@pytest.mark.parametrize("wrong", [("--state", "dead"), ("--limit", "0"), ("--limit", "many")])
def test_an_invalid_option_is_refused_with_what_is_allowed(bullpen: CommandLine, wrong: tuple[str, str]) -> None:
    ran = bullpen("workers", *wrong)
    assert ran.code == 2
    assert wrong[0] in ran.err
    assert wrong[1] in ran.err


def test_why_shows_the_steps_of_a_worker_of_another_program(bullpen: CommandLine) -> None:
    beat("build-7")
    ran = bullpen("why", "build-7")
    assert ran.code == 0
    waits, _, head, line = ran.out.splitlines()
    assert waits == "build-7 is active, and waits for nothing"
    assert head == "build-7 is active"
    assert line.split()[1:] == ["register", "→", "active", "heartbeat"]
