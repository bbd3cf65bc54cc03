"""The one table as data: keys, sparse indexes, time to live. Refresh makes it from this, Terraform is held to it.

    PK, SK    TYPE#<Kind>, ID#<id>
    run       what belongs to a run: its live instances, its provisions, its jobs
    pool      what a class has on offer, has on its way, or has promised: read without a second request
    due       what must be looked at, and when: deadlines, leases, verifications; and by run, the jobs that wait and the
              instances that serve
    todo      what is owed, and what waits
    live      everything that is not over, for lists and counts

An item is in an index only while it has both of its attributes, so each index is as small as its question.
"""

from typing import Any

SCHEMA = 1
"""The generation of keys, indexes and attributes. A program meets a table of its own generation or leaves it alone."""

SCHEMA_KEY = {"PK": {"S": "TYPE#Meta"}, "SK": {"S": "ID#schema"}}
TTL_ATTRIBUTE = "ttl"
POOL_TAG = "bullpen:pool"  # on table, queues, machines and templates: nothing without the pool's value is touched

# What an instance is made of, all but its story: a claim is decided, and the pool is looked through, by the index
# alone. No attribute that a heartbeat changes is among them: a beat would be written twice.
INSTANCE_ATTRIBUTES = (
    "state",
    "version",
    "threshold",
    "runId",
    "round",
    "provisionId",
    "attested",
    "trustDomain",
    "imageGeneration",
    "resourceClass",
    "instanceType",
    "usageClass",
    "cpu",
    "mem",
    "offeredAt",
    "owes",
    "purgeAt",
    "repository",
)
LIVE_ATTRIBUTES = (*INSTANCE_ATTRIBUTES, "domain")


def _index(name: str, hash_key: str, range_key: str, included: tuple[str, ...] = ()) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}
    if included:
        projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(included)}
    return {"IndexName": name, "KeySchema": _keys(hash_key, range_key), "Projection": projection}


def _keys(hash_key: str, range_key: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_key, "KeyType": "HASH"}, {"AttributeName": range_key, "KeyType": "RANGE"}]


def indexes() -> list[dict[str, Any]]:
    """The global secondary indexes, as CreateTable takes them."""
    return [
        _index("run", "runKey", "runSort"),
        _index("pool", "poolKey", "SK", INSTANCE_ATTRIBUTES),
        _index("due", "dueKey", "dueSort"),
        _index("todo", "todoKey", "todoSort"),
        _index("live", "liveKey", "SK", LIVE_ATTRIBUTES),
    ]


def attribute_definitions(*key_schemas: list[dict[str, str]]) -> list[dict[str, str]]:
    """The types of every attribute that these keys are made of: all are text."""
    names = dict.fromkeys(key["AttributeName"] for schema in key_schemas for key in schema)
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


def table_definition(pool: str) -> dict[str, Any]:
    """The arguments of CreateTable. DynamoDB encrypts every table. Nothing protects it from deletion: what it holds
    lives as long as machines do."""
    keys = _keys("PK", "SK")
    return {
        "TableName": pool,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": keys,
        "AttributeDefinitions": attribute_definitions(keys, *(index["KeySchema"] for index in indexes())),
        "GlobalSecondaryIndexes": indexes(),
        "DeletionProtectionEnabled": False,
        "Tags": [{"Key": POOL_TAG, "Value": pool}],
    }


def ttl_specification(pool: str) -> dict[str, Any]:
    """The arguments of UpdateTimeToLive: terminated records go by themselves, once they are not needed."""
    return {"TableName": pool, "TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}}


def recovery_specification(pool: str) -> dict[str, Any]:
    """The arguments of UpdateContinuousBackups: the table of any second of the last 35 days can be restored."""
    return {"TableName": pool, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
