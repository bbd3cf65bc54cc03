"""Claimers in a process of their own: `python race.py <settings as JSON> <claimers> <rounds> <name>`.

In each round every claimer claims the same offer, from its ticket. Prints how many won each round.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta

import msgspec

from bullpen.config import Aws
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.session import opened
from bullpen.engines.system import SystemChance
from bullpen.errors import Conflict
from bullpen.model import instance as instances
from bullpen.model.instance import Instance
from bullpen.model.ticket import Requirements, UsageClass

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NEEDS = Requirements("small", UsageClass.ON_DEMAND)


async def race(aws: Aws, claimers: int, rounds: int, name: str) -> list[int]:
    chance = SystemChance()
    async with opened(aws) as cloud:
        records = DynamoRecords(TableClient(cloud, chance))

        async def claim(at: int, run_id: str) -> bool:
            offer = Instance(f"i-{at:03}", instances.IDLE, 2, NOW + timedelta(hours=1), attested=True)
            event = instances.Claimed(
                at=NOW, by=name, run_id=run_id, round=chance.token(), provision_id="p-1", needs=NEEDS, until=NOW
            )
            try:
                (landed,) = await records.apply(instances.claim(offer, event))
            except Conflict:
                return False
            return bool(landed.run_id == run_id)

        return [
            sum(await asyncio.gather(*(claim(at, f"run-{name}-{n}") for n in range(claimers)))) for at in range(rounds)
        ]


if __name__ == "__main__":
    settings = msgspec.json.decode(sys.argv[1], type=Aws)
    print(json.dumps(asyncio.run(race(settings, int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))))
