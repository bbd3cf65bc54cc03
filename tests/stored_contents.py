"""Everything that an engine has stored, to be compared before and after something that must change nothing."""

from pathlib import Path
from typing import Any

from bullpen.config import Aws
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import Cloud
from bullpen.engines.memory import Memory


def of_memory(memory: Memory) -> dict[str, str]:
    """What every service has, spelt out."""
    inside = (memory, memory.tables, memory.reports, memory.ledger, memory.shelf, memory.stored_sources, memory.yard)
    fields = {f"{type(one).__name__}.{name}": repr(value) for one in inside for name, value in _fields(one)}
    queues = {name: repr(sorted(queue.bodies())) for name, queue in memory.queues.items()}
    return fields | queues


def _fields(one: object) -> list[tuple[str, object]]:
    names = getattr(one, "__slots__", None) or vars(one)
    return [(name, value) for name in names if not callable(value := getattr(one, name))]


def of_home(home: Path) -> dict[str, bytes]:
    """Every byte of the database. Readers note themselves in the shared memory beside it, which is not stored."""
    return {one.name: one.read_bytes() for one in sorted(home.glob("bullpen.db*")) if not one.name.endswith("-shm")}


async def of_table(cloud: Cloud, aws: Aws) -> list[str]:
    """Every attribute of every item of the table."""
    dynamodb = await cloud.client("dynamodb")
    found: list[str] = []
    more: dict[str, Any] = {}
    while True:
        page = await call(dynamodb, "scan", TableName=aws.pool, ConsistentRead=True, **more)
        found += [repr(sorted(item.items())) for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            return sorted(found)
        more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
