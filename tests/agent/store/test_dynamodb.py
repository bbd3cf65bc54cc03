"""The agent's way to the table without a service, against DynamoDB itself."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.aws.dynamodb import Away, DynamoDB, Refused, Throttled
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT
from bullpen.agent.github.registration_token import NoPass, Pass
from bullpen.agent.progress import Holder, Kind, Record, State
from bullpen.agent.store.dynamodb import ATTEMPTS, RUNNING_EVERY, WAITING_EVERY, DynamoLink
from bullpen.agent.store.sqlite import TEXT_LIMIT, StoreUnreachable
from bullpen.engines.aws.dynamodb import entries, items
from bullpen.engines.aws.dynamodb.schema import table_definition
from bullpen.model import instance, worker
from bullpen.model.instance import Instance
from bullpen.model.worker import Fate, Worker
from fakes.java_engines import Engines

INSTANCE = "i-00000000000000aa"
KEY = f"{INSTANCE}/direct"
THRESHOLD = datetime(2030, 1, 1, 12, 0, 0, 500000, tzinfo=UTC)
SECRET_KEY = items.raw_key("Secret", "github")
CLAIMED = Record(State.CLAIMED, "run-1", "a1", THRESHOLD.timestamp())


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
def link(table: Table, table_name: str, forgotten: list[str]) -> DynamoLink:
    config = Config(INSTANCE, Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 1.0, (), table=table_name, domain="zone-a")
    return DynamoLink(config, table, lambda: forgotten.append("forgotten"))


def stored(link: DynamoLink, kind: str) -> dict[str, Any] | None:
    key = items.raw_key(kind, INSTANCE)
    found = DynamoDB.call(link._client, "GetItem", TableName=link._config.table, Key=key, ConsistentRead=True)
    return found.get("Item")


def put(link: DynamoLink, kind: str, item: dict[str, Any]) -> None:
    whole = items.raw_key(kind, INSTANCE) | item
    DynamoDB.call(link._client, "PutItem", TableName=link._config.table, Item=whole)


def put_record(link: DynamoLink, **changes: Any) -> None:
    record = Instance(INSTANCE, instance.CLAIMED, 3, THRESHOLD, run_id="run-1", round="a1", trust_domain="main")
    put(link, "Instance", items.encode(replace(record, **changes)))


def put_worker(link: DynamoLink, **changes: Any) -> None:
    known = Worker(KEY, worker.ACTIVE, 2, instance_id=INSTANCE, epoch=1, token=7)
    put(link, "Heartbeat", items.encode(replace(known, **changes)))


# -------------------------------------------------------------------------------------------------------------- looking


def test_a_record_is_read_as_it_is_written(link: DynamoLink) -> None:
    put_record(link)
    expected = Record(State.CLAIMED, "run-1", "a1", THRESHOLD.timestamp(), trust_domain="main")
    assert link.look() == expected
    put_record(link, state=instance.IDLE, run_id="", attested=True)
    assert link.look() == replace(expected, state=State.IDLE, run_id="", attested=True)


def test_a_record_that_is_not_there_is_absent(link: DynamoLink) -> None:
    assert link.look() is ABSENT


@pytest.mark.parametrize("spoilt", [{"threshold": {"S": "soon"}}, {"state": {"S": "asleep"}}, {"state": {"N": "1"}}])
def test_a_record_that_says_nothing_to_us_is_no_reason_to_stop(link: DynamoLink, spoilt: dict[str, Any]) -> None:
    put_record(link)
    put(link, "Instance", {"version": {"N": "1"}, "threshold": {"S": "2030-01-01T00:00:00Z"}} | spoilt)
    with pytest.raises(StoreUnreachable, match="Instance"):
        link.look()


def test_the_record_is_looked_at_often_while_somebody_may_claim_us_and_seldom_while_we_run(
    link: DynamoLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("bullpen.agent.store.dynamodb.time.monotonic", lambda: now)
    for state, every in ((instance.IDLE, WAITING_EVERY), (instance.RUNNING, RUNNING_EVERY)):
        put_record(link, state=state)
        assert link.has_changed()
        link.look()
        now += every - 0.01
        assert not link.has_changed()
        now += 0.02
        assert link.has_changed()


# -------------------------------------------------------------------------------------------------------------- beating


def test_a_first_beat_is_a_worker_that_sweepers_find(link: DynamoLink) -> None:
    grant = link.beat(None)
    assert (grant.holder, grant.retired) == (Holder(KEY, 1), False)
    assert 4.5 <= grant.next_in <= 5.0
    found = stored(link, "Heartbeat")
    assert found is not None
    read = items.decode(Worker, found)
    assert (read.id, read.state, read.epoch, read.token, read.lease) == (KEY, worker.ACTIVE, 1, 1, 15.0)
    assert (read.instance_id, read.domain, read.deadline, read.leaving) == (INSTANCE, "zone-a", None, None)
    assert found["value"] == {"S": "PING"}
    assert {name: found[name] for name in ("dueKey", "dueSort", "liveKey")} == {
        name: entries.derived(read)[name] for name in ("dueKey", "dueSort", "liveKey")
    }


def test_a_beat_moves_no_timer_that_a_sweeper_has_set(link: DynamoLink) -> None:
    link.beat(None)
    found = stored(link, "Heartbeat")
    assert found is not None
    put(link, "Heartbeat", found | {"dueSort": {"S": "2030"}, "epoch": {"N": "4"}, "version": {"N": "9"}})
    assert link.beat(None).holder == Holder(KEY, 4)
    found = stored(link, "Heartbeat")
    assert found is not None
    assert (found["dueSort"], found["version"], found["seq"]) == ({"S": "2030"}, {"N": "9"}, {"N": "2"})


def test_beats_go_on_where_an_agent_before_us_stopped(link: DynamoLink) -> None:
    put_worker(link, token=41)
    link.beat(None)
    found = stored(link, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "42"}


def test_a_beat_says_what_runs_here_for_another_ci(link: DynamoLink) -> None:
    for activity in ("", "build", "test", ""):
        link.beat(None, activity=activity)
        found = stored(link, "Heartbeat")
        assert found is not None
        assert found.get("activity", {}).get("S", "") == activity


def test_a_beat_says_when_the_machine_will_be_taken(link: DynamoLink) -> None:
    link.beat(None)
    link.beat(None, THRESHOLD)
    found = stored(link, "Heartbeat")
    assert found is not None
    read = items.decode(Worker, found)
    assert read.leaving == THRESHOLD
    leaving = {name: found[name] for name in ("runKey", "runSort")}
    expected = entries.derived(read)
    assert leaving == {name: expected[name] for name in leaving}, "it is not found among those that leave"


@pytest.mark.parametrize("fate", [{"state": worker.INACTIVE, "fate": Fate.RETIRE}, {"state": worker.CLEANED_UP}])
def test_a_worker_that_was_given_up_for_good_learns_it(link: DynamoLink, fate: dict[str, Any]) -> None:
    put_worker(link, **fate)
    assert link.beat(None).retired


def test_a_beat_does_not_bring_back_what_is_cleaned_up(link: DynamoLink) -> None:
    put_worker(link, state=worker.CLEANED_UP)
    before = stored(link, "Heartbeat")
    link.beat(None)
    assert stored(link, "Heartbeat") == before


def test_a_worker_that_was_only_lost_beats_on(link: DynamoLink) -> None:
    put_worker(link, state=worker.INACTIVE, fate=Fate.KEEP)
    assert not link.beat(None).retired


@pytest.mark.parametrize("lands", [True, False])
def test_after_a_beat_without_an_answer_the_next_one_counts(link: DynamoLink, table: Table, lands: bool) -> None:
    link.beat(None)
    table.fails, table.lands = Away("no answer"), lands
    with pytest.raises(StoreUnreachable, match="no answer"):
        link.beat(None)
    assert not link.beat(None).retired
    found = stored(link, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "3"}


def test_a_beat_sent_again_over_a_new_connection_is_the_same_beat(link: DynamoLink, table: Table) -> None:
    table.sent_again = True
    link.beat(None)
    assert table.requests == 1
    found = stored(link, "Heartbeat")
    assert found is not None
    assert found["seq"] == {"N": "1"}


def test_a_beat_is_one_request(link: DynamoLink, table: Table) -> None:
    for _ in range(3):
        link.beat(None)
    assert table.requests == 3


# ------------------------------------------------------------------------------------------------------------ reporting


def test_a_signal_says_what_of_which_round(link: DynamoLink) -> None:
    link.report(Kind.CLAIM_SEEN, CLAIMED, "")
    link.report(Kind.REG_FAILED, CLAIMED, "x" * (TEXT_LIMIT + 1))
    found = stored(link, "WS")
    assert found is not None
    assert found["value"] == {"M": {"signal": {"S": "UD_REG_FAILED"}, "runId": {"S": "run-1"}}}
    assert (found["round"], found["seq"], found["text"]) == ({"S": "a1"}, {"N": "2"}, {"S": "x" * TEXT_LIMIT})
    assert datetime.fromisoformat(found["updatedAt"]["S"]) <= datetime.now(UTC)
    assert int(found["ttl"]["N"]) > (datetime.now(UTC) + timedelta(days=6)).timestamp()


def test_a_signal_follows_those_of_an_agent_before_us(link: DynamoLink) -> None:
    put(link, "WS", {"seq": {"N": "12"}, "round": {"S": "a0"}})
    link.report(Kind.REG_OK, CLAIMED, "")
    found = stored(link, "WS")
    assert found is not None
    assert (found["seq"], found["round"]) == ({"N": "13"}, {"S": "a1"})


def test_a_signal_sent_again_over_a_new_connection_is_the_same_signal(link: DynamoLink, table: Table) -> None:
    table.sent_again = True
    link.report(Kind.REG_OK, CLAIMED, "")
    assert table.requests == 1


def test_a_signal_of_the_same_number_by_another_does_not_pass_for_ours(link: DynamoLink) -> None:
    put(link, "WS", {"seq": {"N": "1"}, "round": {"S": "a0"}, "updatedAt": {"S": "2020-01-01T00:00:00.000000Z"}})
    link.report(Kind.REG_OK, CLAIMED, "")
    found = stored(link, "WS")
    assert found is not None
    assert (found["seq"], found["round"]) == ({"N": "2"}, {"S": "a1"})


# ---------------------------------------------------------------------------------------------------------- registering


def test_a_registration_carries_the_label_of_its_run(link: DynamoLink) -> None:
    put_record(link)
    assert link.register(CLAIMED)
    found = stored(link, "Registration")
    assert found is not None
    assert (found["label"], found["round"], found["busy"]) == ({"S": "run-1"}, {"S": "a1"}, {"BOOL": False})
    link.deregister()
    assert stored(link, "Registration") is None


@pytest.mark.parametrize("moved", [{"round": "b2"}, {"run_id": "run-2"}, {"state": instance.TERMINATED}])
def test_nobody_registers_for_a_round_that_is_over(link: DynamoLink, moved: dict[str, Any]) -> None:
    put_record(link, **moved)
    assert not link.register(CLAIMED)
    assert stored(link, "Registration") is None


def test_nobody_registers_without_a_record(link: DynamoLink) -> None:
    assert not link.register(CLAIMED)


@pytest.fixture
def github_link(link: DynamoLink) -> DynamoLink:
    return DynamoLink(replace(link._config, ci="github"), link._client, lambda: None)


def put_secret(link: DynamoLink, expires: datetime = THRESHOLD, **changes: Any) -> None:
    """As `refresh` writes it."""
    content = {"url": "https://github.com/acme", "group": "", "registration": "R", "removal": "V", "oldest": "2.1"}
    said = {"content": {"S": json.dumps({**content, "pool": "pool"})}, "expiresAt": {"S": items.moment(expires)}}
    item = SECRET_KEY | said | changes
    DynamoDB.call(link._client, "PutItem", TableName=link._config.table, Item=item)


def test_on_github_a_runner_is_given_what_it_needs_and_is_on_no_list_of_ours(github_link: DynamoLink) -> None:
    put_record(github_link)
    put_secret(github_link)
    given = github_link.register(CLAIMED)
    assert isinstance(given, Pass)
    assert re.fullmatch(rf"pool\.{INSTANCE}\.a1\.[0-9]+", given.runner)
    assert given == Pass(given.runner, "run-1", "https://github.com/acme", "", "R", "V", oldest="2.1")
    assert stored(github_link, "Registration") is None


@pytest.mark.parametrize("moved", [{"round": "b2"}, {"run_id": "run-2"}, {"state": instance.TERMINATED}])
def test_on_github_a_record_that_has_moved_on_gets_no_secret(github_link: DynamoLink, moved: dict[str, Any]) -> None:
    put_record(github_link, **moved)
    put_secret(github_link)
    assert github_link.register(CLAIMED) is False


@pytest.mark.parametrize("spoilt", [{"content": {"N": "1"}}, {"content": {"S": "{"}}, {"expiresAt": {"S": "soon"}}])
def test_a_secret_that_says_nothing_to_us_is_none(github_link: DynamoLink, spoilt: dict[str, Any]) -> None:
    put_record(github_link)
    put_secret(github_link, **spoilt)
    with pytest.raises(NoPass, match="no valid registration token; run `bullpen refresh`"):
        github_link.register(CLAIMED)


def test_without_a_valid_secret_a_runner_says_what_to_do(github_link: DynamoLink) -> None:
    put_record(github_link)
    for age in (None, 1.0):
        if age is not None:
            put_secret(github_link, datetime.now(UTC) - timedelta(seconds=age))
        with pytest.raises(NoPass, match="no valid registration token; run `bullpen refresh`"):
            github_link.register(CLAIMED)


def test_whoever_may_be_registered_is_not_before_it_says_so(link: DynamoLink, table: Table) -> None:
    put_record(link)
    table.fails, table.lands = Away("no answer"), True
    with pytest.raises(StoreUnreachable):
        link.register(CLAIMED)
    assert stored(link, "Registration") is not None
    link.report(Kind.REMOVE_REG_OK, replace(CLAIMED, state=State.IDLE, run_id="", round="a2"), "")
    assert stored(link, "Registration") is None


# --------------------------------------------------------------------------------------------------------- out of reach


@pytest.mark.parametrize("failure", [Throttled("slow down"), Away("no answer"), Refused("AccessDenied", "not yours")])
def test_whatever_keeps_the_table_from_answering_is_a_store_out_of_reach(
    link: DynamoLink, table: Table, failure: Exception
) -> None:
    for ask in (
        link.look,
        lambda: link.beat(None),
        lambda: link.report(Kind.OK, CLAIMED, ""),
        lambda: link.register(CLAIMED),
        link.deregister,
    ):
        table.fails, table.lands = failure, False
        with pytest.raises(StoreUnreachable):
            ask()


def test_a_table_that_does_not_exist_is_a_store_out_of_reach(link: DynamoLink) -> None:
    link._config = replace(link._config, table="elsewhere")
    with pytest.raises(StoreUnreachable, match="GetItem"):
        link.look()


def test_credentials_that_were_refused_are_forgotten(link: DynamoLink, table: Table, forgotten: list[str]) -> None:
    table.fails = Refused("AccessDeniedException", "not yours")
    with pytest.raises(StoreUnreachable):
        link.look()
    assert forgotten == []
    table.fails = Refused("ExpiredTokenException", "too old")
    with pytest.raises(StoreUnreachable):
        link.look()
    assert forgotten == ["forgotten"]


def test_a_rival_that_writes_without_end_is_not_fought_for_ever(link: DynamoLink, table: Table) -> None:
    class Rival(Table):
        def call(self, operation: str, **request: Any) -> dict[str, Any]:
            ours = int(request["ExpressionAttributeValues"][":seq"]["N"])
            put(link, "WS", {"seq": {"N": str(ours + 5)}, "updatedAt": {"S": "theirs"}})
            return super().call(operation, **request)

    table.__class__ = Rival
    with pytest.raises(StoreUnreachable, match="overtaken"):
        link.report(Kind.OK, CLAIMED, "")
    assert table.requests == ATTEMPTS
