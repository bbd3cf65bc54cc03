"""What agents report, in DynamoDB: `TYPE#WS` is the last signal of an instance, `TYPE#Heartbeat` its pulse.

A heartbeat lies under the id of its instance; where a worker with a key of its own beats for it, under that key, and
the item of the instance names it. Where an instance pointed last is remembered, so that nearly every read asks for all
of it at once. An instance has one agent, which takes another key only when it is denied the one it had; but should two
beat for it, the newest beat of either is its heartbeat.

DynamoDB wakes no process: those that wait look again after a while.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from bullpen.engines.aws.dynamodb.beats import stored_worker
from bullpen.engines.aws.dynamodb.expressions import Expression
from bullpen.engines.aws.dynamodb.forgotten import ForgottenEpoch
from bullpen.engines.aws.dynamodb.items import Item, key_of, moment, name_of, number, parse_moment, raw_key, text
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.engines.aws.dynamodb.writes import land_together
from bullpen.errors import Conflict, Unavailable
from bullpen.model.activity import LONGEST
from bullpen.model.boot import ITEM, failure_kind, machine_arn
from bullpen.model.instance import CREATED, Instance
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import (
    SEQ_MOST,
    SEQ_STEP,
    Heartbeat,
    Kind,
    Pulse,
    Signal,
    beat_directly,
    direct_key,
)
from bullpen.model.worker import CLEANED_UP, Worker
from bullpen.ports import Clock
from bullpen.structured_log import get_logger

SIGNALS_LAST = 7 * 86400
"""Seconds after which a signal goes by itself: no round takes that long."""

REMEMBERED = 10_000
"""Instances whose pointer, and whose last signal, are remembered."""

FOLLOWED = 8
"""Workers of one instance that are asked for: the last that began, and others. No instance costs thousands of reads."""

LONGEST_KEY = 1024  # bytes that DynamoDB takes for a sort key

ATTEMPTS = 8

PARTS = ("value", "round", "seq", "text", "updatedAt", "activity", "leaving", "state", "worker", "workers")

T = TypeVar("T")

log = get_logger("bullpen.engines.aws")


class DynamoSignals:
    """`ports.Signals` on the table of a pool."""

    def __init__(self, table: TableClient, clock: Clock, failures: "BootFailures | None" = None) -> None:
        """`failures` are those of machines that may write no signals; None where they may."""
        self._table = table
        self._clock = clock
        self._forgotten = ForgottenEpoch(table)
        self._failures = failures
        self._pointers: dict[str, tuple[str, ...]] = {}  # instance → the workers that may beat for it
        self._signals: dict[str, Signal] = {}  # the last of each instance that was read and believed

    async def report(self, signal: Signal) -> bool:
        expression = Expression()
        now = self._clock.now()
        stamp = text(self._table.chance.token())
        said = {
            "value": {"M": {"signal": text(signal.kind.value), "runId": text(signal.run_id)}},
            "round": text(signal.round),
            "seq": number(signal.seq),
            "text": text(signal.text),
            "updatedAt": text(moment(now)),
            "ttl": number(int(now.timestamp()) + SIGNALS_LAST),
            "stamp": stamp,
        }
        writes, seq = expression.update(said), expression.name("seq")
        # As `Signal.follows` says, where a number that no agent reaches stands for none.
        low, high = expression.value(number(signal.seq - SEQ_STEP)), expression.value(number(signal.seq))
        condition = f"({seq} < {high} AND {seq} >= {low})"
        if signal.follows(0):
            condition += f" OR attribute_not_exists({seq}) OR {seq} > {expression.value(number(SEQ_MOST))}"
        key = raw_key("WS", signal.instance_id)
        try:
            await self._table.update(expression.request(key, UpdateExpression=writes, ConditionExpression=condition))
        except Unmet as unmet:
            # The stamp of this write: it was stored, the answer was lost, and the client's repeat met it.
            return unmet.item is not None and unmet.item.get("stamp") == stamp
        return True

    async def beat(self, heartbeat: Heartbeat) -> bool:
        """On behalf of an agent that sends bare heartbeats: by this clock, so no sweeper has to accept it later."""
        key = key_of(Worker, direct_key(heartbeat.instance_id))
        for _ in range(ATTEMPTS):
            stored = stored_worker(await self._table.get(key))
            epoch = await self._forgotten.read(self._clock.now()) if stored is None else 0
            change = beat_directly(heartbeat, stored, epoch)
            if change is None:
                return False
            seen = replace(change, after=replace(change.after, request_id=str(heartbeat.seq)))
            try:
                await land_together(self._table, [seen], ())
            except Conflict:
                continue
            return True
        raise Unavailable(f"{heartbeat.instance_id}: {ATTEMPTS} writes of its heartbeat conflicted with other writers")

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        keys = [raw_key(kind, id) for id in ids for kind in ("WS", "Heartbeat")]
        keys += [key_of(Worker, worker) for id in ids for worker in self._pointers.get(id, ())]
        found = {name_of(item): item for item in await self._table.get_many(keys, PARTS)}
        if news := [key_of(Worker, worker) for worker in self._follow(ids, found)]:
            found |= {name_of(item): item for item in await self._table.get_many(news, PARTS)}
        failed = await self._failed(ids, found)
        return {id: failed.get(id) or self._pulse(id, found) for id in ids}

    async def wait(self, timeout: float) -> None:
        await asyncio.sleep(timeout)

    async def _failed(self, ids: Sequence[str], found: dict[str, Item]) -> dict[str, Pulse]:
        """Those that say why they have no agent. Asked are only those that were never heard: an agent speaks for
        itself."""
        unheard = [id for id in ids if not any(name_of(raw_key(kind, id)) in found for kind in ("WS", "Heartbeat"))]
        if self._failures is None or not unheard:
            return {}
        return {id: Pulse(signal) for id, signal in (await self._failures.read(unheard)).items()}

    def _follow(self, ids: Sequence[str], found: dict[str, Item]) -> list[str]:
        """Remember where these instances point; the workers among them that were not asked for."""
        news = []
        for id in ids:
            pointed, known = _pointed(found.get(name_of(raw_key("Heartbeat", id)), {})), self._pointers.get(id, ())
            if pointed and pointed != known:
                news += [worker for worker in pointed if worker not in known]
                _remember(self._pointers, id, pointed)
        return news

    def _pulse(self, id: str, found: dict[str, Item]) -> Pulse:
        keys = [raw_key("Heartbeat", id), *(key_of(Worker, worker) for worker in self._pointers.get(id, ()))]
        beats = [beat for key in keys if (beat := _heartbeat(id, found.get(name_of(key)))) is not None]
        newest = max(beats, key=lambda beat: beat.at, default=None)
        return Pulse(self._believed(_signal(id, found.get(name_of(raw_key("WS", id))))), newest)

    def _believed(self, signal: Signal | None) -> Signal | None:
        """The signal, unless its number runs ahead too far within its round: then the last one that did not. Machines
        that write signals by themselves can write those of others."""
        if signal is None:
            return None
        known = self._signals.get(signal.instance_id)
        if known is not None and known.round == signal.round and signal.seq > known.seq + SEQ_STEP:
            log.debug("late signal rejected", instance=known.instance_id, seq=signal.seq, known=known.seq)
            return known
        _remember(self._signals, signal.instance_id, signal)
        return signal


class BootFailures:
    """Why machines of a served pool have no agent, as they say themselves. See `bullpen.model.boot`.

    A machine that boots knows neither its record nor the record's round, and may read neither. So its word counts only
    while its record is still `created`, and as a signal of that round. `role` is the ARN of the machines' role.
    """

    def __init__(self, table: TableClient, role: str) -> None:
        self._table = table
        self._account = role.partition(":iam::")[2].partition(":")[0]

    async def read(self, ids: Sequence[str]) -> dict[str, Signal]:
        """The failures among these machines, by id: one read, and a second one only if there are any."""
        region = await self._table.region()
        keys = {id: raw_key(failure_kind(machine_arn(region, self._account, id)), ITEM) for id in ids}
        items = {item["PK"]["S"]: item for item in await self._table.get_many([*keys.values()], ("text",))}
        said = {id: _boot_text(items[key["PK"]["S"]]) for id, key in keys.items() if key["PK"]["S"] in items}
        if not said:
            return {}
        names = {name_of(key_of(Instance, id)): id for id in said}
        records = await self._table.get_many([key_of(Instance, id) for id in said], ("round", "runId", "state"))
        return {
            (id := names[name_of(one)]): Signal(id, Kind.FAILED, one["runId"]["S"], one["round"]["S"], 1, said[id])
            for one in records
            if one["state"]["S"] == CREATED.value
        }


def _remember(known: dict[str, T], id: str, news: T) -> None:
    """As the newest of a bounded number."""
    known.pop(id, None)
    while len(known) >= REMEMBERED:
        del known[next(iter(known))]
    known[id] = news


def _pointed(item: Item) -> tuple[str, ...]:
    """The workers that an instance's item names, first the one that began to beat last."""
    last, others = item.get("worker", {}).get("S", ""), item.get("workers", {}).get("SS", ())
    named = [worker for worker in dict.fromkeys((last, *sorted(others))) if worker] if last else []
    # It may point anywhere: a key that DynamoDB does not take would fail the read of all instances.
    return tuple(one for one in named if len(key_of(Worker, one)["SK"]["S"].encode()) <= LONGEST_KEY)[:FOLLOWED]


def _signal(id: str, item: Item | None) -> Signal | None:
    if item is None:
        return None
    try:
        value = item["value"]["M"]
        kind, run_id = Kind(value["signal"]["S"]), value["runId"]["S"]
        said = item.get("text", {}).get("S", "")[:REASON_LENGTH]  # an agent may write any
        seq = int(item["seq"]["N"])
        if not 0 < seq <= SEQ_MOST:
            raise ValueError(f"seq {seq} is out of bounds")
        return Signal(id, kind, run_id, item["round"]["S"], seq, said)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        log.warning("signal ignored: another program wrote it", instance=id, error=repr(exc))
        return None


def _boot_text(item: Item) -> str:
    """A machine may write anything."""
    said = item.get("text", {}).get("S", "")
    return said[:REASON_LENGTH] or "the boot failed and gave no reason"


def _heartbeat(id: str, item: Item | None) -> Heartbeat | None:
    if item is None or "seq" not in item or item.get("state") == text(CLEANED_UP.value):
        return None
    try:
        activity = item.get("activity", {}).get("S", "")[:LONGEST]  # an agent may write any
        leaving = parse_moment(item["leaving"]["S"]) if "leaving" in item else None
        return Heartbeat(id, parse_moment(item["updatedAt"]["S"]), int(item["seq"]["N"]), activity, leaving)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        log.warning("heartbeat ignored: another program wrote it", instance=id, error=repr(exc))
        return None
