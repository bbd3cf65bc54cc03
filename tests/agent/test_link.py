"""The store as an agent sees it: what it may write, and when."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.decide import ABSENT
from bullpen.agent.link import Link, Order, StoreUnreachable
from bullpen.agent.progress import Kind, Record, State
from bullpen.engines.sqlite.migrations import load_scripts, open_home
from bullpen.engines.sqlite.turnstile import Turnstile
from bullpen.engines.sqlite.wake import CONTROL, Listener, socket_directory

RUNNING = Record(State.RUNNING, "run-1", "r1", 1000.0, False, "default")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection to the same home."""
    connection = open_home(tmp_path, Turnstile(tmp_path), load_scripts())
    yield connection
    connection.close()


@pytest.fixture
def link(tmp_path: Path, store: sqlite3.Connection) -> Iterator[Link]:
    link = Link(tmp_path, "i-1")
    yield link
    link.close()


def put_record(store: sqlite3.Connection, record: Record, id_: str = "i-1") -> None:
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
        "owes_kind": "await-and-offer" if record.state is State.IDLE and not record.attested else None,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO instances ({names}) VALUES ({marks})", tuple(row.values()))


def put_job(store: sqlite3.Connection, id_: str = "j-1", command: str = '["true"]', at: int = 1) -> None:
    store.execute(
        "INSERT INTO jobs (id, run_id, state, fence, command, queued_at) VALUES (?, 'run-1', 'queued', 0, ?, ?)",
        (id_, command, at),
    )


def taken(link: Link, record: Record = RUNNING) -> Order:
    order = link.take_job(record)
    assert order is not None
    return order


# ------------------------------------------------------------------------------------------------------------- looking


def test_a_record_that_is_not_there_is_absent(link: Link) -> None:
    assert link.look() is ABSENT


@pytest.mark.parametrize(
    "record", [RUNNING, Record(State.IDLE, "", "r2", 2.5, True), Record(State.CREATED, "", "r1", 1.0)]
)
def test_a_record_is_read_as_it_stands(link: Link, store: sqlite3.Connection, record: Record) -> None:
    put_record(store, record)
    assert link.look() == record


def test_a_waiting_job_of_the_run_shows(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store)
    assert link.look() == replace(RUNNING, has_job=True)


def test_what_others_write_is_noticed_once(link: Link, store: sqlite3.Connection) -> None:
    link.has_changed()
    assert not link.has_changed()
    put_record(store, RUNNING)
    assert link.has_changed()
    assert not link.has_changed()


def test_what_the_agent_writes_itself_is_no_change(link: Link) -> None:
    link.has_changed()
    link.beat()
    assert not link.has_changed()


# ----------------------------------------------------------------------------------------------------------- reporting


def test_every_signal_has_a_higher_number_than_any_before_even_of_an_earlier_process(
    link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    link.report(Kind.OK, RUNNING, "")
    link.report(Kind.REG_OK, RUNNING, "")
    restarted = Link(tmp_path, "i-1")
    restarted.report(Kind.FAILED, RUNNING, "why")
    restarted.close()
    assert store.execute("SELECT kind, run_id, round, seq, text FROM signals").fetchall() == [
        ("UD_FAILED", "run-1", "r1", 3, "why")
    ]


def test_a_signal_is_a_heartbeat_too(link: Link, store: sqlite3.Connection) -> None:
    link.beat()
    link.report(Kind.OK, RUNNING, "")
    assert store.execute("SELECT seq FROM heartbeats").fetchall() == [(2,)]


def test_a_signal_wakes_the_control_plane(link: Link, tmp_path: Path) -> None:
    listener = Listener(socket_directory(tmp_path), f"{CONTROL}test")
    link.beat()
    assert listener.drain() == []
    link.report(Kind.OK, RUNNING, "")
    assert len(listener.drain()) == 1
    listener.close()


# --------------------------------------------------------------------------------------------------------- registering


def test_a_runner_appears_under_its_run_and_disappears(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    assert link.register(RUNNING)
    assert store.execute("SELECT name, label, busy FROM registrations").fetchall() == [("i-1", "run-1", 0)]
    link.deregister()
    assert store.execute("SELECT * FROM registrations").fetchall() == []


@pytest.mark.parametrize(
    "moved",
    [
        Record(State.CLAIMED, "run-2", "r2", 1000.0),
        Record(State.RUNNING, "run-1", "r2", 1000.0),
        Record(State.IDLE, "", "r2", 1000.0),
        Record(State.TERMINATED, "run-1", "r1", 1000.0),
    ],
)
def test_a_record_that_has_moved_on_is_not_registered(link: Link, store: sqlite3.Connection, moved: Record) -> None:
    put_record(store, moved)
    assert not link.register(RUNNING)
    assert store.execute("SELECT * FROM registrations").fetchall() == []


# ---------------------------------------------------------------------------------------------------------------- jobs


def test_the_oldest_job_is_taken_first_and_only_once(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store, "j-late", at=2)
    put_job(store, "j-early", at=1)
    assert [taken(link).job.id, taken(link).job.id, link.take_job(RUNNING)] == ["j-early", "j-late", None]


@pytest.mark.parametrize(
    "moved",
    [
        Record(State.CLAIMED, "run-1", "r1", 1000.0),
        Record(State.RUNNING, "run-1", "r2", 1000.0),
        Record(State.RUNNING, "run-2", "r1", 1000.0),
        Record(State.TERMINATED, "run-1", "r1", 1000.0),
    ],
)
def test_an_instance_that_does_not_run_in_this_round_takes_no_job(
    link: Link, store: sqlite3.Connection, moved: Record
) -> None:
    put_record(store, moved)
    put_job(store)
    assert link.take_job(RUNNING) is None
    assert store.execute("SELECT state, fence FROM jobs").fetchall() == [("queued", 0)]


def test_a_runner_is_busy_from_taking_a_job_to_its_end(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store)
    link.register(RUNNING)
    order = taken(link)
    assert store.execute("SELECT busy FROM registrations").fetchone() == (1,)
    link.settle_job(replace(order.job, exit_code=3))
    assert store.execute("SELECT busy FROM registrations").fetchone() == (0,)
    assert store.execute("SELECT state, exit_code FROM jobs").fetchone() == ("finished", 3)


def test_the_result_of_an_older_assignment_is_refused(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store)
    order = taken(link)
    store.execute("UPDATE jobs SET fence = fence + 1")
    link.settle_job(replace(order.job, exit_code=0))
    assert store.execute("SELECT state, exit_code FROM jobs").fetchone() == ("running", None)


@pytest.mark.parametrize("command", ["", "{}", '"true"', "[1]", "not json"])
def test_a_job_whose_command_is_none_is_taken_with_an_empty_one(
    link: Link, store: sqlite3.Connection, command: str
) -> None:
    put_record(store, RUNNING)
    put_job(store, command=command)
    assert taken(link).command == ()


# --------------------------------------------------------------------------------------------------------- unreachable


def test_a_missing_file_is_a_store_out_of_reach_until_it_is_back(
    link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_record(store, RUNNING)
    link.beat()
    (tmp_path / "bullpen.db").rename(tmp_path / "aside")
    for attempt in (link.look, link.has_changed, link.beat, link.deregister):
        with pytest.raises(StoreUnreachable):
            attempt()
    (tmp_path / "aside").rename(tmp_path / "bullpen.db")
    assert link.look() == RUNNING


@pytest.mark.parametrize("content", [b"", b"not a database, and long enough to be looked at" * 100])
def test_a_file_that_is_not_ours_is_a_store_out_of_reach(link: Link, tmp_path: Path, content: bytes) -> None:
    link.beat()
    for file in tmp_path.glob("bullpen.db*"):
        file.rename(tmp_path / f"aside-{file.name}")
    (tmp_path / "bullpen.db").write_bytes(content)
    with pytest.raises(StoreUnreachable):
        link.look()


def test_a_state_that_this_agent_does_not_know_is_a_store_out_of_reach(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    store.execute("PRAGMA ignore_check_constraints = ON")
    store.execute("UPDATE instances SET state = 'hibernating'")
    with pytest.raises(StoreUnreachable):
        link.look()
