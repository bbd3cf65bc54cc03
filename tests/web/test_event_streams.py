"""A stream of events lasts no longer than the token it was opened with."""

import asyncio
from datetime import timedelta
from pathlib import Path

from bullpen.engines.keys import Scope
from bullpen.web.events import RECHECK
from web.house import House, a_house

LONG = 600.0  # seconds of virtual time


async def streamed(house: House, token: str | None, after: float = 0.0) -> float:
    """How long a stream lasts that was opened so."""
    async with asyncio.timeout(LONG):
        await asyncio.sleep(after)
        began = asyncio.get_running_loop().time()
        answer = await house.ask("GET", "/v1/events", token)
        assert answer.status_code == 200
        assert answer.content.startswith(b"retry:")
        return asyncio.get_running_loop().time() - began


async def test_a_stream_ends_when_its_token_expires(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        expires = house.ports.clock.now() + timedelta(seconds=60)
        token = house.create(Scope.READ, expires)
        assert 60 - RECHECK <= await streamed(house, token) <= 60 + RECHECK


async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()

        async def revoke() -> None:
            await asyncio.sleep(30)
            await house.revoke("read")

        lasted, _ = await asyncio.gather(streamed(house, "read"), revoke())
        assert 30 <= lasted <= 30 + RECHECK + 1


async def test_a_stream_of_an_open_service_ends_when_there_are_tokens(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:

        async def close_the_door() -> None:
            await asyncio.sleep(30)
            house.guard()

        lasted, _ = await asyncio.gather(streamed(house, None), close_the_door())
        assert 30 <= lasted <= 30 + RECHECK + 1
