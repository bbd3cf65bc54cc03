"""Changes and checks as requests of DynamoDB, and what a failed condition means. Pure, and shared with the agent.

A change is one update under

    version = before.version  AND  state = before.state  AND  every guard

and every write carries a `stamp` of its own. A condition that fails on an item with this very stamp has met itself: the
write had landed, and only its answer was lost. For a step that draws a round the round says the same, even to another
process that was given the same change.
"""

from collections.abc import Mapping
from dataclasses import MISSING, field
from typing import Any

from bullpen.engines.aws.dynamodb.entries import derived
from bullpen.engines.aws.dynamodb.items import (
    SHAPES,
    Item,
    Shape,
    Value,
    decode,
    encode,
    encode_line,
    key_of,
    raw_key,
    slot_of,
    text,
)
from bullpen.errors import Conflict, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job
from bullpen.model.job import Job
from bullpen.model.transition import Change, Check, Guard
from bullpen.model.worker import Worker

Request = dict[str, Any]  # the arguments of a call, all but the table's name
IN_LIMIT = 100  # values that DynamoDB compares with at once


@dataclass(slots=True)
class Expression:
    """Names and values under aliases, as they come: no attribute is reserved, no value is part of the text."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def name(self, path: str) -> str:
        """Of an attribute, or of a place inside one: `story.3`."""
        places = path.split(".")
        self.names |= {f"#{place}": place for place in places}
        return ".".join(f"#{place}" for place in places)

    def value(self, value: Value) -> str:
        alias = f":{len(self.values)}"
        self.values[alias] = value
        return alias

    def update(self, attributes: Mapping[str, Value | None]) -> str:
        """Set every attribute, or remove it where it is None."""
        given = [f"{self.name(at)} = {self.value(value)}" for at, value in attributes.items() if value is not None]
        gone = [self.name(at) for at, value in attributes.items() if value is None]
        return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in (("SET", given), ("REMOVE", gone)) if parts)

    def request(self, key: Item, **texts: str) -> Request:
        """`texts` are the expressions, by their names in the request. A condition that fails shows what it met."""
        given: Request = {"Key": key, **texts}
        if "ConditionExpression" in texts:
            given["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if self.names:
            given["ExpressionAttributeNames"] = self.names
        if self.values:
            given["ExpressionAttributeValues"] = self.values
        return given


def update_of(change: Change[Any], stamp: str) -> Request:
    """The update that lands a change, or fails with the item that stands there."""
    expression = Expression()
    shape = SHAPES[type(change.after)]
    condition = _condition(expression, shape, change)
    attributes = _written(shape, change) | derived(change.after) | {"stamp": text(stamp)}
    line = {} if change.line is None else {slot_of(change.line): encode_line(change.line)}
    if change.before.version == 0:
        attributes["story"] = {"M": line}  # whole, even if empty: later lines need a map to lie in
    else:
        attributes |= {f"story.{slot}": told for slot, told in line.items()}
    writes = expression.update(attributes)
    return expression.request(
        key_of(shape.record, change.after.id), UpdateExpression=writes, ConditionExpression=condition
    )


def check_of(check: Check) -> Request:
    """The condition that a record which is not changed must meet."""
    expression = Expression()
    shape = SHAPES[check.kind]
    tests = [f"attribute_exists({expression.name(shape.exists)})"]  # what is absent meets no guard
    tests += [_test(expression, shape, guard) for guard in check.guards]
    return expression.request(key_of(check.kind, check.id), ConditionExpression=" AND ".join(tests))


def companions(change: Change[Any]) -> list[Request]:
    """What must be written with a change: the marker of the worker that holds a job, by which `Jobs.held` finds every
    job of a lost epoch with a consistent read, which no index gives."""
    if not isinstance(change.after, Job):
        return []
    was, is_ = _marker(change.before), _marker(change.after)
    if was == is_:
        return []
    gone = [{"Delete": {"Key": was}}] if was else []
    return [*gone, {"Put": {"Item": is_}}] if is_ else gone


def held_kind(worker_id: str) -> str:
    """The kind of the markers of the jobs that a worker holds."""
    return f"Held#{worker_id}"


def has_landed(change: Change[Any], stamp: str, item: Item) -> bool:
    """Whether the item that failed the condition was written by this very change."""
    if item.get("stamp") == text(stamp):
        return True
    if not change.draws_round:
        return False
    parts = [SHAPES[type(change.after)].fields[name] for name in ("version", "round")]
    return all(item.get(part.attribute) == part.encode(getattr(change.after, part.name)) for part in parts)


def conflict_of(change: Change[Any], item: Item | None) -> Conflict:
    """Why a change does not land on what stands there. Raise Refused if that cannot be read."""
    seen = change.before
    if not item:
        return Conflict(f"{seen.id}: {change.step} found no record")
    found: Any = decode(type(change.after), item)
    if (found.version, found.state) != (seen.version, seen.state):
        wanted = "absent" if seen.version == 0 else f"{seen.state} at version {seen.version}"
        said = f"{change.step} needs it {wanted}; it is {found.state} at version {found.version}"
        return Conflict(f"{seen.id}: {said}", found=found)
    failed = ", ".join(str(guard) for guard in _guards(change) if not guard.holds(found))
    return Conflict(f"{seen.id}: {change.step} needs {failed}", found=found)


def failed_check(check: Check, item: Item | None) -> Conflict:
    if not item:
        return Conflict(f"{check.id} is absent")
    try:
        found: Any = decode(check.kind, item)
    except Refused as refused:
        return Conflict(f"{check.id} cannot be read: {refused}")
    failed = ", ".join(str(guard) for guard in check.guards if not guard.holds(found))
    return Conflict(f"{check.id} must have {failed}", found=found)


def _written(shape: Shape, change: Change[Any]) -> dict[str, Value | None]:
    if change.before.version == 0:
        return dict(encode(change.after))
    difference = change.difference()
    return {shape.fields[name].attribute: shape.fields[name].encode(value) for name, value in difference.items()}


def _condition(expression: Expression, shape: Shape, change: Change[Any]) -> str:
    before = change.before
    if before.version == 0:
        tests = [f"attribute_not_exists({expression.name(shape.exists)})"]
    else:
        seen = (Guard("version", "is", before.version), Guard("state", "is", before.state))
        tests = [_test(expression, shape, guard) for guard in seen]
    return " AND ".join([*tests, *(_test(expression, shape, guard) for guard in _guards(change))])


def _guards(change: Change[Any]) -> tuple[Guard, ...]:
    """Those of the step, and for a worker its token: an agent that beats by itself raises it without a new version, and
    no sweeper may give up a worker over a beat that it has not seen."""
    if not isinstance(change.before, Worker):
        return change.guards
    return (*(guard for guard in change.guards if guard.field != "token"), Guard("token", "is", change.before.token))


def _test(expression: Expression, shape: Shape, guard: Guard) -> str:
    part = shape.fields[guard.field]
    name = expression.name(part.attribute)
    if guard.test == "in":
        values = [expression.value(part.codec.encode(value)) for value in guard.value]
        portions = [values[at : at + IN_LIMIT] for at in range(0, len(values), IN_LIMIT)]
        test = " OR ".join(f"{name} IN ({', '.join(portion)})" for portion in portions)
        test = test if len(portions) == 1 else f"({test})"
        met_by_default = part.default in guard.value
    elif guard.test == "after":
        test, met_by_default = f"{name} > {expression.value(part.codec.encode(guard.value))}", False
    elif guard.value is None:
        return f"attribute_not_exists({name})"
    else:
        test = f"{name} = {expression.value(part.codec.encode(guard.value))}"
        met_by_default = part.default is not MISSING and part.default == guard.value
    # An attribute that is absent reads as its default.
    return f"(attribute_not_exists({name}) OR {test})" if met_by_default else test


def _marker(record: Job) -> Item | None:
    if record.state is not job.RUNNING:
        return None
    return raw_key(held_kind(record.worker), f"{record.epoch:012}#{record.id}")
