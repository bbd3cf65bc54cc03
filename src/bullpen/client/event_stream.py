"""Server-sent events, read piece by piece."""

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import msgspec

from bullpen.lazy_dataclass import dataclass
from bullpen.schema.event import (
    EventKind,
    GoneEvent,
    LeasesEvent,
    PausesEvent,
    ReadyEvent,
    SilentEvent,
    TroubleEvent,
    WorkersEvent,
)
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.job import JobAnswer
from bullpen.schema.operation import Operation

EventData: TypeAlias = (
    InstanceAnswer
    | JobAnswer
    | Operation
    | WorkersEvent
    | SilentEvent
    | PausesEvent
    | LeasesEvent
    | GoneEvent
    | TroubleEvent
    | ReadyEvent
)
KINDS: dict[str, Any] = {  # msgspec takes unions, too
    EventKind.INSTANCE: InstanceAnswer,
    EventKind.JOB: JobAnswer,
    EventKind.WORKERS: WorkersEvent,
    EventKind.OPERATION: Operation,
    EventKind.GONE: GoneEvent,
    EventKind.TROUBLE: TroubleEvent,
    EventKind.SILENT: SilentEvent,
    EventKind.LEASES: LeasesEvent,
    EventKind.PAUSES: PausesEvent,
    EventKind.READY: ReadyEvent,
}


@dataclass(frozen=True, slots=True)
class PoolEvent:
    kind: EventKind
    data: EventData


async def events_in(pieces: AsyncIterator[bytes]) -> AsyncIterator[PoolEvent]:
    """The events of a stream that is cut at any byte. Kinds that this release does not know are left out."""
    rest = b""
    async for piece in pieces:
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line and line[:1] != b":")
            kind = fields.get(b"event", b"").decode()
            if kind in KINDS:
                yield PoolEvent(EventKind(kind), msgspec.json.decode(fields[b"data"], type=KINDS[kind]))
