"""Heartbeats on their way into DynamoDB: nearly every one is a single update, and nothing is read before it.

    UPDATE version, seq, requestId, lease, deadline, updatedAt, activity
    WHERE  seq = the beat's token, active, no replay, from the same place, and the timer need not come earlier

The condition is all that `model.worker.receive` would ask of a plain beat, and no attribute of an index is written: an
entry that moves would cost twice the beat itself. What does not meet it comes back with the item that stands there, and
the model says what the beat does to that.

The heartbeat of an instance must be found without knowing the key of the worker that beats for it. So a worker that
begins to beat (again, or from another instance) leaves its key under the id of the instance, in the same transaction:
as the last that began, and among all that ever did, for one that went before may be the one that goes on.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from bullpen.concurrency import gather_or_cancel
from bullpen.engines.aws.dynamodb.expressions import Expression, Request, update_of
from bullpen.engines.aws.dynamodb.forgotten import ForgottenEpoch
from bullpen.engines.aws.dynamodb.items import ForeignItem, Item, decode, key_of, moment, number, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient, TransactionCancelled, Unmet
from bullpen.engines.aws.dynamodb.writes import DynamoLanding
from bullpen.errors import Conflict, Unavailable
from bullpen.model import worker as workers
from bullpen.model.signal import direct_key
from bullpen.model.transition import Change
from bullpen.model.worker import ABSENT, ACTIVE, Accepted, Beat, Code, Rejected, Worker
from bullpen.structured_log import get_logger

AT_ONCE = 32
"""Beats in flight from one call: half of the client's connections are left to other calls."""

ATTEMPTS = 8
"""Writes tried for one beat. Each that fails has met another writer of the same worker, of which there are few."""

POINTERS_LAST = 90 * 86400
"""Seconds after which the way from an instance to its worker goes by itself: no machine of a pool is kept that long."""

log = get_logger("bullpen.engines.aws")


class DynamoBeats:
    """The beats of `ports.Workers`, on the table of a pool."""

    def __init__(self, table: TableClient) -> None:
        self._table = table
        self._forgotten = ForgottenEpoch(table)

    async def beat(self, beats: Sequence[tuple[str, Beat]]) -> list[Accepted | Rejected]:
        """Keys side by side, the beats of one key one after the other; the answers in order."""
        answers: dict[int, Accepted | Rejected] = {}
        first = [beat.at for _, beat in beats if beat.token == 0]
        forgotten_epoch = await self._forgotten.read(max(first)) if first else 0
        turns = asyncio.Semaphore(AT_ONCE)
        places: dict[str, list[int]] = {}
        for place, (key, _) in enumerate(beats):
            places.setdefault(key, []).append(place)

        async def receive_all(key: str) -> None:
            async with turns:
                for place in places[key]:
                    answers[place] = await self._receive(key, beats[place][1], forgotten_epoch)

        await gather_or_cancel([receive_all(key) for key in places])
        return [answers[place] for place in range(len(beats))]

    async def _receive(self, key: str, beat: Beat, forgotten_epoch: int) -> Accepted | Rejected:
        try:
            stored: Worker | None = None
            if beat.token != 0:  # a first beat renews nothing
                try:
                    return Accepted.of(decode(Worker, await self._table.update(renewal(key, beat))))
                except Unmet as unmet:
                    stored = stored_worker(unmet.item)
            return await self._receive_by_the_model(stored, key, beat, forgotten_epoch)
        except ForeignItem as exc:
            # Its beat fails alone, and its worker goes on under a new key.
            log.warning("heartbeat refused", worker=key, error=f"{exc}. {exc.remedy}")
            return Rejected(Code.UNKNOWN, ABSENT, 0)

    async def _receive_by_the_model(
        self, stored: Worker | None, key: str, beat: Beat, forgotten_epoch: int
    ) -> Accepted | Rejected:
        for _ in range(ATTEMPTS):
            outcome = workers.receive(stored, key, beat, forgotten_epoch)
            if not isinstance(outcome, Change):
                return outcome
            landed = await self._land(outcome)
            if not isinstance(landed, Conflict):
                return Accepted.of(landed, resurrected=outcome.step == workers.resurrect.step)
            stored = landed.found
        raise Unavailable(f"{key}: {ATTEMPTS} writes of its heartbeat conflicted with other writers")

    async def _land(self, change: Change[Worker]) -> Worker | Conflict:
        landing = DynamoLanding(change, self._table.chance.token())
        pointer = _pointer(change)
        try:
            if pointer:
                await self._table.transact([*landing.actions, *pointer], self._table.chance.token())
            else:
                await self._table.update(update_of(change, landing.stamp))
            return change.after
        except Unmet as unmet:
            met = unmet.item
        except TransactionCancelled as cancelled:
            met = cancelled.unmet[0]
        judged: Worker | Conflict = landing.judge(met)
        return judged


def renewal(key: str, beat: Beat) -> Request:
    """The update of a plain beat: as `model.worker.heartbeat`, where the timer stays and the place is the same."""
    expression = Expression()
    deadline = expression.value(text(moment(beat.at + timedelta(seconds=beat.lease))))
    token, one = expression.value(number(beat.token)), expression.value(number(1))
    version, seq, due_at = (expression.name(name) for name in ("rev", "seq", "dueAt"))
    tests = [
        f"{seq} = {token}",
        f"{expression.name('state')} = {expression.value(text(ACTIVE.value))}",
        f"{due_at} <= {deadline}",
    ]
    written = {"lease": number(beat.lease), "updatedAt": text(moment(beat.at)), "requestId": None}
    written["activity"] = text(beat.activity) if beat.activity else None
    if beat.request_id:
        written["requestId"] = text(beat.request_id)
        name = expression.name("requestId")
        tests.append(f"(attribute_not_exists({name}) OR {name} <> {expression.value(text(beat.request_id))})")
    if beat.leaving is not None:  # said before: what was said first stays
        tests.append(f"attribute_exists({expression.name('leaving')})")
    for attribute, place in (("instanceId", beat.instance_id), ("domain", beat.domain)):
        if place:
            tests.append(f"{expression.name(attribute)} = {expression.value(text(place))}")
    steps = [f"{version} = {version} + {one}", f"{seq} = {seq} + {one}", f"{expression.name('deadline')} = {deadline}"]
    writes = expression.update(written).replace("SET ", f"SET {', '.join(steps)}, ", 1)
    return expression.request(key_of(Worker, key), UpdateExpression=writes, ConditionExpression=" AND ".join(tests))


def stored_worker(item: Item | None) -> Worker | None:
    """The worker in what stands under its key; None where that is nothing, or only a pointer or a card."""
    return decode(Worker, item) if item and "seq" in item else None


def _pointer(change: Change[Worker]) -> list[Request]:
    after = change.after
    instance_id, beat_at = after.instance_id, after.beat_at
    begins = change.step != workers.heartbeat.step or change.before.instance_id != instance_id
    if not begins or not instance_id or beat_at is None or after.id == direct_key(instance_id):
        return []
    expression = Expression()
    ttl = number(int(beat_at.timestamp()) + POINTERS_LAST)
    writes = expression.update({"worker": text(after.id), "ttl": ttl})
    writes += f" ADD {expression.name('workers')} {expression.value({'SS': [after.id]})}"
    return [{"Update": expression.request(raw_key("Heartbeat", instance_id), UpdateExpression=writes)}]
