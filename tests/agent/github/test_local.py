"""Agents that serve GitHub's jobs beside their store: as processes, with the registration secret from the vault."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from agent.github.fixtures import a_ground, a_runner
from bullpen.agent.account import account_of
from bullpen.config import Engines, Github, Local, Settings, Timings
from bullpen.engines.local.machines import of_ids
from bullpen.host.processes import identify
from bullpen.model.activity import parse
from bullpen.model.signal import Kind
from fakes.github.acting import RUNNERS, caller
from fakes.github.hub import FakeGithub, JobSpec, Run
from real_machines import RealPool, a_plan, a_pool
from users import lent

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]
RUN = ("${{ github.run_id }}",)


@pytest.fixture
def ground() -> Iterator[Path]:
    with a_ground() as ground:
        yield ground


def put_secret(home: Path, hub: FakeGithub, seconds: float = 3600.0) -> None:
    """As `refresh` does."""
    with caller(hub) as api:
        tokens = [api.post(f"{RUNNERS}/{kind}-token").json()["token"] for kind in ("registration", "remove")]
    content = {"url": f"{hub.url}/acme/widgets", "group": "", "registration": tokens[0], "removal": tokens[1]}
    secret = {"content": json.dumps({**content, "oldest": "", "pool": "pool"}), "expires": time.time() + seconds}
    (home / "vault").mkdir(mode=0o700, exist_ok=True)
    file = home / "vault" / "github.json"
    file.touch(0o600)
    file.write_text(json.dumps(secret))


@asynccontextmanager
async def on_github(ground: Path, hub: FakeGithub, users: int = 2) -> AsyncIterator[RealPool]:
    github = Github(scope="acme/widgets", url=hub.url, runner_directory=str(a_runner(ground)))
    settings = Settings(engines=Engines(ci="github"), github=github, timings=Timings(heartbeat=0.2))
    with lent(users) as names:
        async with a_pool(ground / "home", structs.replace(settings, local=Local(runner_users=names))) as pool:
            put_secret(pool.home, hub)
            yield pool


async def completed(hub: FakeGithub, run: Run) -> Run:
    await asyncio.to_thread(hub.wait_for, lambda: run.state == "completed")
    return run


def is_open_to_jobs(path: Path, user: str, *deeds: str) -> bool:
    account = account_of(user)
    commands = [[*deed.split(), str(path)] for deed in deeds]
    theirs: dict[str, Any] = {"user": account.user, "group": account.group, "extra_groups": []}
    return any(subprocess.run(command, **theirs, capture_output=True).returncode == 0 for command in commands)


async def test_an_instance_serves_one_run_is_cleaned_and_serves_another(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github) as pool:
        run = github.start_run("acme/widgets", [JobSpec("build", RUN, script='touch "$HOME/planted" planted')])
        instance = await pool.ready(str(run.id))
        assert (await completed(github, run)).conclusion == "success"
        instance = await pool.release(instance)
        attested = await pool.reported(instance, Kind.CLEAN_OK)
        assert attested.text == "runner=2.336.0"
        assert github.runners() == []
        look = 'test -z "$(ls -A "$HOME" "$RUNNER_TEMP/../.." | grep planted)"'
        run = github.start_run("acme/widgets", [JobSpec("build", RUN, script=look)])
        instance = await pool.claim(await pool.offer(instance, attested), str(run.id))
        await pool.reported(instance, Kind.REG_OK)
        assert (await completed(github, run)).conclusion == "success"


async def test_two_instances_of_one_machine_share_the_runner_and_nothing_else(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github) as pool:
        jobs = [JobSpec(key, RUN, script="sleep 0.3; touch planted") for key in ("one", "two")]
        run = github.start_run("acme/widgets", jobs)
        first, second = await pool.ready(str(run.id)), await pool.ready(str(run.id))
        await completed(github, run)
        for instance in (first, second):
            await pool.reported(await pool.release(instance), Kind.CLEAN_OK)
        assert github.runners() == []


async def test_the_worker_s_beat_names_the_job_while_it_runs(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github) as pool:
        go = ground / "go"
        script = f"until [[ -e {go} ]]; do sleep 0.02; done"
        run = github.start_run("acme/widgets", [JobSpec("build", RUN, script=script)])
        instance = await pool.ready(str(run.id))

        async def activity() -> str:
            heartbeat = (await pool.signals.read([instance.id]))[instance.id].heartbeat
            return heartbeat.activity if heartbeat is not None else ""

        while not (text := await activity()):
            await pool.signals.wait(0.05)
        bound = parse(text)
        assert bound is not None
        assert (bound.run, bound.job) == (str(run.id), "build")
        go.touch()
        while await activity():
            await pool.signals.wait(0.05)


async def test_without_a_valid_token_the_registration_fails_and_says_what_to_do(
    ground: Path, github: FakeGithub
) -> None:
    async with on_github(ground, github) as pool:
        put_secret(pool.home, github, seconds=-1)
        instance = await pool.launch("4711")
        with pytest.raises(AssertionError, match="no valid registration token; run `bullpen refresh`"):
            await pool.reported(instance, Kind.REG_OK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
async def test_as_root_without_users_for_jobs_no_machine_is_started(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github, users=0) as pool:
        answer = await pool.compute.create_fleet(a_plan())
        assert answer.machines == ()
        (error,) = answer.errors
        assert "refuses to run as root: local.runner-users must name users" in error.message
        assert await pool.compute.sightings() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs run as we do here")
async def test_a_job_reaches_nothing_of_the_pool_s_nor_of_another_machine_s(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github) as pool:
        first, _ = await pool.ready("4711"), await pool.ready("4712")
        (line,) = await pool.database.read(lambda snapshot: of_ids(snapshot, [first.id]))
        own, above = pool.directory(first.id), [pool.home, pool.home / "instances", pool.directory(first.id)]
        mine = [own / name for name in ("work", "home", "tmp", "runner", "hooks")]
        for path in (pool.home, *pool.home.rglob("*")):
            if not any(path.is_relative_to(place) for place in mine):
                deeds = ["test -w"] if path in above else ["test -w", "ls" if path.is_dir() else "cat"]
                assert not await asyncio.to_thread(is_open_to_jobs, path, line.user, *deeds), path


async def test_an_agent_that_is_ended_takes_its_registration_along(ground: Path, github: FakeGithub) -> None:
    async with on_github(ground, github) as pool:
        instance = await pool.ready("4711")
        process = await pool.agent(instance)
        os.kill(process.pid, 15)
        await pool.ended(process)
        assert github.runners() == []
        assert identify(process.pid) != process
