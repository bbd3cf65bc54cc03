"""A job that waits is kept for a runner that is on its way."""

import asyncio
from pathlib import Path

import pytest

from server.fixtures import House, a_house


async def a_job(house: House) -> str:
    await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})  # its record may not be there yet
    created = await house.ask("POST", "/v1/jobs", json={"runId": "r", "command": ["true"]})
    return str(created.json()["id"])


async def on_offer(house: House) -> list[str]:
    """The jobs that a runner may have now."""
    return [job.id for job in await house.ports.jobs.queued("r", house.ports.clock.now(), 10)]


async def test_no_runner_gets_a_job_that_is_kept_until_its_time_has_passed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house)
        answer = await house.ask("POST", f"/v1/jobs/{job}/postpone", json={"seconds": 30})
        assert (answer.status_code, answer.json()["state"]) == (200, "queued")
        assert await on_offer(house) == []
        story = (await house.ask("GET", f"/v1/jobs/{job}")).json()["story"]
        assert story[-1]["why"] == "kept for the replacement of its runner"
        await asyncio.sleep(31)
        assert await on_offer(house) == [job]


async def test_a_job_that_is_kept_is_let_go_at_once_with_zero_seconds(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house)
        for seconds in (300, 0):
            await house.ask("POST", f"/v1/jobs/{job}/postpone", json={"seconds": seconds})
        assert await on_offer(house) == [job]


async def test_a_job_that_has_ended_stays_as_it_is(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house)
        ended = (await house.ask("POST", f"/v1/jobs/{job}/cancel")).json()
        answer = await house.ask("POST", f"/v1/jobs/{job}/postpone", json={"seconds": 30})
        assert (answer.status_code, answer.json()) == (200, ended)


@pytest.mark.parametrize("seconds", [-1, 301, "soon", None])
async def test_a_wrong_time_is_refused_by_its_field(tmp_path: Path, seconds: object) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job(house)
        answer = await house.ask("POST", f"/v1/jobs/{job}/postpone", json={"seconds": seconds})
        assert (answer.status_code, answer.json()["field"]) == (400, "seconds")
        assert await on_offer(house) == [job]
