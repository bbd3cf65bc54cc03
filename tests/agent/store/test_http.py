"""The agent's way over HTTP: what it makes of each answer. The whole of it, with a real service, is in tests/server."""

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
from bullpen.agent.github.registration_token import NoPass, Pass
from bullpen.agent.progress import End, Holder, Job, Kind, Record, State
from bullpen.agent.store.connection import ServiceAway
from bullpen.agent.store.http import HttpLink
from bullpen.agent.store.log_buffer import CHUNK, MOST_KEPT, HttpLog
from bullpen.agent.store.sqlite import StoreUnreachable
from bullpen.agent.wakeup import Bell

INSTANCE = "i-00000000000000aa"
BEATEN = {"token": 1, "epoch": 1, "nextInSeconds": 5.0, "stop": [], "resurrected": False, "state": "active"}
ABSENCE = {"found": False, "seen": "0.0"}
RECORD = Record(State.RUNNING, "r", "a1", 0.0)


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
def link() -> Iterator[HttpLink]:
    config = Config(INSTANCE, Path("/"), Path("/"), 5.0, 60.0, 60.0, "", 1.0, (), serve_url="http://127.0.0.1:1")
    bell = Bell()
    link = HttpLink(config, bell)
    link._poll = Answers()  # type: ignore[assignment]
    yield link
    link.close()
    bell.close()


def answering(link: HttpLink, *answers: tuple[int, dict[str, Any]] | ServiceAway) -> Answers:
    link._caller = link._pulse = link._registrar = Answers(*answers)  # type: ignore[assignment]
    return link._caller  # type: ignore[return-value]


def a_job(worker: str, epoch: int = 1, **more: Any) -> Job:
    return Job("j-1", 1, "a1", 0.0, Holder(worker, epoch), **more)


def test_the_next_beat_comes_when_the_service_expects_it(link: HttpLink) -> None:
    answering(link, (200, BEATEN | {"nextInSeconds": 11.5}))
    assert link.beat(None).next_in == 11.5


def test_a_first_beat_says_who_we_are_and_the_next_one_does_not(link: HttpLink) -> None:
    asked = answering(link, (200, BEATEN), (200, BEATEN | {"token": 2})).asked
    link.beat(None)
    link.beat(None)
    assert asked[0][2]["metadata"]["buildId"] == build_id()
    assert "metadata" not in asked[1][2]
    assert (asked[0][2]["token"], asked[1][2]["token"]) == (0, 1)


def test_a_stop_names_the_last_token_and_epoch(link: HttpLink) -> None:
    asked = answering(link, (200, BEATEN), (200, {})).asked
    link.stop()  # before any beat there is nothing to say
    holder = link.beat(None).holder
    link.stop()
    assert asked[1][:2] == ("DELETE", f"/v1/workers/{holder.worker}?token=1&epoch=1")
    assert len(asked) == 2


def test_a_beat_says_when_the_machine_will_be_taken_and_what_fails_with_it(link: HttpLink) -> None:
    asked = answering(link, (200, BEATEN), (200, BEATEN | {"token": 2})).asked
    link.beat(None)
    link._config = replace(link._config, domain="zone-a")
    link.beat(None, datetime(2026, 11, 15, 13, 2, tzinfo=timezone(timedelta(hours=1))))
    assert "leavingAt" not in asked[0][2]
    assert (asked[1][2]["leavingAt"], asked[1][2]["domain"]) == ("2026-11-15T12:02:00Z", "zone-a")


def test_a_beat_without_an_answer_is_sent_again_as_the_same(link: HttpLink) -> None:
    asked = answering(link, ServiceAway("gone"), (200, BEATEN), (200, BEATEN)).asked
    with pytest.raises(StoreUnreachable):
        link.beat(None)
    link.beat(None)
    link.beat(None)
    assert asked[0][2]["requestId"] == asked[1][2]["requestId"] != asked[2][2]["requestId"]


def test_a_mismatch_is_mended_with_the_token_that_came_with_it(link: HttpLink) -> None:
    asked = answering(link, (409, {"error": "token-mismatch", "token": 7}), (200, BEATEN)).asked
    link.beat(None)
    assert asked[1][2]["token"] == 7


@pytest.mark.parametrize(("status", "error"), [(410, "cleaned-up"), (404, "unknown-worker")])
def test_a_key_that_is_over_is_replaced(link: HttpLink, status: int, error: str) -> None:
    asked = answering(link, (status, {"error": error}), (200, BEATEN)).asked
    grant = link.beat(None)
    keys = [body["workerInstanceKey"] for _, _, body in asked]
    assert keys[0] != keys[1] == grant.holder.worker
    assert all(key.startswith(f"{INSTANCE}/") for key in keys)


def test_a_retired_worker_is_told_so(link: HttpLink) -> None:
    answering(link, (410, {"error": "retired"}))
    assert link.beat(None).retired


def test_a_job_is_claimed_by_its_holder_and_asked_about_by_a_later_epoch(link: HttpLink) -> None:
    asked = answering(link, *[(200, BEATEN)] * 2, (200, BEATEN | {"epoch": 2}), (200, BEATEN)).asked
    key = link.beat(None).holder.worker
    for _ in range(3):
        link.beat(a_job(key))
    assert ["boundActivities" in body for _, _, body in asked] == [False, True, True, False]
    assert "runningActivities" in asked[3][2]


@pytest.mark.parametrize(("standing", "end"), [("cancelled", End.CANCELLED), ("lost", End.LOST), ("", None)])
def test_a_job_to_be_stopped_is_looked_at(link: HttpLink, standing: str, end: End | None) -> None:
    answering(link, (200, BEATEN), (200, BEATEN | {"stop": ["j-1"]}), (200, {"standing": standing}))
    job = a_job(link.beat(None).holder.worker)
    assert link.standing(job) is None
    link.has_changed()
    link.beat(job)
    assert link.has_changed()
    assert link.standing(job) is end


def test_an_absent_record_is_an_answer_and_no_answer_is_none(link: HttpLink) -> None:
    answering(link, (200, ABSENCE), ServiceAway("gone"))
    assert link.look() is ABSENT
    link._news = None
    with pytest.raises(StoreUnreachable):
        link.look()


def test_news_come_by_the_poll_also_where_the_first_look_had_no_answer(link: HttpLink) -> None:
    class Poll(Answers):
        def pause_left(self) -> float:
            return 0.0 if self.answers else 60.0

    link._poll = Poll((200, ABSENCE | {"seen": "1.0"}))  # type: ignore[assignment]
    answering(link, (503, {"error": "not now"}), (200, ABSENCE))
    with pytest.raises(StoreUnreachable):
        link.look()
    assert link.look() is ABSENT
    assert select.select([link._bell], [], [], 30.0)[0], "the poll rings"
    assert link.has_changed()


def test_a_signal_goes_on_from_what_an_agent_before_us_reached(link: HttpLink) -> None:
    reached = (200, ABSENCE | {"signalSeq": 9})
    asked = answering(link, (200, {"stored": False}), reached, (200, {"stored": True})).asked
    link.report(Kind.OK, RECORD, "")
    assert [body["seq"] for method, _, body in asked if method == "POST"] == [1, 10]


def test_a_registration_whose_answer_was_lost_is_taken_back_before_we_say_so(link: HttpLink) -> None:
    asked = answering(link, ServiceAway("no answer"), (200, {}), (200, {"stored": True}), (200, {"stored": True})).asked
    with pytest.raises(StoreUnreachable):
        link.register(RECORD)
    link.report(Kind.REMOVE_REG_OK, RECORD, "")
    assert [method for method, *_ in asked] == ["PUT", "DELETE", "POST"]
    link.report(Kind.REMOVE_REG_OK, RECORD, "")
    assert [method for method, *_ in asked[3:]] == ["POST"]


def test_a_runner_is_given_what_the_service_was_given_for_it(link: HttpLink) -> None:
    given: dict[str, Any] = {"runner": "bullpen.i-1.a1", "label": "r", "url": "https://github.com/acme", "token": "T"}
    given |= {"registered": True}
    asked = answering(link, (200, given), (200, {})).asked
    assert link.register(RECORD) == Pass("bullpen.i-1.a1", "r", "https://github.com/acme", token="T")
    link.deregister("bullpen.i-1.a1")
    assert [path.rpartition("/")[2] for _, path, _ in asked] == ["registration", "registration?runner=bullpen.i-1.a1"]


@pytest.mark.parametrize("registered", [True, False])
def test_where_there_is_nothing_to_be_given_a_runner_learns_whether_it_is_registered(
    link: HttpLink, registered: bool
) -> None:
    answering(link, (200, {"registered": registered}))
    assert link.register(RECORD) is registered


def test_why_the_ci_gives_nothing_is_for_people_to_read(link: HttpLink) -> None:
    answering(link, (200, {"registered": False, "refusal": "no such organisation"}))
    with pytest.raises(NoPass, match="no such organisation"):
        link.register(RECORD)


def test_a_beat_says_what_runs_here_for_another_ci(link: HttpLink) -> None:
    asked = answering(link, (200, BEATEN), (200, BEATEN)).asked
    link.beat(None, activity="build")
    link.beat(None)
    assert [body.get("activity") for _, _, body in asked] == ["build", None]


def test_the_result_of_a_lost_job_is_not_even_sent(link: HttpLink) -> None:
    asked = answering(link).asked
    assert link.settle_job(a_job("w", exit_code=0, end=End.LOST)) is False
    assert asked == []


def test_beats_and_signals_go_their_own_way_while_all_else_has_to_pause(link: HttpLink) -> None:
    answering(link, *[ServiceAway("429")] * 4)  # the fourth: what is left of the log, when the link is closed
    link._pulse = Answers((200, BEATEN), (200, {"stored": True}), (200, BEATEN))  # type: ignore[assignment]
    link.open_log(a_job("w")).write(b"x" * CHUNK)
    for ask in (link.look, lambda: link.take_job(RECORD)):
        with pytest.raises(StoreUnreachable):
            ask()
    link.beat(None)
    link.report(Kind.OK, RECORD, "")
    link.beat(None)


def test_a_beat_that_has_to_pause_holds_up_nothing_else(link: HttpLink) -> None:
    answering(link, (200, {"job": None}))
    link._pulse = Answers(ServiceAway("429"))  # type: ignore[assignment]
    with pytest.raises(StoreUnreachable):
        link.beat(None)
    assert link.take_job(RECORD) is None


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


def test_output_that_nobody_takes_does_not_fill_the_memory() -> None:
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
