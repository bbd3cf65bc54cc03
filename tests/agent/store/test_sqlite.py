"""The store as an agent sees it: what it may write, and when."""

from __future__ import annotations

import json
import re
import sqlite3
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.build import build_id
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT
from bullpen.agent.github import token_source
from bullpen.agent.github.registration_token import NoPass, Pass
from bullpen.agent.progress import End, Kind, Record, State
from bullpen.agent.store.sqlite import Grant, Link, Order, StoreUnreachable
from bullpen.engines.sqlite.migrations import load_scripts, open_home
from bullpen.engines.sqlite.notify import CONTROL, Listener, socket_directory
from bullpen.engines.sqlite.turnstile import Turnstile

RUNNING = Record(State.RUNNING, "run-1", "r1", 1000.0, False, "default")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection to the same home."""
    connection = open_home(tmp_path, Turnstile(tmp_path), load_scripts())
    yield connection
    connection.close()


def a_config(home: Path, id_: str = "i-1", **changes: Any) -> Config:
    config = Config(id_, home, home, 5.0, 60.0, 600.0, "", 30.0, ())
    return replace(config, **changes)


@pytest.fixture
def link(tmp_path: Path, store: sqlite3.Connection) -> Iterator[Link]:
    link = Link(a_config(tmp_path))
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
        "repository": record.repository,
        "owes_kind": "await-and-offer" if record.state is State.IDLE and not record.attested else None,
    }
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    store.execute(f"INSERT OR REPLACE INTO instances ({names}) VALUES ({marks})", tuple(row.values()))


def put_job(store: sqlite3.Connection, id_: str = "j-1", **changes: Any) -> None:
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
    store.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(row.values()))


def taken(link: Link, record: Record = RUNNING) -> Order:
    order = link.take_job(record)
    assert order is not None
    return order


def one(store: sqlite3.Connection, columns: str, table: str) -> tuple[Any, ...]:
    (row,) = store.execute(f"SELECT {columns} FROM {table}").fetchall()
    assert isinstance(row, tuple)
    return row


def give_up(store: sqlite3.Connection) -> None:
    """What a sweeper does to a worker whose lease ran out."""
    store.execute("UPDATE workers SET state = 'inactive', deadline = NULL, lost_epoch = epoch, version = version + 1")


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
    assert link.look() == RUNNING, "nobody takes a job before its first beat"
    link.beat(None)
    assert link.look() == replace(RUNNING, has_job=True)


def test_what_others_write_is_noticed_once(link: Link, store: sqlite3.Connection) -> None:
    link.has_changed()
    assert not link.has_changed()
    put_record(store, RUNNING)
    assert link.has_changed()
    assert not link.has_changed()


def test_what_the_agent_writes_itself_is_no_change(link: Link) -> None:
    link.has_changed()
    link.beat(None)
    assert not link.has_changed()


# ----------------------------------------------------------------------------------------------------------- reporting


def test_every_signal_has_a_higher_number_than_any_before_even_of_an_earlier_process(
    link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    link.report(Kind.OK, RUNNING, "")
    link.report(Kind.REG_OK, RUNNING, "")
    restarted = Link(a_config(tmp_path))
    restarted.report(Kind.FAILED, RUNNING, "why")
    restarted.close()
    assert store.execute("SELECT kind, run_id, round, seq, text FROM signals").fetchall() == [
        ("UD_FAILED", "run-1", "r1", 3, "why")
    ]


def test_a_signal_wakes_the_control_plane(link: Link, tmp_path: Path) -> None:
    listener = Listener(socket_directory(tmp_path), f"{CONTROL}test")
    link.beat(None)
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


@pytest.fixture
def github_link(tmp_path: Path, store: sqlite3.Connection) -> Iterator[Link]:
    link = Link(a_config(tmp_path, ci="github"))
    yield link
    link.close()


def put_secret(home: Path, expires: float = 9e9, **changes: Any) -> None:
    """As `refresh` writes it."""
    content = {"url": "https://github.com/acme", "group": "big", "registration": "R", "removal": "V", "oldest": "2.1"}
    said = json.dumps({**content, "pool": "bullpen", **changes})
    (home / "vault").mkdir(exist_ok=True)
    (home / "vault/github.json").write_text(json.dumps({"content": said, "expires": expires}))


def test_on_github_a_runner_is_given_what_it_needs_and_is_on_no_list_of_ours(
    github_link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_record(store, RUNNING)
    put_secret(tmp_path)
    given = github_link.register(RUNNING)
    assert isinstance(given, Pass)
    assert given == Pass(given.runner, "run-1", "https://github.com/acme", "big", "R", "V", oldest="2.1")
    assert store.execute("SELECT * FROM registrations").fetchall() == []
    github_link.deregister(given.runner)


def test_every_registration_of_a_round_has_a_name_of_its_own(
    github_link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_secret(tmp_path)
    names = []
    for round_ in ("r1", "r1", "r2"):
        record = replace(RUNNING, round=round_)
        put_record(store, record)
        given = github_link.register(record)
        assert isinstance(given, Pass)
        names.append(given.runner)
    assert [name.rpartition(".")[0] for name in names] == ["bullpen.i-1.r1", "bullpen.i-1.r1", "bullpen.i-1.r2"]
    assert len(set(names)) == 3


def test_an_agent_that_begins_anew_does_not_meet_its_own_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"pool": "p", "url": "u", "group": "", "registration": "R", "removal": "V", "oldest": ""})
    now = 1_900_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    before = token_source.Passes("i-1").make(said, now + 60, RUNNING)
    monkeypatch.setattr(time, "time", lambda: now + 1)
    assert token_source.Passes("i-1").make(said, now + 60, RUNNING).runner != before.runner


def test_on_github_a_record_that_has_moved_on_gets_no_secret(
    github_link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_secret(tmp_path)
    put_record(store, replace(RUNNING, round="r2"))
    assert github_link.register(RUNNING) is False


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
    github_link: Link, store: sqlite3.Connection, tmp_path: Path, spoilt: str | float | None
) -> None:
    put_record(store, RUNNING)
    if isinstance(spoilt, float):
        put_secret(tmp_path, expires=spoilt)
    elif spoilt is not None:
        put_secret(tmp_path)
        (tmp_path / "vault/github.json").write_text(spoilt)
    with pytest.raises(NoPass, match="no valid registration token; run `bullpen refresh`") as caught:
        github_link.register(RUNNING)
    assert "hidden" not in "".join(traceback.format_exception(caught.value))


def test_a_beat_says_what_runs_here_for_another_ci(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    for activity in ("", "build", "test", ""):
        link.beat(None, activity=activity)
        assert store.execute("SELECT activity FROM workers").fetchall() == [(activity,)]


def test_a_first_beat_begins_after_every_epoch_that_the_store_has_forgotten(
    link: Link, store: sqlite3.Connection
) -> None:
    first = link.beat(None).holder
    store.execute("UPDATE workers SET epoch = 4")
    store.execute("DELETE FROM workers")
    again = link.beat(None).holder  # its token is not known any more: it takes a new key
    assert (first.epoch, again.epoch) == (1, 5)
    assert again.worker != first.worker
    assert [worker for (worker,) in store.execute("SELECT worker FROM cards")] == [again.worker]


def test_a_stop_cleans_the_worker_up_and_gives_up_its_card(link: Link, store: sqlite3.Connection) -> None:
    link.stop()  # before any beat there is nothing to say
    assert not store.execute("SELECT 1 FROM workers").fetchall()
    link.beat(None)
    for _ in range(2):
        link.stop()
        assert one(store, "state, deadline, lost_epoch, settled_epoch", "workers") == ("cleaned-up", None, 1, 1)
    assert not store.execute("SELECT 1 FROM cards").fetchall()
    assert [step for (step,) in store.execute("SELECT step FROM stories ORDER BY version")] == [
        "register",
        "stop",
        "settle_cleaned_up",
    ]


def test_a_stop_with_a_job_leaves_a_debt_to_whoever_sweeps(link: Link, store: sqlite3.Connection) -> None:
    with_job(link, store)
    link.stop()
    assert one(store, "state, lost_epoch, settled_epoch", "workers") == ("cleaned-up", 1, 0)


def test_a_card_says_which_build_of_the_agent_runs(link: Link, store: sqlite3.Connection) -> None:
    link.beat(None)
    card = json.loads(one(store, "card", "cards")[0])
    assert card["build_id"] == build_id()
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\+[0-9a-f]{12}", card["build_id"])


def test_a_beat_says_when_the_machine_will_be_taken(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    link.beat(None)
    assert store.execute("SELECT leaving FROM workers").fetchall() == [(None,)]
    link.beat(None, datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC))
    assert store.execute("SELECT leaving FROM workers").fetchall() == [(7_000_000,)]


# ---------------------------------------------------------------------------------------------------------------- jobs


def test_the_oldest_job_is_taken_first_and_only_once(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store, "j-late", queued_at=2)
    put_job(store, "j-early", queued_at=1)
    link.beat(None)
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
    link.beat(None)
    assert link.take_job(RUNNING) is None
    assert store.execute("SELECT state, fence FROM jobs").fetchall() == [("queued", 0)]


def test_a_runner_is_busy_from_taking_a_job_to_its_end(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store)
    link.register(RUNNING)
    link.beat(None)
    order = taken(link)
    assert store.execute("SELECT busy FROM registrations").fetchone() == (1,)
    link.settle_job(replace(order.job, exit_code=3))
    assert store.execute("SELECT busy FROM registrations").fetchone() == (0,)
    assert store.execute("SELECT state, exit_code FROM jobs").fetchone() == ("finished", 3)


def test_the_result_of_an_older_assignment_is_refused(link: Link, store: sqlite3.Connection) -> None:
    order = with_job(link, store)
    store.execute("UPDATE jobs SET fence = fence + 1")
    assert not link.settle_job(replace(order.job, exit_code=0))
    assert one(store, "state, exit_code", "jobs") == ("running", None)


@pytest.mark.parametrize("command", ["", "{}", '"true"', "[1]", "not json"])
def test_a_job_whose_command_is_none_is_taken_with_an_empty_one(
    link: Link, store: sqlite3.Connection, command: str
) -> None:
    put_record(store, RUNNING)
    put_job(store, command=command)
    link.beat(None)
    assert taken(link).command == ()


def with_job(link: Link, store: sqlite3.Connection, **changes: Any) -> Order:
    put_record(store, RUNNING)
    put_job(store, **changes)
    link.beat(None)
    return taken(link)


def test_an_assignment_names_worker_epoch_and_fence_and_is_bound_by_the_next_beat(
    link: Link, store: sqlite3.Connection
) -> None:
    order = with_job(link, store, job_index=7, timeout=9.0)
    holder = link.beat(None).holder
    assert (order.job.holder, order.job.fence, order.job.timeout, order.index) == (holder, 1, 9.0, 7)
    assert one(store, "state, worker, epoch, fence, instance_id, bound", "jobs") == (
        "running",
        holder.worker,
        1,
        1,
        "i-1",
        0,
    )
    link.beat(order.job)
    assert one(store, "bound, verify_by", "jobs") == (1, None)
    steps = store.execute("SELECT step FROM stories WHERE record_id = 'j-1' ORDER BY version").fetchall()
    assert steps == [("assign",), ("bind",)]


def test_a_worker_whose_lease_is_out_takes_no_job(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store)
    link.beat(None)
    store.execute("UPDATE workers SET deadline = 1")
    assert link.take_job(RUNNING) is None
    assert one(store, "state, fence", "jobs") == ("queued", 0)


@pytest.mark.parametrize(
    ("asked", "has", "fits"), [("", (), True), ("gpu", (), False), ("gpu", ("docker", "gpu"), True)]
)
def test_a_job_goes_only_to_a_worker_that_can_do_it(
    store: sqlite3.Connection, tmp_path: Path, asked: str, has: tuple[str, ...], fits: bool
) -> None:
    link = Link(a_config(tmp_path, capabilities=has))
    put_record(store, RUNNING)
    put_job(store, capability=asked)
    link.beat(None)
    assert link.look() == replace(RUNNING, has_job=fits)
    assert (link.take_job(RUNNING) is not None) is fits
    link.close()


def test_a_job_that_waits_for_its_time_is_not_taken(link: Link, store: sqlite3.Connection) -> None:
    put_record(store, RUNNING)
    put_job(store, not_before=2**60)
    link.beat(None)
    assert link.look() == RUNNING
    assert link.take_job(RUNNING) is None


def test_a_lost_job_goes_to_another_worker_while_there_is_one(
    link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_record(store, RUNNING)
    put_record(store, RUNNING, "i-2")
    put_job(store, losses=1, avoid=link.beat(None).holder.worker)
    assert link.look() == replace(RUNNING, has_job=True), "alone in its run it may have it again"
    other = Link(a_config(tmp_path, "i-2"))
    other.beat(None)
    assert link.take_job(RUNNING) is None
    assert taken(other).job.id == "j-1"
    other.close()


@pytest.mark.parametrize(
    ("end", "code", "stored"),
    [
        (End.RAN, 0, ("finished", "succeeded", 0, "")),
        (End.RAN, 3, ("finished", "failed", 3, "exit code 3")),
        (End.CANCELLED, -9, ("finished", "cancelled", -9, "it was cancelled, and its processes were ended")),
        (End.TIMED_OUT, -9, ("finished", "timed-out", -9, "it ran longer than its 5 s, and its processes were ended")),
        (End.RELEASED, -9, ("finished", "cancelled", -9, "its run was released")),
    ],
)
def test_an_end_is_stored_with_its_reason(
    link: Link, store: sqlite3.Connection, end: End, code: int, stored: tuple[Any, ...]
) -> None:
    order = with_job(link, store, timeout=5.0)
    assert link.settle_job(replace(order.job, exit_code=code, end=end))
    assert one(store, "state, result, exit_code, reason", "jobs") == stored


def test_what_was_lost_is_not_reported_and_the_runner_is_free_again(link: Link, store: sqlite3.Connection) -> None:
    order = with_job(link, store)
    assert not link.settle_job(replace(order.job, exit_code=-9, end=End.LOST))
    assert one(store, "state", "jobs") == ("running",)


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
    link: Link, store: sqlite3.Connection, change: str, end: End | None
) -> None:
    order = with_job(link, store)
    store.execute(f"UPDATE jobs SET {change}")
    assert link.standing(order.job) is end


@pytest.mark.parametrize(
    ("losses", "cancelling", "stored"),
    [
        (0, 0, ("queued", "", 1, "")),
        (2, 0, ("finished", "failed", 2, "it lost its worker 3 times; the last time: it left")),
        (0, 1, ("finished", "cancelled", 0, "it left")),
    ],
)
def test_an_agent_that_leaves_gives_its_job_to_another_or_up(
    link: Link, store: sqlite3.Connection, losses: int, cancelling: int, stored: tuple[Any, ...]
) -> None:
    order = with_job(link, store, losses=losses)
    store.execute(f"UPDATE jobs SET cancelling = {cancelling}")
    link.give_back_job(order.job, "it left")
    assert one(store, "state, result, losses, reason", "jobs") == stored


# --------------------------------------------------------------------------------------------------------------- leases


def test_the_first_beat_registers_a_worker_of_this_process_and_what_it_can(
    store: sqlite3.Connection, tmp_path: Path
) -> None:
    links = [Link(a_config(tmp_path, capabilities=("gpu",))) for _ in range(2)]
    first, restarted = [link.beat(None).holder for link in links]
    assert first.worker != restarted.worker
    assert first.worker.startswith("i-1/")
    assert first.epoch == 1
    rows = store.execute("SELECT state, epoch, token, instance_id, lease, deadline - beat_at FROM workers").fetchall()
    assert rows == [("active", 1, 1, "i-1", 15.0, 15_000_000)] * 2
    assert all('["gpu"]' in card for (card,) in store.execute("SELECT card FROM cards"))
    for link in links:
        link.close()


def test_each_beat_raises_the_token_and_leaves_no_line_in_the_story(link: Link, store: sqlite3.Connection) -> None:
    for _ in range(3):
        link.beat(None)
    assert one(store, "token, version", "workers") == (3, 3)
    assert one(store, "step", "stories") == ("register",)


def test_a_beat_after_a_loss_brings_the_worker_back_in_a_new_epoch_that_holds_none_of_its_jobs(
    link: Link, store: sqlite3.Connection
) -> None:
    order = with_job(link, store)
    give_up(store)
    grant = link.beat(order.job)
    assert grant == Grant(replace(order.job.holder, epoch=2), resurrected=True)
    assert one(store, "state, epoch, lost_epoch, settled_epoch", "workers") == ("active", 2, 1, 0)
    assert one(store, "epoch, bound", "jobs") == (1, 0)


def test_a_worker_that_was_cleaned_up_or_forgotten_takes_a_new_key(link: Link, store: sqlite3.Connection) -> None:
    first = link.beat(None).holder
    store.execute("UPDATE workers SET state = 'cleaned-up', deadline = NULL")
    second = link.beat(None).holder
    store.execute("DELETE FROM workers WHERE id = ?", (second.worker,))
    third = link.beat(None).holder
    assert len({first.worker, second.worker, third.worker}) == 3
    assert third.epoch == 2  # after the one that the store has forgotten


def test_a_retired_worker_is_told_so(link: Link, store: sqlite3.Connection) -> None:
    link.beat(None)
    give_up(store)
    store.execute("UPDATE workers SET fate = 'retire'")
    assert link.beat(None).retired
    assert one(store, "state", "workers") == ("inactive",)


def test_an_answer_that_was_lost_costs_one_more_look_and_no_new_key(link: Link, store: sqlite3.Connection) -> None:
    before = link.beat(None).holder
    store.execute("UPDATE workers SET token = token + 1, request_id = 'of a beat whose answer was lost'")
    assert link.beat(None).holder == before
    assert one(store, "token", "workers") == (3,)


# --------------------------------------------------------------------------------------------------------- unreachable


def test_a_missing_file_is_a_store_out_of_reach_until_it_is_back(
    link: Link, store: sqlite3.Connection, tmp_path: Path
) -> None:
    put_record(store, RUNNING)
    link.beat(None)
    (tmp_path / "bullpen.db").rename(tmp_path / "aside")
    for attempt in (link.look, link.has_changed, lambda: link.beat(None), link.deregister):
        with pytest.raises(StoreUnreachable):
            attempt()
    (tmp_path / "aside").rename(tmp_path / "bullpen.db")
    assert link.look() == RUNNING


@pytest.mark.parametrize("content", [b"", b"not a database, and long enough to be looked at" * 100])
def test_a_file_that_is_not_ours_is_a_store_out_of_reach(link: Link, tmp_path: Path, content: bytes) -> None:
    link.beat(None)
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
