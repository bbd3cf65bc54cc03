"""Compares an existing table with the one in `schema.py`. Pure.

What is missing is a gap, and refresh adds it. What is different is an error: keys and projections cannot be changed in
place, and refresh must not change a table with another meaning.
"""

from collections.abc import Mapping
from typing import Any

from bullpen.engines.aws.dynamodb.schema import SCHEMA, TTL_ATTRIBUTE, indexes, table_definition
from bullpen.errors import ConfigError, Outdated
from bullpen.ports import Gap

MAKE_TABLE = "make table"
MAKE_INDEX = "make index"
SWITCH_BILLING = "switch billing"
EXPIRE = "let expire"
RECOVER = "enable recovery"
MARK = "mark table"


def missing_table(pool: str) -> list[Gap]:
    """All that is to be done where there is no table at all."""
    return [
        Gap(MAKE_TABLE, pool, "it does not exist", blocks=True),
        Gap(EXPIRE, pool, _NO_EXPIRY),
        Gap(RECOVER, pool, _NO_RECOVERY),
        Gap(MARK, pool, _NO_MARK),
    ]


def table_gaps(pool: str, table: Mapping[str, Any], ttl: Mapping[str, Any]) -> list[Gap]:
    """What DescribeTable and DescribeTimeToLive leave to be done. Raise ConfigError for a table of another schema."""
    if table.get("TableStatus") == "CREATING":
        return [Gap(MAKE_TABLE, pool, "it is being created", blocks=True), *missing_table(pool)[1:]]
    if different := [*_other_keys(pool, table), *_other_indexes(table), *_other_expiry(ttl)]:
        raise of_another_schema(pool, "; ".join(different))
    return [*_missing_indexes(pool, table), *_billing(pool, table), *expiry_gaps(pool, ttl)]


def expiry_gaps(pool: str, ttl: Mapping[str, Any]) -> list[Gap]:
    is_on = ttl.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    return [] if is_on else [Gap(EXPIRE, pool, _NO_EXPIRY)]


def recovery_gaps(pool: str, backups: Mapping[str, Any] | None) -> list[Gap]:
    """`backups` is what DescribeContinuousBackups says; None where it does not answer."""
    if backups is None:
        return []
    is_on = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED"
    return [] if is_on else [Gap(RECOVER, pool, _NO_RECOVERY)]


def mark_gaps(pool: str, item: Mapping[str, Any] | None) -> list[Gap]:
    """What the mark of the schema's generation leaves to be done."""
    heed_mark(pool, item)
    return [Gap(MARK, pool, _NO_MARK)] if item is None else []


def heed_mark(pool: str, item: Mapping[str, Any] | None) -> None:
    """Raise ConfigError for the mark of another generation; a table without one may be used."""
    generation = item.get("schema", {}).get("N", "") if item is not None else str(SCHEMA)
    if generation == str(SCHEMA):
        return
    found = f"its item TYPE#Meta/ID#schema says {generation or 'nothing'}, this program knows {SCHEMA}"
    if generation.isdigit() and int(generation) > SCHEMA:
        raise Outdated(f"DynamoDB table {pool} was created by a newer Bullpen: {found}", remedy=_LEFT)
    raise of_another_schema(pool, found)


def of_another_schema(pool: str, found: str) -> ConfigError:
    return ConfigError(f"DynamoDB table {pool} has another schema: {found}", remedy=_LEFT)


_LEFT = "Use the version of Bullpen that created it, or name another table with aws.pool. Nothing was changed."
_NO_EXPIRY = "finished records would never expire"
_NO_RECOVERY = "point-in-time recovery is off: a damaged table could not be restored"
_NO_MARK = "it has no schema version"


def _other_keys(pool: str, table: Mapping[str, Any]) -> list[str]:
    wanted = table_definition(pool)
    if _keys(table) != _keys(wanted):
        return [f"its keys are {_spelt(_keys(table))} instead of {_spelt(_keys(wanted))}"]
    types = {one["AttributeName"]: one["AttributeType"] for one in table.get("AttributeDefinitions", ())}
    return [
        f"its attribute {one['AttributeName']} is of type {types[one['AttributeName']]} instead of S"
        for one in wanted["AttributeDefinitions"]
        if types.get(one["AttributeName"], "S") != "S"
    ]


def _other_indexes(table: Mapping[str, Any]) -> list[str]:
    present = _indexes(table)
    return [
        f"its index {index['IndexName']} has other keys or attributes"
        for index in indexes()
        if (found := present.get(index["IndexName"])) is not None and _shape(found) != _shape(index)
    ]


def _other_expiry(ttl: Mapping[str, Any]) -> list[str]:
    attribute = ttl.get("AttributeName", TTL_ATTRIBUTE)
    return [] if attribute == TTL_ATTRIBUTE else [f"its items expire by {attribute} instead of {TTL_ATTRIBUTE}"]


def _missing_indexes(pool: str, table: Mapping[str, Any]) -> list[Gap]:
    present = _indexes(table)
    states = {index["IndexName"]: present.get(index["IndexName"], {}).get("IndexStatus") for index in indexes()}
    missing = {name: state for name, state in states.items() if state not in ("ACTIVE", "UPDATING")}
    return [
        Gap(MAKE_INDEX, f"{pool}/{name}", f"it is {state.lower()}" if state else "it does not exist", blocks=True)
        for name, state in missing.items()
    ]


def _billing(pool: str, table: Mapping[str, Any]) -> list[Gap]:
    mode = table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED")
    reason = "it has a fixed throughput, which a burst of runners exceeds"
    return [] if mode == "PAY_PER_REQUEST" else [Gap(SWITCH_BILLING, pool, reason)]


def _keys(described: Mapping[str, Any]) -> list[tuple[str, str]]:
    return sorted((key["KeyType"], key["AttributeName"]) for key in described.get("KeySchema", ()))


def _spelt(keys: list[tuple[str, str]]) -> str:
    return ", ".join(name for _, name in keys) or "none"


def _indexes(table: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {index["IndexName"]: index for index in table.get("GlobalSecondaryIndexes", ())}


def _shape(index: Mapping[str, Any]) -> tuple[object, ...]:
    projection = index.get("Projection", {})
    return _keys(index), projection.get("ProjectionType"), sorted(projection.get("NonKeyAttributes", ()))
