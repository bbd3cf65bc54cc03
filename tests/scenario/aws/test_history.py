"""Thousands of ended records on AWS change neither what a release finds nor what it asks for."""

import json
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scenario.aws.pool import CloudPool
from scenario.aws.trap import a_trap
from scenario.test_everyday import ids

ENDED = 8000
BATCH = 25  # items that one request writes
WRITERS = 4
OLD = "i-1000000000000"  # how the ids of all ended records begin, and those of no machine


def bury(pool: CloudPool, ended: str) -> None:
    """Copy the record of an instance that has ended, as it was left, so many times under other ids."""
    key = {"PK": {"S": "TYPE#Instance"}, "SK": {"S": f"ID#{ended}"}}
    found = pool.ledger.dynamodb.get_item(TableName=pool.name, Key=key, ConsistentRead=True)["Item"]
    assert found["runId"] == {"S": "nightly"}
    del found["story"]  # most of its bytes, and no query asks for it
    text = json.dumps(found)
    copies: list[dict[str, Any]] = [json.loads(text.replace(ended, f"{OLD}{number:04x}")) for number in range(ENDED)]

    def write(at: int) -> None:
        puts = [{"PutRequest": {"Item": item}} for item in copies[at : at + BATCH]]
        assert not pool.ledger.dynamodb.batch_write_item(RequestItems={pool.name: puts})["UnprocessedItems"]

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(write, range(0, ENDED, BATCH)))


def release(pool: CloudPool) -> tuple[list[str], Counter[str]]:
    """What it put on offer, and its requests by operation. None names an ended record: how often it looks at the
    signals of its own runners depends on the time that these take, and on nothing in the table."""
    with a_trap(pool) as counted:
        ran = counted.catch(pool, "release", "--run-id", "nightly", "--json").wait()
    assert ran.code == 0, ran
    assert [body for body in counted.bodies if OLD.encode() in body] == []
    return sorted(ran.answer["offered"]), Counter(counted.seen)


def test_eight_thousand_ended_records_change_neither_what_release_finds_nor_what_it_asks(pool: CloudPool) -> None:
    ended, *members = pool.warm(11)
    assert pool.provision("nightly", 11)["created"] == 0
    pool.signal(ended, signal.SIGKILL)
    pool.until(lambda: ended not in pool.existing(), "its machine shuts down with its agent")
    pool.refresh()
    assert pool.live() == members
    young = release(pool)
    assert ids(pool.provision("nightly", 10)) == members
    bury(pool, ended)
    old = release(pool)
    assert (young[0], old[0]) == (members, members)
    assert (old[1]["Query"], old[1]["GetItem"]) == (young[1]["Query"], young[1]["GetItem"])
    assert "Scan" not in old[1]
    pool.settle()
    assert pool.audit() == []
