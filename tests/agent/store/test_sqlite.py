"""What only the agent's store in SQLite promises; what all do is in tests/conformance/test_agent_store.py."""

from __future__ import annotations

import json
import sqlite3
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.config import Config
from bullpen.agent.github import token_source
from bullpen.agent.progress import End, InstanceRecord, InstanceState, SignalKind
from bullpen.agent.store.base import NoCredentials, Order, StoreUnreachable
from bullpen.agent.store.sqlite import SqliteStore
from bullpen.engines.sqlite.migrations import load_scripts, open_home
from bullpen.engines.sqlite.notify import CONTROL, Listener, socket_directory
from bullpen.engines.sqlite.turnstile import Turnstile
from made_homes import with_database

RUNNING = InstanceRecord(InstanceState.RUNNING, "run-1", "r1", 1000.0, False, "default")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection to the same home."""
    connection = open_home(with_database(tmp_path), Turnstile(tmp_path), load_scripts())
    yield connection
    connection.close()


def a_config(home: Path, id_: str = "i-1", **changes: Any) -> Config:
    config = Config(id_, home, home, 5.0, 60.0, 600.0, "", 30.0, ())
    return replace(config, **changes)


@pytest.fixture
def store(tmp_path: Path, database: sqlite3.Connection) -> Iterator[SqliteStore]:
    store = SqliteStore(a_config(tmp_path))
    yield store
    store.close()


def put_record(database: sqlite3.Connection, record: InstanceRecord, id_: str = "i-1") -> None:
    row: dict[str, Any] = {
        "id": id_,
        "state": record.state.value,
        "version": 1,
        "threshold": int(record.threshold * 1e6),
        "run_id": record.run_id,
        "round": record.round,
        "provision_id": "p-1",
        "attested": int(record.attested),
        "trust_domain": record.trust_domain,
        "image_generation": 1,
        "resource_class": "small",
        "instance_type": "local.small",
        "usage_class": "on-demand",
        "cpu": 1,
        "mem": 1024,
        "repository": record.repository,
        "owes_kind": "await-and-offer" if record.state is InstanceState.IDLE and not record.attested else None,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT OR REPLACE INTO instances ({names}) VALUES ({marks})", tuple(row.values()))


def put_job(database: sqlite3.Connection, id_: str = "j-1", **changes: Any) -> None:
    row: dict[str, Any] = {
        "id": id_,
        "state": "queued",
        "version": 1,
        "run_id": "run-1",
        "command": '["true"]',
        "name": "",
        "job_index": 0,
        "timeout": 0.0,
        "capability": "",
        "side_effects": 0,
        "queued_at": 1,
        "fence": 0,
        "worker": "",
        "epoch": 0,
        "instance_id": "",
        "bound": 0,
        "losses": 0,
        "avoid": "",
        "cancelling": 0,
        "result": "",
        "reason": "",
        **changes,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(row.values()))


def taken(store: SqliteStore, record: InstanceRecord = RUNNING) -> Order:
    order = store.jobs.take_job(record)
    assert order is not None
    return order


def one(database: sqlite3.Connection, columns: str, table: str) -> tuple[Any, ...]:
    (row,) = database.execute(f"SELECT {columns} FROM {table}").fetchall()
    assert isinstance(row, tuple)
    return row


def give_up(database: sqlite3.Connection) -> None:
    """What a sweeper does to a worker whose lease ran out."""
    database.execute(
        "UPDATE workers SET state = 'inactive', deadline = NULL, lost_epoch = epoch, version = version + 1"
    )


# ------------------------------------------------------------------------------------------------------------- looking


def test_what_others_write_is_noticed_once(store: SqliteStore, database: sqlite3.Connection) -> None:
    store.has_changed()
    assert not store.has_changed()
    put_record(database, RUNNING)
    assert store.has_changed()
    assert not store.has_changed()


def test_what_the_agent_writes_itself_is_no_change(store: SqliteStore) -> None:
    store.has_changed()
    store.beat(None)
    assert not store.has_changed()


# ----------------------------------------------------------------------------------------------------------- reporting


def test_a_signal_wakes_the_control_plane(store: SqliteStore, tmp_path: Path) -> None:
    listener = Listener(socket_directory(tmp_path), f"{CONTROL}test")
    store.beat(None)
    assert listener.drain() == []
    store.report(SignalKind.OK, RUNNING, "")
    assert len(listener.drain()) == 1
    listener.close()


# --------------------------------------------------------------------------------------------------------- registering


@pytest.fixture
def github_store(tmp_path: Path, database: sqlite3.Connection) -> Iterator[SqliteStore]:
    store = SqliteStore(a_config(tmp_path, ci="github"))
    yield store
    store.close()


def put_secret(home: Path, expires: float = 9e9, **changes: Any) -> None:
    """As `refresh` writes it."""
    content = {"url": "https://github.com/acme", "group": "big", "registration": "R", "removal": "V", "oldest": "2.1"}
    said = json.dumps({**content, "pool": "bullpen", **changes})
    (home / "vault").mkdir(exist_ok=True)
    (home / "vault/github.json").write_text(json.dumps({"content": said, "expires": expires}))


def test_an_agent_that_starts_again_does_not_meet_its_own_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"pool": "p", "url": "u", "group": "", "registration": "R", "removal": "V", "oldest": ""})
    now = 1_900_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    before = token_source.CredentialIssuer("i-1").issue(said, now + 60, RUNNING)
    monkeypatch.setattr(time, "time", lambda: now + 1)
    assert token_source.CredentialIssuer("i-1").issue(said, now + 60, RUNNING).runner != before.runner


@pytest.mark.parametrize(
    "spoilt",
    [
        None,
        "",
        "[]",
        "hidden",
        '{"content": "hidden", "expires": 9e9}',
        '{"expires": 9e9}',
        '{"content": "x", "expires": "hidden"}',
        1.0,
    ],
)
def test_without_a_valid_secret_a_runner_says_what_to_do(
    github_store: SqliteStore, database: sqlite3.Connection, tmp_path: Path, spoilt: str | float | None
) -> None:
    put_record(database, RUNNING)
    if isinstance(spoilt, float):
        put_secret(tmp_path, expires=spoilt)
    elif spoilt is not None:
        put_secret(tmp_path)
        (tmp_path / "vault/github.json").write_text(spoilt)
    with pytest.raises(NoCredentials, match="no valid registration token; run `bullpen refresh`") as caught:
        github_store.register(RUNNING)
    assert "hidden" not in "".join(traceback.format_exception(caught.value))


def test_a_first_beat_begins_after_every_epoch_that_the_store_has_forgotten(
    store: SqliteStore, database: sqlite3.Connection
) -> None:
    first = store.beat(None).holder
    database.execute("UPDATE workers SET epoch = 4")
    database.execute("DELETE FROM workers")
    again = store.beat(None).holder  # its token is not known any more: it takes a new key
    assert (first.epoch, again.epoch) == (1, 5)
    assert again.worker != first.worker
    assert [worker for (worker,) in database.execute("SELECT worker FROM cards")] == [again.worker]


def test_a_stop_cleans_the_worker_up_and_gives_up_its_card(store: SqliteStore, database: sqlite3.Connection) -> None:
    store.stop()  # before any beat there is nothing to say
    assert not database.execute("SELECT 1 FROM workers").fetchall()
    store.beat(None)
    for _ in range(2):
        store.stop()
        assert one(database, "state, deadline, lost_epoch, settled_epoch", "workers") == ("cleaned-up", None, 1, 1)
    assert not database.execute("SELECT 1 FROM cards").fetchall()
    assert [step for (step,) in database.execute("SELECT step FROM stories ORDER BY version")] == [
        "register",
        "stop",
        "settle_cleaned_up",
    ]


def test_a_stop_with_a_job_leaves_a_debt_to_the_sweeper(store: SqliteStore, database: sqlite3.Connection) -> None:
    with_job(store, database)
    store.stop()
    assert one(database, "state, lost_epoch, settled_epoch", "workers") == ("cleaned-up", 1, 0)


# ---------------------------------------------------------------------------------------------------------------- jobs


def test_a_runner_is_busy_from_taking_a_job_to_its_end(store: SqliteStore, database: sqlite3.Connection) -> None:
    put_record(database, RUNNING)
    put_job(database)
    store.register(RUNNING)
    store.beat(None)
    order = taken(store)
    assert database.execute("SELECT busy FROM registrations").fetchone() == (1,)
    store.jobs.settle_job(replace(order.job, exit_code=3))
    assert database.execute("SELECT busy FROM registrations").fetchone() == (0,)
    assert database.execute("SELECT state, exit_code FROM jobs").fetchone() == ("finished", 3)


@pytest.mark.parametrize("command", ["", "{}", '"true"', "[1]", "not json"])
def test_a_job_whose_command_is_none_is_taken_with_an_empty_one(
    store: SqliteStore, database: sqlite3.Connection, command: str
) -> None:
    put_record(database, RUNNING)
    put_job(database, command=command)
    store.beat(None)
    assert taken(store).command == ()


def with_job(store: SqliteStore, database: sqlite3.Connection, **changes: Any) -> Order:
    put_record(database, RUNNING)
    put_job(database, **changes)
    store.beat(None)
    return taken(store)


@pytest.mark.parametrize(
    ("asked", "has", "fits"), [("", (), True), ("gpu", (), False), ("gpu", ("docker", "gpu"), True)]
)
def test_a_job_goes_only_to_a_worker_that_can_do_it(
    database: sqlite3.Connection, tmp_path: Path, asked: str, has: tuple[str, ...], fits: bool
) -> None:
    store = SqliteStore(a_config(tmp_path, capabilities=has))
    put_record(database, RUNNING)
    put_job(database, capability=asked)
    store.beat(None)
    assert store.read_record() == replace(RUNNING, has_job=fits)
    assert (store.jobs.take_job(RUNNING) is not None) is fits
    store.close()


def test_a_job_that_waits_for_its_time_is_not_taken(store: SqliteStore, database: sqlite3.Connection) -> None:
    put_record(database, RUNNING)
    put_job(database, not_before=2**60)
    store.beat(None)
    assert store.read_record() == RUNNING
    assert store.jobs.take_job(RUNNING) is None


@pytest.mark.parametrize(
    ("change", "end"),
    [
        ("cancelling = 0", None),
        ("cancelling = 1", End.CANCELLED),
        ("fence = 2", End.LOST),
        ("worker = 'i-2/x'", End.LOST),
        ("epoch = 2", End.LOST),
        ("state = 'queued', worker = ''", End.LOST),
    ],
)
def test_the_store_says_when_a_job_must_end(
    store: SqliteStore, database: sqlite3.Connection, change: str, end: End | None
) -> None:
    order = with_job(store, database)
    database.execute(f"UPDATE jobs SET {change}")
    assert store.jobs.standing(order.job) is end


# --------------------------------------------------------------------------------------------------------------- leases


def test_a_worker_that_was_cleaned_up_or_forgotten_takes_a_new_key(
    store: SqliteStore, database: sqlite3.Connection
) -> None:
    first = store.beat(None).holder
    database.execute("UPDATE workers SET state = 'cleaned-up', deadline = NULL")
    second = store.beat(None).holder
    database.execute("DELETE FROM workers WHERE id = ?", (second.worker,))
    third = store.beat(None).holder
    assert len({first.worker, second.worker, third.worker}) == 3
    assert third.epoch == 2  # after the one that the store has forgotten


def test_an_answer_that_was_lost_costs_one_more_look_and_no_new_key(
    store: SqliteStore, database: sqlite3.Connection
) -> None:
    before = store.beat(None).holder
    database.execute("UPDATE workers SET token = token + 1, request_id = 'of a beat whose answer was lost'")
    assert store.beat(None).holder == before
    assert one(database, "token", "workers") == (3,)


# --------------------------------------------------------------------------------------------------------- unreachable


def test_a_missing_file_is_a_store_out_of_reach_until_it_is_back(
    store: SqliteStore, database: sqlite3.Connection, tmp_path: Path
) -> None:
    put_record(database, RUNNING)
    store.beat(None)
    (tmp_path / "bullpen.db").rename(tmp_path / "aside")
    for attempt in (store.read_record, store.has_changed, lambda: store.beat(None), store.deregister):
        with pytest.raises(StoreUnreachable):
            attempt()
    (tmp_path / "aside").rename(tmp_path / "bullpen.db")
    assert store.read_record() == RUNNING


@pytest.mark.parametrize("content", [b"", b"not a database, and long enough to be looked at" * 100])
def test_a_file_that_is_no_database_of_bullpen_is_a_store_out_of_reach(
    store: SqliteStore, tmp_path: Path, content: bytes
) -> None:
    store.beat(None)
    for file in tmp_path.glob("bullpen.db*"):
        file.rename(tmp_path / f"aside-{file.name}")
    (tmp_path / "bullpen.db").write_bytes(content)
    with pytest.raises(StoreUnreachable):
        store.read_record()


def test_a_state_that_this_agent_does_not_know_is_a_store_out_of_reach(
    store: SqliteStore, database: sqlite3.Connection
) -> None:
    put_record(database, RUNNING)
    database.execute("PRAGMA ignore_check_constraints = ON")
    database.execute("UPDATE instances SET state = 'hibernating'")
    with pytest.raises(StoreUnreachable):
        store.read_record()
