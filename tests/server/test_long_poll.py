"""A provision that waits for room, over HTTP: begun, watched, stopped, and no obstacle for others."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bullpen.config import Limits, Settings
from bullpen.server.operations import MOST_AT_ONCE
from server.fixtures import House, a_house


async def begun(house: House, run_id: str, **fields: Any) -> dict[str, Any]:
    answer = await house.ask("POST", f"/v1/runs/{run_id}/provision", json={"count": 1, **fields})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    return found


def has_room_later() -> Settings:
    return Settings(limits=Limits(max_instances=1))


async def a_full_pool(house: House) -> None:
    """One instance of another run, at work."""
    from builders import running

    for change in running("i-00000000000000cc", "busy"):
        await house.ports.records.apply(change)


async def test_a_waiting_provision_says_so_and_a_delete_ends_it(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=has_room_later()) as house:
        await a_full_pool(house)
        operation = await begun(house, "next", wait=3600)
        path = f"/v1/operations/{operation['id']}"
        await asyncio.sleep(20)
        shown = (await house.ask("GET", path)).json()
        assert shown["state"] == "running"
        assert shown["progress"]["text"].startswith("waiting for room: limits.max-instances is 1; the total would be 2")
        assert (await house.ask("DELETE", path)).status_code == 202
        await asyncio.sleep(1)
        ended = (await house.ask("GET", path)).json()
        assert (ended["state"], ended["reason"]) == ("cancelled", "stopped before the commit")
        assert await house.ports.records.waiting_provisions(10) == []


@pytest.mark.slow
async def test_a_provision_is_not_reported_as_lost_while_it_waits(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=has_room_later()) as house:
        await a_full_pool(house)
        operation = await begun(house, "next", wait=3600)
        await asyncio.sleep(3000)
        shown = (await house.ask("GET", f"/v1/operations/{operation['id']}")).json()
        assert shown["state"] == "running"


async def test_a_server_that_stops_ends_every_wait_and_leaves_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=has_room_later()) as house:
        await a_full_pool(house)
        await begun(house, "next", wait=3600)
        await asyncio.sleep(5)
        assert len(await house.ports.records.waiting_provisions(10)) == 1
        await house.context.close()
        assert await house.ports.records.waiting_provisions(10) == []


async def test_provisions_that_wait_take_no_place_of_those_that_do_not(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=has_room_later()) as house:
        await a_full_pool(house)
        for number in range(MOST_AT_ONCE):
            await begun(house, f"run-{number}", wait=3600)
        busy = await house.ask("POST", "/v1/runs/more/provision", json={"count": 1, "wait": 60})
        assert busy.status_code == 429
        operation = await begun(house, "late")
        await asyncio.sleep(1)
        shown = (await house.ask("GET", f"/v1/operations/{operation['id']}")).json()
        assert f"{MOST_AT_ONCE} provisions wait in front" in shown["reason"]


@pytest.mark.parametrize("wait", [-1, 21601, "10m", None])
async def test_the_seconds_to_wait_are_checked(tmp_path: Path, wait: Any) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("POST", "/v1/runs/r/provision", json={"count": 1, "wait": wait})
        assert answer.status_code == 400
        assert "wait" in answer.text
