"""What only the agent's store in DynamoDB promises; what all do is in tests/conformance/test_agent_store.py."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.aws.dynamodb import DynamoDB, DynamoRefused, DynamoThrottled, DynamoUnanswered
from bullpen.agent.config import Config
from bullpen.agent.progress import InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import NoCredentials, OwnList, StoreUnreachable
from bullpen.agent.store.dynamodb import ATTEMPTS, RUNNING_EVERY, WAITING_EVERY, DynamoStore
from bullpen.engines.aws.dynamodb import entries, items
from bullpen.engines.aws.dynamodb.schema import table_definition
from bullpen.model import instance, worker
from bullpen.model.instance import Instance
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.worker import Worker
from fakes.java_engines import Engines

INSTANCE = "i-00000000000000aa"
KEY = f"{INSTANCE}/direct"
THRESHOLD = datetime(2030, 1, 1, 12, 0, 0, 500000, tzinfo=UTC)
SECRET_KEY = items.raw_key("Secret", "github")
CLAIMED = InstanceRecord(InstanceState.CLAIMED, "run-1", "a1", THRESHOLD.timestamp())


class Table(DynamoDB):
    """The table, and how the way to it may fail: `fails` is raised in place of an answer, after the request was carried
    out if `lands`; `sent_again` repeats a request that has landed, as happens on a connection that went stale."""

    fails: Exception | None = None
    lands = False
    sent_again = False
    requests = 0

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        self.requests += 1
        failure, self.fails = self.fails, None
        if failure is not None:
            if self.lands:
                super().call(operation, **request)
            raise failure
        if self.sent_again:
            self.sent_again = False
            super().call(operation, **request)
        return super().call(operation, **request)


@pytest.fixture(scope="module")
def table_name(engines: Engines) -> str:
    name = f"agent-{secrets.token_hex(4)}"
    client = DynamoDB("eu-central-1", lambda: ("key", "secret", ""), engines.dynamodb, patience=30.0)
    client.call("CreateTable", **table_definition(name))
    client.close()
    return name


@pytest.fixture
def table(engines: Engines, table_name: str) -> Iterator[Table]:
    table = Table("eu-central-1", lambda: ("key", "secret", ""), engines.dynamodb, patience=30.0)
    yield table
    for kind in ("Instance", "Heartbeat", "WS", "Registration"):
        DynamoDB.call(table, "DeleteItem", TableName=table_name, Key=items.raw_key(kind, INSTANCE))
    DynamoDB.call(table, "DeleteItem", TableName=table_name, Key=SECRET_KEY)
    table.close()


@pytest.fixture
def forgotten() -> list[str]:
    """What became of refused credentials."""
    return []


@pytest.fixture
def store(table: Table, table_name: str, forgotten: list[str]) -> DynamoStore:
    config = Config(INSTANCE, Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 1.0, (), table=table_name, domain="zone-a")
    return DynamoStore(config, table, lambda: forgotten.append("forgotten"))


def stored(store: DynamoStore, kind: str) -> dict[str, Any] | None:
    key = items.raw_key(kind, INSTANCE)
    found = DynamoDB.call(store._client, "GetItem", TableName=store._config.table, Key=key, ConsistentRead=True)
    return found.get("Item")


def put(store: DynamoStore, kind: str, item: dict[str, Any]) -> None:
    whole = items.raw_key(kind, INSTANCE) | item
    DynamoDB.call(store._client, "PutItem", TableName=store._config.table, Item=whole)


def put_record(store: DynamoStore, **changes: Any) -> None:
    record = Instance(INSTANCE, instance.CLAIMED, 3, THRESHOLD, run_id="run-1", round="a1", trust_domain="main")
    put(store, "Instance", items.encode(replace(record, **changes)))


def put_worker(store: DynamoStore, **changes: Any) -> None:
    known = Worker(KEY, worker.ACTIVE, 2, instance_id=INSTANCE, epoch=1, token=7)
    put(store, "Heartbeat", items.encode(replace(known, **changes)))


# -------------------------------------------------------------------------------------------------------------- looking


@pytest.mark.parametrize("spoilt", [{"threshold": {"S": "soon"}}, {"state": {"S": "asleep"}}, {"state": {"N": "1"}}])
def test_a_record_that_the_agent_cannot_read_is_no_reason_to_stop(store: DynamoStore, spoilt: dict[str, Any]) -> None:
    put_record(store)
    put(store, "Instance", {"version": {"N": "1"}, "threshold": {"S": "2030-01-01T00:00:00Z"}} | spoilt)
    with pytest.raises(StoreUnreachable, match="Instance"):
        store.read_record()


def test_the_record_is_read_often_while_a_provision_may_claim_the_instance_and_seldom_while_it_runs(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("bullpen.agent.store.dynamodb.time.monotonic", lambda: now)
    for state, every in ((instance.IDLE, WAITING_EVERY), (instance.RUNNING, RUNNING_EVERY)):
        put_record(store, state=state)
        assert store.has_changed()
        store.read_record()
        now += every - 0.01
        assert not store.has_changed()
        now += 0.02
        assert store.has_changed()


# -------------------------------------------------------------------------------------------------------------- beating


def test_a_first_beat_is_a_worker_that_sweepers_find(store: DynamoStore) -> None:
    grant = store.beat(None)
    assert (grant.holder, grant.retired) == (LeaseHolder(KEY, 1), False)
    assert 4.5 <= grant.next_in <= 5.0
    found = stored(store, "Heartbeat")
    assert found is not None
    read = items.decode(Worker, found)
    assert (read.id, read.state, read.epoch, read.token, read.lease) == (KEY, worker.ACTIVE, 1, 1, 15.0)
    assert (read.instance_id, read.domain, read.deadline, read.leaving) == (INSTANCE, "zone-a", None, None)
    assert found["value"] == {"S": "PING"}
    assert {name: found[name] for name in ("dueKey", "dueSort", "liveKey")} == {
        name: entries.derived(read)[name] for name in ("dueKey", "dueSort", "liveKey")
    }


def test_a_beat_moves_no_timer_that_a_sweeper_has_set(store: DynamoStore) -> None:
    store.beat(None)
    found = stored(store, "Heartbeat")
    assert found is not None
    put(store, "Heartbeat", found | {"dueSort": {"S": "2030"}, "epoch": {"N": "4"}, "version": {"N": "9"}})
    assert store.beat(None).holder == LeaseHolder(KEY, 4)
    found = stored(store, "Heartbeat")
    assert found is not None
    assert (found["dueSort"], found["version"], found["seq"]) == ({"S": "2030"}, {"N": "9"}, {"N": "2"})


def test_beats_continue_the_sequence_of_an_earlier_process(store: DynamoStore) -> None:
    put_worker(store, token=41)
    store.beat(None)
    found = stored(store, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "42"}


def test_a_beat_says_when_the_machine_will_be_taken(store: DynamoStore) -> None:
    store.beat(None)
    store.beat(None, THRESHOLD)
    found = stored(store, "Heartbeat")
    assert found is not None
    read = items.decode(Worker, found)
    assert read.leaving == THRESHOLD
    leaving = {name: found[name] for name in ("runKey", "runSort")}
    expected = entries.derived(read)
    assert leaving == {name: expected[name] for name in leaving}, "it is not found among those that leave"


def test_a_beat_does_not_bring_back_what_is_cleaned_up(store: DynamoStore) -> None:
    put_worker(store, state=worker.CLEANED_UP)
    before = stored(store, "Heartbeat")
    store.beat(None)
    assert stored(store, "Heartbeat") == before


@pytest.mark.parametrize("lands", [True, False])
def test_after_a_beat_without_an_answer_the_next_one_counts(store: DynamoStore, table: Table, lands: bool) -> None:
    store.beat(None)
    table.fails, table.lands = DynamoUnanswered("no answer"), lands
    with pytest.raises(StoreUnreachable, match="no answer"):
        store.beat(None)
    assert not store.beat(None).retired
    found = stored(store, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "3"}


def test_a_beat_sent_again_over_a_new_connection_is_the_same_beat(store: DynamoStore, table: Table) -> None:
    table.sent_again = True
    store.beat(None)
    assert table.requests == 1
    found = stored(store, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "1"}


def test_a_beat_is_one_request(store: DynamoStore, table: Table) -> None:
    for _ in range(3):
        store.beat(None)
    assert table.requests == 3


# ------------------------------------------------------------------------------------------------------------ reporting


def test_a_signal_names_its_kind_and_its_round(store: DynamoStore) -> None:
    store.report(SignalKind.CLAIM_SEEN, CLAIMED, "")
    store.report(SignalKind.REG_FAILED, CLAIMED, "x" * (REASON_LENGTH + 1))
    found = stored(store, "WS")
    assert found is not None
    assert found["value"] == {"M": {"signal": {"S": "UD_REG_FAILED"}, "runId": {"S": "run-1"}}}
    assert (found["round"], found["seq"], found["text"]) == ({"S": "a1"}, {"N": "2"}, {"S": "x" * REASON_LENGTH})
    assert datetime.fromisoformat(found["updatedAt"]["S"]) <= datetime.now(UTC)
    assert int(found["ttl"]["N"]) > (datetime.now(UTC) + timedelta(days=6)).timestamp()


def test_a_signal_sent_again_over_a_new_connection_is_the_same_signal(store: DynamoStore, table: Table) -> None:
    table.sent_again = True
    store.report(SignalKind.REG_OK, CLAIMED, "")
    assert table.requests == 1


def test_a_signal_of_the_same_number_by_another_does_not_pass_for_the_agent_s_own(store: DynamoStore) -> None:
    put(store, "WS", {"seq": {"N": "1"}, "round": {"S": "a0"}, "updatedAt": {"S": "2020-01-01T00:00:00.000000Z"}})
    store.report(SignalKind.REG_OK, CLAIMED, "")
    found = stored(store, "WS")
    assert found is not None
    assert (found["seq"], found["round"]) == ({"N": "2"}, {"S": "a1"})


# ---------------------------------------------------------------------------------------------------------- registering


def test_a_registration_carries_the_label_of_its_run(store: DynamoStore) -> None:
    put_record(store)
    assert store.register(CLAIMED) is OwnList.LISTED
    found = stored(store, "Registration")
    assert found is not None
    assert (found["label"], found["round"], found["busy"]) == ({"S": "run-1"}, {"S": "a1"}, {"BOOL": False})
    store.deregister()
    assert stored(store, "Registration") is None


@pytest.fixture
def github_store(store: DynamoStore) -> DynamoStore:
    return DynamoStore(replace(store._config, ci="github"), store._client, lambda: None)


def put_secret(store: DynamoStore, expires: datetime = THRESHOLD, **changes: Any) -> None:
    """As `refresh` writes it."""
    content = {"url": "https://github.com/acme", "group": "", "registration": "R", "removal": "V", "oldest": "2.1"}
    said = {"content": {"S": json.dumps({**content, "pool": "pool"})}, "expiresAt": {"S": items.moment(expires)}}
    item = SECRET_KEY | said | changes
    DynamoDB.call(store._client, "PutItem", TableName=store._config.table, Item=item)


@pytest.mark.parametrize("spoilt", [{"content": {"N": "1"}}, {"content": {"S": "{"}}, {"expiresAt": {"S": "soon"}}])
def test_a_secret_that_cannot_be_read_counts_as_none(github_store: DynamoStore, spoilt: dict[str, Any]) -> None:
    put_record(github_store)
    put_secret(github_store, **spoilt)
    with pytest.raises(NoCredentials, match="no valid registration token; run `bullpen refresh`"):
        github_store.register(CLAIMED)


def test_a_registration_that_may_have_landed_is_removed_before_its_removal_is_reported(
    store: DynamoStore, table: Table
) -> None:
    put_record(store)
    table.fails, table.lands = DynamoUnanswered("no answer"), True
    with pytest.raises(StoreUnreachable):
        store.register(CLAIMED)
    assert stored(store, "Registration") is not None
    store.report(SignalKind.REMOVE_REG_OK, replace(CLAIMED, state=InstanceState.IDLE, run_id="", round="a2"), "")
    assert stored(store, "Registration") is None


# --------------------------------------------------------------------------------------------------------- out of reach


@pytest.mark.parametrize(
    "failure", [DynamoThrottled("slow down"), DynamoUnanswered("no answer"), DynamoRefused("AccessDenied", "not yours")]
)
def test_whatever_keeps_the_table_from_answering_is_a_store_out_of_reach(
    store: DynamoStore, table: Table, failure: Exception
) -> None:
    for ask in (
        store.read_record,
        lambda: store.beat(None),
        lambda: store.report(SignalKind.OK, CLAIMED, ""),
        lambda: store.register(CLAIMED),
        store.deregister,
    ):
        table.fails, table.lands = failure, False
        with pytest.raises(StoreUnreachable):
            ask()


def test_a_table_that_does_not_exist_is_a_store_out_of_reach(store: DynamoStore) -> None:
    store._config = replace(store._config, table="elsewhere")
    with pytest.raises(StoreUnreachable, match="GetItem"):
        store.read_record()


def test_credentials_that_were_refused_are_forgotten(store: DynamoStore, table: Table, forgotten: list[str]) -> None:
    table.fails = DynamoRefused("AccessDeniedException", "not yours")
    with pytest.raises(StoreUnreachable):
        store.read_record()
    assert forgotten == []
    table.fails = DynamoRefused("ExpiredTokenException", "too old")
    with pytest.raises(StoreUnreachable):
        store.read_record()
    assert forgotten == ["forgotten"]


def test_a_rival_that_writes_without_end_is_not_fought_for_ever(store: DynamoStore, table: Table) -> None:
    class Rival(Table):
        def call(self, operation: str, **request: Any) -> dict[str, Any]:
            ours = int(request["ExpressionAttributeValues"][":seq"]["N"])
            put(store, "WS", {"seq": {"N": str(ours + 5)}, "updatedAt": {"S": "theirs"}})
            return super().call(operation, **request)

    table.__class__ = Rival
    with pytest.raises(StoreUnreachable, match="overtaken"):
        store.report(SignalKind.OK, CLAIMED, "")
    assert table.requests == ATTEMPTS
