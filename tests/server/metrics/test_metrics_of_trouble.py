"""What operators alert on is in the scrape: workers that are lost or held, debts, waits, and the limits of GitHub."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from builders import expire, on_offer, open_provision, registered
from bullpen.config import ResourceClass, Settings
from bullpen.model.times import later
from bullpen.ports.health import Limit
from bullpen.server.metrics.exposition import VALID_FOR
from bullpen.server.metrics.store_read import JOBS_OF_RUN, read_store
from conformance.landing import land
from conformance.leases import submit
from server.fixtures import House, a_house
from server.metrics.scraped import scraped

SETTINGS = Settings(classes={"small": ResourceClass(cpu=1, mem=1), "large": ResourceClass(cpu=4, mem=1)})


async def sweep_for(house: House, seconds: int) -> None:
    """What the loop of `serve` does, once a second."""
    loop = next(one for one in house.context.service.loops if one.name == "sweep")
    for _ in range(seconds):
        assert await loop.run_once()
        await asyncio.sleep(1)


async def beating(house: House, *keys: str) -> dict[str, int]:
    """Their tokens after one beat each."""
    return {key: (await house.beat(key, leaseSeconds=15)).json()["token"] for key in keys}


async def test_a_worker_that_falls_silent_is_suspect_then_lost_and_resurrected_when_it_beats_again(
    tmp_path: Path,
) -> None:
    async with a_house(tmp_path) as house:
        await sweep_for(house, 20)  # a receiver that has just begun grants every lease again
        tokens = await beating(house, "w-1", "w-2")
        await sweep_for(house, 17)
        found = await scraped(house)
        assert found.value("bullpen_workers", state="active") == 2
        assert found.value("bullpen_leases_suspect") == 2
        assert found.value("bullpen_leases_lost_total") == 0
        await sweep_for(house, 10)
        found = await scraped(house)
        assert found.value("bullpen_leases_lost_total") == 2
        assert found.value("bullpen_workers", state="inactive") == 2
        assert found.value("bullpen_leases_resurrected_total") == 0
        again = {"workerInstanceKey": "w-1", "token": tokens["w-1"]}
        assert (await house.ask("POST", "/v1/heartbeats", json=again)).status_code == 200
        await asyncio.sleep(VALID_FOR)
        found = await scraped(house)
        assert found.value("bullpen_leases_resurrected_total") == 1
        assert found.value("bullpen_workers", state="active") == 1


async def test_a_hold_is_shown_while_all_workers_are_silent(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await sweep_for(house, 20)
        await beating(house, *(f"w-{number}" for number in range(8)))
        assert (await scraped(house)).value("bullpen_hold_active") == 0
        await sweep_for(house, 40)
        found = await scraped(house)
        assert found.value("bullpen_hold_active") == 1
        assert found.value("bullpen_leases_lost_total") == 0


async def test_the_brake_shows_how_many_it_holds_back(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await sweep_for(house, 20)
        keys = [f"w-{number}" for number in range(40)]
        tokens = await beating(house, *keys)
        for _ in range(8):  # ten of forty go on
            for key in keys[:10]:
                beat = {"workerInstanceKey": key, "token": tokens[key], "leaseSeconds": 15}
                answer = await house.ask("POST", "/v1/heartbeats", json=beat)
                tokens[key] = answer.json()["token"]
            await sweep_for(house, 5)
        found = await scraped(house)
        lost, braked = found.value("bullpen_leases_lost_total"), found.value("bullpen_leases_braked")
        assert lost is not None
        assert braked is not None
        assert 0 < lost < 10
        assert braked == 30 - lost
        assert found.value("bullpen_domains_braked") == 1


async def test_debts_that_are_due_are_counted_with_the_age_of_the_oldest(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        assert (await scraped(house)).value("bullpen_debt_overdue_seconds") == 0
        now = house.ports.clock.now()
        for number in range(3):
            walk = on_offer(f"i-{number}")
            await land(house.ports.records, [*walk, expire(walk[-1].after, at=now)])
        await asyncio.sleep(60)
        found = await scraped(house)
        assert found.value("bullpen_debts_due", kind="instance") == 3
        overdue = found.value("bullpen_debt_overdue_seconds")
        assert overdue is not None
        assert 0 < overdue <= 60


async def test_the_oldest_open_provision_is_the_wait_of_its_class(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        now, patience = house.ports.clock.now(), SETTINGS.timings.provision
        await house.ports.records.apply(open_provision("p-1", deadline=later(now, patience)))
        await asyncio.sleep(30)
        await house.ports.records.apply(open_provision("p-2", run_id="run-2", deadline=later(now, patience + 30)))
        await asyncio.sleep(15)
        found = await scraped(house)
        assert found.value("bullpen_oldest_wait_seconds", resource_class="small") == pytest.approx(45)
        assert found.value("bullpen_oldest_wait_seconds", resource_class="large") == 0
        assert found.value("bullpen_provisions_open", resource_class="small") == 2
        assert found.value("bullpen_provisions_waiting", resource_class="small") == 0


async def test_the_oldest_queued_job_of_all_runs_is_their_wait(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        found = await scraped(house)
        assert found.value("bullpen_runs_with_queued_jobs") == 0
        assert found.value("bullpen_job_oldest_wait_seconds") == 0
        for number in range(3):
            now = house.ports.clock.now()
            await house.ports.records.apply(submit(f"j-{number}", f"run-{2 - number // 2}", now))
            await asyncio.sleep(10)
        found = await scraped(house)
        assert found.value("bullpen_runs_with_queued_jobs") == 2
        assert found.value("bullpen_job_oldest_wait_seconds") == pytest.approx(30)
        assert found.value("bullpen_oldest_wait_seconds", resource_class="small") == 0


async def test_a_run_of_many_jobs_costs_a_scrape_no_more_than_another(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        now = house.ports.clock.now()
        for number in range(JOBS_OF_RUN * 4):
            await house.ports.records.apply(submit(f"j-{number:03}", "run-1", now))
        read = await read_store(house.ports, SETTINGS)
        assert [len(jobs) for jobs in read.queued.values()] == [JOBS_OF_RUN]


async def test_machines_that_are_warmed_ahead_of_any_run_are_no_wait(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        now = house.ports.clock.now()
        await house.ports.records.apply(open_provision("p-1", run_id="", deadline=later(now, 600)))
        await land(house.ports.records, registered("i-1"))
        await asyncio.sleep(30)
        assert (await scraped(house)).value("bullpen_oldest_wait_seconds", resource_class="small") == 0


async def test_what_github_still_allows_is_shown_without_a_request(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        resets_at = house.ports.clock.now() + timedelta(minutes=10)
        house.ports.traffic.limits = lambda: {"core": Limit("core", 5000, 4321, resets_at)}
        found = await scraped(house)
        assert found.value("bullpen_github_requests_limit", resource="core") == 5000
        assert found.value("bullpen_github_requests_remaining", resource="core") == 4321
        shown = found.value("bullpen_github_requests_reset_timestamp_seconds", resource="core")
        assert shown == pytest.approx(resets_at.timestamp())


async def test_a_window_of_github_that_has_ended_leaves_all_its_requests(tmp_path: Path) -> None:
    """A process that asks nothing hears of no new window: without this, it would alert until it asks again."""
    async with a_house(tmp_path) as house:
        ended = house.ports.clock.now() - timedelta(seconds=1)
        house.ports.traffic.limits = lambda: {"core": Limit("core", 5000, 12, ended)}
        assert (await scraped(house)).value("bullpen_github_requests_remaining", resource="core") == 5000


async def test_a_loop_whose_first_turn_does_not_end_gets_older(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        loop = next(one for one in house.context.service.loops if one.name == "sources")
        never = asyncio.Event()
        loop._work = never.wait
        turn = asyncio.create_task(loop.run_once())
        await asyncio.sleep(100)
        found = await scraped(house)
        assert found.value("bullpen_loop_last_turn_age_seconds", loop="sources") == pytest.approx(100, abs=1)
        assert found.value("bullpen_loop_last_turn_seconds", loop="sources") is None
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
