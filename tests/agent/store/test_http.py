"""The agent's store over HTTP: what it makes of each answer. With a real server behind it, it is in
tests/conformance/test_agent_store.py."""

from __future__ import annotations

import select
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from bullpen.agent.build import build_id
from bullpen.agent.config import Config
from bullpen.agent.decide import ABSENT
from bullpen.agent.progress import End, HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import NoCredentials, OwnList, RunnerCredentials, StillBusy, StoreUnreachable
from bullpen.agent.store.connection import CHUNK, MOST_KEPT, HttpLog, ServiceAway
from bullpen.agent.store.http import HttpStore
from bullpen.agent.wakeup import ThreadWakeup
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.scale_set import SetEvents, SetRepository
from bullpen.model.served_set import ServedSet

INSTANCE = "i-00000000000000aa"
BEATEN = {"token": 1, "epoch": 1, "nextInSeconds": 5.0, "stop": [], "resurrected": False, "state": "active"}
ABSENCE = {"found": False, "seen": "0.0"}
RECORD = InstanceRecord(InstanceState.RUNNING, "r", "a1", 0.0)


class Answers:
    """In place of a `Caller`: the next answer for each request, and what was asked."""

    def __init__(self, *answers: tuple[int, dict[str, Any]] | ServiceAway) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        self.asked.append((method, path, body))
        answer = self.answers.pop(0)
        if isinstance(answer, ServiceAway):
            raise answer
        return answer

    def pause_left(self) -> float:
        return 60.0

    def close(self) -> None:
        pass


@pytest.fixture
def store() -> Iterator[HttpStore]:
    config = Config(INSTANCE, Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 1.0, (), serve_url="http://127.0.0.1:1")
    bell = ThreadWakeup()
    store = HttpStore(config, bell)
    store._poll = Answers()  # type: ignore[assignment]
    yield store
    store.close()
    bell.close()


def answering(store: HttpStore, *answers: tuple[int, dict[str, Any]] | ServiceAway) -> Answers:
    store._caller = store._pulse = store._registrar = Answers(*answers)  # type: ignore[assignment]
    return store._caller  # type: ignore[return-value]


def a_job(worker: str, epoch: int = 1, **more: Any) -> HeldJob:
    return HeldJob("j-1", 1, "a1", 0.0, LeaseHolder(worker, epoch), **more)


def test_the_next_beat_comes_when_the_service_expects_it(store: HttpStore) -> None:
    answering(store, (200, BEATEN | {"nextInSeconds": 11.5}))
    assert store.beat(None).next_in == 11.5


def test_only_the_first_beat_describes_the_worker(store: HttpStore) -> None:
    asked = answering(store, (200, BEATEN), (200, BEATEN | {"token": 2})).asked
    store.beat(None)
    store.beat(None)
    assert asked[0][2]["metadata"]["buildId"] == build_id()
    assert "metadata" not in asked[1][2]
    assert (asked[0][2]["token"], asked[1][2]["token"]) == (0, 1)


def test_a_stop_names_the_last_token_and_epoch(store: HttpStore) -> None:
    asked = answering(store, (200, BEATEN), (200, {})).asked
    store.stop()  # before any beat there is nothing to say
    holder = store.beat(None).holder
    store.stop()
    assert asked[1][:2] == ("DELETE", f"/v1/workers/{holder.worker}?token=1&epoch=1")
    assert len(asked) == 2


def test_a_beat_says_when_the_machine_will_be_taken_and_what_fails_with_it(store: HttpStore) -> None:
    asked = answering(store, (200, BEATEN), (200, BEATEN | {"token": 2})).asked
    store.beat(None)
    store._config = replace(store._config, domain="zone-a")
    store.beat(None, datetime(2026, 11, 15, 13, 2, tzinfo=timezone(timedelta(hours=1))))
    assert "leavingAt" not in asked[0][2]
    assert (asked[1][2]["leavingAt"], asked[1][2]["domain"]) == ("2026-11-15T12:02:00Z", "zone-a")


def test_a_beat_without_an_answer_is_sent_again_as_the_same(store: HttpStore) -> None:
    asked = answering(store, ServiceAway("gone"), (200, BEATEN), (200, BEATEN)).asked
    with pytest.raises(StoreUnreachable):
        store.beat(None)
    store.beat(None)
    store.beat(None)
    assert asked[0][2]["requestId"] == asked[1][2]["requestId"] != asked[2][2]["requestId"]


def test_a_mismatch_is_mended_with_the_token_that_came_with_it(store: HttpStore) -> None:
    asked = answering(store, (409, {"error": "token-mismatch", "token": 7}), (200, BEATEN)).asked
    store.beat(None)
    assert asked[1][2]["token"] == 7


@pytest.mark.parametrize(("status", "error"), [(410, "cleaned-up"), (404, "unknown-worker")])
def test_a_key_that_is_over_is_replaced(store: HttpStore, status: int, error: str) -> None:
    asked = answering(store, (status, {"error": error}), (200, BEATEN)).asked
    grant = store.beat(None)
    keys = [body["workerInstanceKey"] for _, _, body in asked]
    assert keys[0] != keys[1] == grant.holder.worker
    assert all(key.startswith(f"{INSTANCE}/") for key in keys)


def test_a_retired_worker_learns_that_it_is_retired(store: HttpStore) -> None:
    answering(store, (410, {"error": "retired"}))
    assert store.beat(None).retired


def test_a_job_is_claimed_by_its_holder_and_asked_about_by_a_later_epoch(store: HttpStore) -> None:
    asked = answering(store, *[(200, BEATEN)] * 2, (200, BEATEN | {"epoch": 2}), (200, BEATEN)).asked
    key = store.beat(None).holder.worker
    for _ in range(3):
        store.beat(a_job(key))
    assert ["boundActivities" in body for _, _, body in asked] == [False, True, True, False]
    assert "runningActivities" in asked[3][2]


@pytest.mark.parametrize(("standing", "end"), [("cancelled", End.CANCELLED), ("lost", End.LOST), ("", None)])
def test_a_job_to_be_stopped_is_looked_at(store: HttpStore, standing: str, end: End | None) -> None:
    answering(store, (200, BEATEN), (200, BEATEN | {"stop": ["j-1"]}), (200, {"standing": standing}))
    job = a_job(store.beat(None).holder.worker)
    assert store.standing(job) is None
    store.has_changed()
    store.beat(job)
    assert store.has_changed()
    assert store.standing(job) is end


def test_an_absent_record_is_an_answer_and_a_missing_answer_is_not(store: HttpStore) -> None:
    answering(store, (200, ABSENCE), ServiceAway("gone"))
    assert store.read_record() is ABSENT
    store._news = None
    with pytest.raises(StoreUnreachable):
        store.read_record()


def test_news_come_by_the_poll_also_where_the_first_look_had_no_answer(store: HttpStore) -> None:
    class Poll(Answers):
        def pause_left(self) -> float:
            return 0.0 if self.answers else 60.0

    store._poll = Poll((200, ABSENCE | {"seen": "1.0"}))  # type: ignore[assignment]
    answering(store, (503, {"error": "not now"}), (200, ABSENCE))
    with pytest.raises(StoreUnreachable):
        store.read_record()
    assert store.read_record() is ABSENT
    assert select.select([store._bell], [], [], 30.0)[0], "the poll rings"
    assert store.has_changed()


def test_a_signal_continues_the_sequence_of_an_earlier_process(store: HttpStore) -> None:
    reached = (200, ABSENCE | {"signalSeq": 9})
    asked = answering(store, (200, {"stored": False}), reached, (200, {"stored": True})).asked
    store.report(SignalKind.OK, RECORD, "")
    assert [body["seq"] for method, _, body in asked if method == "POST"] == [1, 10]


def test_a_registration_whose_answer_was_lost_is_removed_before_its_removal_is_reported(store: HttpStore) -> None:
    asked = answering(
        store, ServiceAway("no answer"), (200, {}), (200, {"stored": True}), (200, {"stored": True})
    ).asked
    with pytest.raises(StoreUnreachable):
        store.register(RECORD)
    store.report(SignalKind.REMOVE_REG_OK, RECORD, "")
    assert [method for method, *_ in asked] == ["PUT", "DELETE", "POST"]
    store.report(SignalKind.REMOVE_REG_OK, RECORD, "")
    assert [method for method, *_ in asked[3:]] == ["POST"]


def test_a_runner_is_given_what_the_service_was_given_for_it(store: HttpStore) -> None:
    given: dict[str, Any] = {"runner": "bullpen.i-1.a1", "label": "r", "url": "https://github.com/acme", "token": "T"}
    given |= {"registered": True}
    asked = answering(store, (200, given), (200, {})).asked
    assert store.register(RECORD) == RunnerCredentials("bullpen.i-1.a1", "r", "https://github.com/acme", token="T")
    store.deregister("bullpen.i-1.a1")
    assert [path.rpartition("/")[2] for _, path, _ in asked] == ["registration", "registration?runner=bullpen.i-1.a1"]


SET_ANSWER = {"registered": True, "runner": "n", "label": "set:m", "jit": "J", "id": 7}


def test_a_runner_of_a_set_learns_which_jobs_it_may_execute(store: HttpStore) -> None:
    store._config = replace(store._config, ci="github")
    serves = {"name": "m", "events": "any", "repositories": [{"name": "a/b", "id": 5}, {"name": "a/c"}]}
    answering(store, (200, SET_ANSWER | {"serves": serves}))
    served = ServedSet("m", SetEvents.ANY, (SetRepository("a/b", 5), SetRepository("a/c")))
    assert store.register(RECORD) == RunnerCredentials("n", "set:m", jit="J", id=7, serves=served)


def test_only_an_agent_of_a_set_says_that_it_knows_sets_and_which_job_it_refused(store: HttpStore) -> None:
    asked = answering(store, *[(200, {"registered": False})] * 3).asked
    store.register(RECORD, "none of a run is reported")
    store.register(replace(RECORD, run_id="set:m"))
    store.register(replace(RECORD, run_id="set:m"), "x" * (REASON_LENGTH + 1))
    run, member = {"runId": "r", "round": "a1"}, {"runId": "set:m", "round": "a1", "knowsSets": True}
    assert [body for *_, body in asked] == [run, member, member | {"refusedJob": "x" * REASON_LENGTH}]


def test_a_runner_that_the_service_does_not_remove_is_busy_and_not_in_doubt(store: HttpStore) -> None:
    asked = answering(store, (409, {"error": "conflict"}), (503, {"error": "away"}), (200, {"stored": True})).asked
    with pytest.raises(StillBusy):
        store.deregister("bullpen.i-1.a1")
    assert not store._may_be_registered
    with pytest.raises(StoreUnreachable) as caught:
        store.deregister("bullpen.i-1.a1")
    assert not isinstance(caught.value, StillBusy)
    assert store._may_be_registered
    assert len(asked) == 2


def test_a_runner_of_a_set_whose_rules_it_does_not_know_does_not_register(store: HttpStore) -> None:
    store._config = replace(store._config, ci="github")
    answering(store, (200, SET_ANSWER | {"serves": {"name": "m", "events": "some"}}))
    with pytest.raises(NoCredentials, match="rules for its scale set that this agent does not know"):
        store.register(RECORD)


@pytest.mark.parametrize("registered", [True, False])
def test_without_credentials_the_answer_says_whether_the_runner_is_registered(
    store: HttpStore, registered: bool
) -> None:
    answering(store, (200, {"registered": registered}))
    assert store.register(RECORD) is (OwnList.LISTED if registered else OwnList.MOVED_ON)


def test_the_reason_for_missing_credentials_is_readable(store: HttpStore) -> None:
    answering(store, (200, {"registered": False, "refusal": "no such organisation"}))
    with pytest.raises(NoCredentials, match="no such organisation"):
        store.register(RECORD)


def test_a_beat_says_what_runs_here_for_another_ci(store: HttpStore) -> None:
    asked = answering(store, (200, BEATEN), (200, BEATEN)).asked
    store.beat(None, activity="build")
    store.beat(None)
    assert [body.get("activity") for _, _, body in asked] == ["build", None]


def test_the_result_of_a_lost_job_is_not_even_sent(store: HttpStore) -> None:
    asked = answering(store).asked
    assert store.settle_job(a_job("w", exit_code=0, end=End.LOST)) is False
    assert asked == []


def test_beats_and_signals_go_their_own_way_while_all_else_has_to_pause(store: HttpStore) -> None:
    answering(store, *[ServiceAway("429")] * 4)  # the fourth: what is left of the log, when the store is closed
    store._pulse = Answers((200, BEATEN), (200, {"stored": True}), (200, BEATEN))  # type: ignore[assignment]
    store.open_log(a_job("w")).write(b"x" * CHUNK)
    for ask in (store.read_record, lambda: store.take_job(RECORD)):
        with pytest.raises(StoreUnreachable):
            ask()
    store.beat(None)
    store.report(SignalKind.OK, RECORD, "")
    store.beat(None)


def test_a_beat_that_has_to_pause_holds_up_nothing_else(store: HttpStore) -> None:
    answering(store, (200, {"job": None}))
    store._pulse = Answers(ServiceAway("429"))  # type: ignore[assignment]
    with pytest.raises(StoreUnreachable):
        store.beat(None)
    assert store.take_job(RECORD) is None


# ---- logs


def test_output_waits_while_the_service_is_away_and_goes_on_where_it_was() -> None:
    answers = Answers(ServiceAway("gone"), (200, {}), (200, {}))
    log = HttpLog(answers, "/log", 3)  # type: ignore[arg-type]
    log.write(b"one ")
    log.flush(at_once=True)
    log.write(b"two")
    log.flush(at_once=True)
    log.write(b" three")
    log.close()
    assert [(path, body) for _, path, body in answers.asked[1:]] == [
        ("/log?fence=3&offset=0", b"one two"),
        ("/log?fence=3&offset=7", b" three"),
    ]
    assert log.is_over


def test_output_that_the_server_does_not_take_does_not_fill_the_memory() -> None:
    log = HttpLog(Answers(*[ServiceAway("gone")] * 5), "/log", 1)  # type: ignore[arg-type]
    for _ in range(5):
        log.write(b"x" * MOST_KEPT)
    assert len(log._waiting) == MOST_KEPT


def test_a_log_that_is_refused_is_over() -> None:
    log = HttpLog(Answers((409, {})), "/log", 1)  # type: ignore[arg-type]
    log.write(b"late")
    log.close()
    log.write(b"later")
    assert log.is_over
