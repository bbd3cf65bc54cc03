"""How changes land: one by one update, several in a transaction, each with as few requests as that takes.

A write may land and its answer be lost; the client then repeats it, and the repeat fails on what the first attempt
wrote. So every failed condition is judged by the item that it met: its own write is success, anything else a Conflict.

An item that cannot be read or written is a Conflict as well, without a record and with the refusal as its text: it
concerns its own change, and must not fail the others.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from bullpen.engines.aws.dynamodb.expressions import (
    Request,
    check_of,
    companions,
    conflict_of,
    failed_check,
    has_landed,
    update_of,
)
from bullpen.engines.aws.dynamodb.items import Item, decode, key_of
from bullpen.engines.aws.dynamodb.table import TableClient, TransactionCancelled, Unmet, Unwritable
from bullpen.errors import Conflict, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model.transition import Change, Check, Guard
from bullpen.ports import TOGETHER_LIMIT
from bullpen.structured_log import get_logger

T = TypeVar("T")
log = get_logger("bullpen.engines.aws")

ROUNDS = 3
"""Transactions tried for one portion of `land_each`, each without those that failed before. A portion that still meets
rivals then is better sent one by one."""


@dataclass(frozen=True, slots=True)
class DynamoLanding:
    """A change on its way, under the stamp by which it knows itself. The stamp is the change's own: two changes of one
    record under one stamp would take each other's write for theirs."""

    change: Change[Any]
    stamp: str

    @property
    def actions(self) -> list[Request]:
        return [{"Update": update_of(self.change, self.stamp)}, *companions(self.change)]

    def judge(self, item: Item | None) -> Any | Conflict:
        """What a failed condition means: the record, if this change had landed; or a Conflict. Raise Refused if what
        stands there cannot be read."""
        if item and has_landed(self.change, self.stamp, item):
            return decode(type(self.change.after), item)
        return conflict_of(self.change, item)


async def land_together(table: TableClient, changes: Sequence[Change[Any]], checks: Sequence[Check]) -> list[Any]:
    """All or, with a Conflict, none; the records as stored, in order."""
    if len(changes) + len(checks) > TOGETHER_LIMIT:
        raise ValueError(f"{len(changes)} changes and {len(checks)} checks together, at most {TOGETHER_LIMIT}")
    if len({(type(change.after), change.after.id) for change in changes}) < len(changes):
        raise ValueError("two changes of one record cannot land together")
    landings = _landings(table, changes)
    if len(landings) == 1 and not checks:
        return [_record(await _land_alone(table, landings[0]))]
    landed: dict[str, Any] = {}
    pending = landings
    try:
        while pending and (failures := await _transact(table, pending, checks)):
            # One that had landed before (its caller tries again) is no obstacle for the others: they go without it.
            landed |= {pending[at].stamp: _record(judged) for at, judged in failures.items()}
            pending = [landing for landing in pending if landing.stamp not in landed]
    except Unwritable as refused:
        raise Conflict(str(refused)) from refused
    landed |= await _as_stored(table, pending)
    return [landed[landing.stamp] for landing in landings]


async def land_each(table: TableClient, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
    """Each on its own; Conflicts are values, in order."""
    landings = _landings(table, changes)
    outcomes: dict[str, Any | Conflict] = {}
    for wave in _waves(landings):
        # What may come from a ticket goes alone: only the answer to an update shows the record as it is stored.
        alone = [[landing] for landing in wave if landing.change.always]
        portions = [*alone, *_portions([landing for landing in wave if not landing.change.always])]
        for answer in await _all([_land_portion(table, portion) for portion in portions]):
            outcomes |= answer
    return [outcomes[landing.stamp] for landing in landings]


async def _land_portion(table: TableClient, portion: list[DynamoLanding]) -> dict[str, Any | Conflict]:
    """By stamp. In one transaction, sent again without those whose condition failed; in the end one by one."""
    outcomes: dict[str, Any | Conflict] = {}
    for _ in range(ROUNDS):
        if len(portion) < 2:
            break
        try:
            failures = await _transact(table, portion)
        except Unwritable:
            break  # one of them: alone, each answers for itself
        outcomes |= {portion[at].stamp: judged for at, judged in failures.items()}
        if not failures:
            return outcomes | {landing.stamp: landing.change.after for landing in portion}
        portion = [landing for landing in portion if landing.stamp not in outcomes]
    answers = await _all([_land_alone(table, landing) for landing in portion])
    return outcomes | {landing.stamp: answer for landing, answer in zip(portion, answers, strict=True)}


async def _land_alone(table: TableClient, landing: DynamoLanding) -> Any | Conflict:
    change = landing.change
    try:
        if companions(change):
            failures = await _transact(table, [landing])
            return failures[0] if failures else change.after
        stored = await table.update(update_of(change, landing.stamp))
    except Unmet as unmet:
        return _judged(landing, unmet.item)
    except Unwritable as refused:
        return _useless(change, refused)
    return _judged(landing, stored)  # it has landed, maybe on an item that cannot be used


def _judged(landing: DynamoLanding, item: Item | None) -> Any | Conflict:
    try:
        return landing.judge(item)
    except Refused as refused:
        return _useless(landing.change, refused)


def _useless(change: Change[Any], refused: Refused) -> Conflict:
    log.warning("item cannot be used", record=change.after.id, step=change.step, error=refused, remedy=refused.remedy)
    return Conflict(f"{change.after.id}: {change.step} found an item that cannot be used: {refused}")


async def _transact(
    table: TableClient, landings: Sequence[DynamoLanding], checks: Sequence[Check] = ()
) -> dict[int, Any | Conflict]:
    """Land all and return nothing; or none, and return what the failed ones met, by place. A failed check is raised."""
    # A transaction names an item once: what is asked of one record is asked together, and once.
    guards: dict[tuple[type[Any], str], list[Guard]] = {}
    for check in checks:
        known = guards.setdefault((check.kind, check.id), [])
        known += [guard for guard in check.guards if guard not in known]
    asked = [Check(kind, id, tuple(together)) for (kind, id), together in guards.items()]
    actions: list[Request] = [{"ConditionCheck": check_of(check)} for check in asked]
    places: dict[int, int] = {}  # of an action → of its landing
    for place, landing in enumerate(landings):
        places[len(actions)] = place
        actions += landing.actions
    try:
        await table.transact(actions, table.chance.token())
    except TransactionCancelled as cancelled:
        for at, item in cancelled.unmet.items():
            if at < len(asked):
                raise failed_check(asked[at], item) from cancelled
        return {places[at]: _judged(landings[places[at]], item) for at, item in cancelled.unmet.items()}
    return {}


async def _as_stored(table: TableClient, landings: Sequence[DynamoLanding]) -> dict[str, Any]:
    """By stamp, the records that a transaction has written, which answers nothing. What may come from a ticket is read,
    for it may know less than what is stored."""
    stored = {landing.stamp: landing.change.after for landing in landings}
    for landing in landings:
        if landing.change.always:
            after = landing.change.after
            found = await table.get(key_of(type(after), after.id))
            is_own = found and has_landed(landing.change, landing.stamp, found)
            if is_own and not isinstance(judged := _judged(landing, found), Conflict):
                stored[landing.stamp] = judged  # all have landed, whatever can be read of them
    return stored


async def _all(landings: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All are awaited before the first error is raised: no write goes on behind the caller's back. A Conflict is no
    error here but an answer."""
    outcomes = await asyncio.gather(*landings, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, Conflict):
            raise outcome
    return outcomes  # type: ignore[return-value]


def _landings(table: TableClient, changes: Sequence[Change[Any]]) -> list[DynamoLanding]:
    return [DynamoLanding(change, table.chance.token()) for change in changes]


def _record(outcome: Any | Conflict) -> Any:
    if isinstance(outcome, Conflict):
        raise outcome
    return outcome


def _waves(landings: Sequence[DynamoLanding]) -> list[list[DynamoLanding]]:
    """One after the other where they change the same record, and all else at once."""
    waves: list[list[DynamoLanding]] = []
    seen: Counter[tuple[type[Any], str]] = Counter()
    for landing in landings:
        record = type(landing.change.after), landing.change.after.id
        if seen[record] == len(waves):
            waves.append([])
        waves[seen[record]].append(landing)
        seen[record] += 1
    return waves


def _portions(landings: Sequence[DynamoLanding]) -> list[list[DynamoLanding]]:
    """As many at a time as a transaction takes, with what must be written beside them."""
    portions: list[list[DynamoLanding]] = []
    room = 0
    for landing in landings:
        size = 1 + len(companions(landing.change))
        if size > room:
            portions.append([])
            room = TOGETHER_LIMIT
        portions[-1].append(landing)
        room -= size
    return portions
