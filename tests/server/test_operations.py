"""Operations: begun once for a key, listed, cancelled, streamed, and read from files of this release and the last."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from bullpen.schema.requests import ProvisionRun
from bullpen.server import operations
from bullpen.server.operations import READ_AT_ONCE
from server.fixtures import House, a_house

LONG = 600.0  # seconds of virtual time


async def begun(house: House, run: str = "r", key: str = "", **fields: Any) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return await house.ask("POST", f"/v1/runs/{run}/provision", json={"count": 1, **fields}, headers=headers)


def write(home: Path, number: int, **fields: Any) -> str:
    """A file of an operation, as the release before wrote it."""
    id = f"op-{number:016x}"
    written: dict[str, Any] = {
        "kind": "release",
        "id": id,
        "runId": "r",
        "state": "succeeded",
        "startedAt": "2026-01-01T00:00:00Z",
    }
    written |= {"endsBy": "2026-01-01T00:10:00Z", "finishedAt": "2026-01-01T00:00:01Z", "progress": None, "cause": ""}
    written |= {"reason": "", "remedy": "", "result": None, "owner": "gone"}
    (home / "operations").mkdir(exist_ok=True)
    (home / "operations" / f"{id}.json").write_text(json.dumps(written | fields))
    return id


# ---- one key, one request


async def test_the_same_key_with_another_body_is_refused_and_begins_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        operation = (await begun(first, key="k")).json()
        for house in (first, second):
            refused = await begun(house, key="k", count=2)
            assert (refused.status_code, refused.json()["code"]) == (422, "idempotency-mismatch")
            assert (refused.json()["field"], refused.json()["value"]) == ("Idempotency-Key", "k")
            assert operation["id"] in refused.json()["error"]
            assert refused.json()["remedy"]
        assert len((await first.ask("GET", "/v1/operations")).json()["operations"]) == 1
        await first.ask("DELETE", f"/v1/operations/{operation['id']}")
        await asyncio.sleep(LONG)
        assert (await begun(first, key="k", count=2)).status_code == 422  # it has ended, and is still known


async def test_a_body_that_means_the_same_is_the_same_body(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        operation = (await begun(house, key="k")).json()
        again = await begun(house, key="k", resourceClass="small", allowPartial=False)
        assert (again.status_code, again.json()["id"]) == (202, operation["id"])


async def test_a_key_of_an_operation_that_the_release_before_began_is_accepted(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        operation = (await begun(house, key="k")).json()
        await house.ask("DELETE", f"/v1/operations/{operation['id']}")
        await asyncio.sleep(LONG)
        file = tmp_path / "operations" / f"{operation['id']}.json"
        written = json.loads(file.read_text())
        assert written.pop("request")
        file.unlink()
        file.write_text(json.dumps(written))
        assert (await begun(house, key="k", count=2)).json()["id"] == operation["id"]


# ---- cancelled


async def test_an_operation_that_was_stopped_and_gave_everything_back_is_cancelled(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        operation = (await begun(first)).json()
        assert (operation["state"], operation["finishedAt"]) == ("running", None)
        await asyncio.sleep(1)
        assert (await first.ask("DELETE", f"/v1/operations/{operation['id']}")).status_code == 202
        await asyncio.sleep(LONG)
        for house in (first, second):
            shown = (await house.ask("GET", f"/v1/operations/{operation['id']}")).json()
            assert (shown["state"], shown["cause"], shown["result"]["state"]) == ("cancelled", "interrupted", "failed")
            assert shown["finishedAt"]
        assert await first.ports.records.run_instances("r") == []


async def test_the_release_before_reads_the_file_of_a_cancelled_operation(tmp_path: Path) -> None:
    """It knows neither the state nor a `finishedAt` that is null: it would answer 404."""
    async with a_house(tmp_path) as house:
        operation = (await begun(house)).json()
        file = tmp_path / "operations" / f"{operation['id']}.json"
        assert json.loads(file.read_text())["finishedAt"] == ""
        await house.ask("DELETE", f"/v1/operations/{operation['id']}")
        await asyncio.sleep(LONG)
        assert json.loads(file.read_text())["state"] == "failed"


async def test_an_operation_that_fails_by_itself_is_not_cancelled(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.memory.yard.capacity = 0
        operation = (await begun(house)).json()
        await asyncio.sleep(LONG)
        assert (await house.ask("GET", f"/v1/operations/{operation['id']}")).json()["state"] == "failed"


# ---- the list


async def test_operations_are_listed_by_state_kind_and_run_in_pages(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house, a_house(tmp_path) as other:
        write(tmp_path, 1, state="succeeded")
        write(tmp_path, 2, state="failed", runId="s")
        write(tmp_path, 3, state="running")  # its process is gone
        running = (await begun(house, "s")).json()["id"]

        async def listed(query: str, asked: House = house) -> list[str]:
            found, after = [], ""
            while True:
                page = (await asked.ask("GET", f"/v1/operations?{query}&after={after}")).json()
                found += [one["id"] for one in page["operations"]]
                if not (after := page["next"]):
                    return found

        ids = sorted([f"op-{number:016x}" for number in (1, 2, 3)] + [running])
        for limit in (1, 2, 4, 100):
            assert await listed(f"limit={limit}") == ids
        assert await listed("limit=9", other) == ids
        assert await listed("state=lost") == [ids[2]]
        assert await listed("state=running") == await listed("kind=provision") == [running]
        assert await listed("runId=s&kind=release") == [ids[1]]
        assert await listed("runId=s", other) == sorted([ids[1], running])


async def test_a_page_of_operations_reads_a_bounded_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2 * READ_AT_ONCE + 1):
        write(tmp_path, number)
    reads: list[Path] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    async with a_house(tmp_path) as house:
        pages = [(await house.ask("GET", "/v1/operations?state=failed")).json()]
        assert len(reads) == READ_AT_ONCE
        while pages[-1]["next"]:
            pages.append((await house.ask("GET", f"/v1/operations?state=failed&after={pages[-1]['next']}")).json())
        assert (len(pages), len(reads)) == (3, 2 * READ_AT_ONCE + 1)
        assert [one for page in pages for one in page["operations"]] == []
        await house.ask("GET", "/v1/operations?state=failed")
        assert len(reads) == 2 * READ_AT_ONCE + 1  # what has ended is not read twice


async def test_a_file_that_was_read_while_its_operation_ran_is_read_again_when_it_has_ended(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        operation = (await begun(first)).json()
        path = f"/v1/operations/{operation['id']}"
        assert (await second.ask("GET", path)).json()["state"] == "running"
        await first.ask("DELETE", path)
        await asyncio.sleep(LONG)
        file = tmp_path / "operations" / f"{operation['id']}.json"
        os.utime(file, ns=(0, 0))
        assert (await second.ask("GET", path)).json()["state"] == "cancelled"


# ---- the stream


def one_by_one(house: House) -> AsyncGenerator[bytes, None]:
    """A stream of which each piece is one event."""
    house.context.events.piece = 1
    return house.context.events.stream(lambda: True)


async def next_operation(events: AsyncGenerator[bytes, None]) -> dict[str, Any]:
    async with asyncio.timeout(LONG):
        async for event in events:
            if b"event: operation\n" in event:
                found: dict[str, Any] = json.loads(event.partition(b"data: ")[2])
                return found
    raise AssertionError("the stream has ended")


async def test_operations_of_every_process_are_streamed_from_their_beginning_to_their_end(tmp_path: Path) -> None:
    async with a_house(tmp_path) as first, a_house(tmp_path) as second:
        write(tmp_path, 1)  # it ended long ago: no news
        write(tmp_path, 2, state="running")  # it was lost long ago: no news either
        here, there = (one_by_one(house) for house in (first, second))
        for events in (here, there):
            await anext(events)
        operation = (await begun(first)).json()
        seen = await next_operation(here)
        assert (seen["id"], seen["state"], seen["kind"]) == (operation["id"], "running", "provision")
        assert (await next_operation(there))["state"] == "running"
        while seen["progress"] is None:
            seen = await next_operation(here)
        assert seen["progress"]["total"] == 1
        await first.ask("DELETE", f"/v1/operations/{operation['id']}")
        while seen["state"] == "running":
            seen = await next_operation(here)
        assert seen["state"] == "cancelled"
        assert (await next_operation(there))["state"] == "cancelled"
        for events in (here, there):
            await events.aclose()


async def test_an_operation_that_has_ended_leaves_the_stream_without_a_word(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        events = one_by_one(house)
        await anext(events)
        await house.ask("POST", "/v1/runs/r/release")
        while (await next_operation(events))["state"] == "running":
            pass
        silence = operations.RECENT.total_seconds() + 20
        began = asyncio.get_running_loop().time()
        async for event in events:
            assert b"event: gone" not in event
            if asyncio.get_running_loop().time() - began > silence:
                break
        await events.aclose()


def test_a_field_that_a_later_release_adds_with_a_default_changes_no_request() -> None:
    """A request that is repeated across an upgrade is the same request."""
    assert operations._meant(ProvisionRun(count=1, resource_class="small")) == '{"count":1}'
