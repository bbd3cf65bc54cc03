"""The race for an offer on the real engine: sixty-four claimers, two hundred rounds, one winner each."""

import asyncio
import json
import sys

import msgspec
import pytest

from builders import later, on_offer
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.model.instance import CLAIMED
from conformance.landing import land_all
from engines.aws.race import __file__ as racer
from engines.aws.tables import a_table
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

PROCESSES, CLAIMERS, ROUNDS = 2, 32, 200
TAKES = 540.0
"""Seconds, at most. 12,800 claims cost 30 s of two processors, which are rarely ours alone."""


async def test_of_sixty_four_claimers_exactly_one_wins_each_of_two_hundred_rounds(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    aws = aws_settings().aws
    async with a_table(aws) as table:
        records = DynamoRecords(table)
        await land_all(records, [on_offer(f"i-{n:03}", threshold=later(3600)) for n in range(ROUNDS)])
        outcomes = await asyncio.gather(*(_claim_all(msgspec.json.encode(aws), str(n)) for n in range(PROCESSES)))
        assert [sum(won) for won in zip(*outcomes, strict=True)] == [1] * ROUNDS
        found = await records.instances([f"i-{n:03}" for n in range(ROUNDS)])
        assert {(one.state, one.version) for one in found.values()} == {(CLAIMED, 3)}


async def _claim_all(settings: bytes, name: str) -> list[int]:
    arguments = [settings.decode(), str(CLAIMERS), str(ROUNDS), name]
    process = await asyncio.create_subprocess_exec(sys.executable, racer, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(TAKES):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0
    won: list[int] = json.loads(said)
    return won
