"""Failures of a server: answers that are late, lost or ask to try again; and signals during a request."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from action.answering import OPERATION, PROGRESS, Answer, answering
from action.asking import JOB
from action.steps import PATIENCE, StepResult, run_action, start_action
from bullpen.action import serve_client, via_server
from bullpen.action.cancellation import Stopping
from bullpen.action.http import NoAnswer, exchange
from bullpen.action.inputs import read
from bullpen.action.serve_client import report_of
from bullpen.action.via_server import warn_of_plain_text
from bullpen.errors import BullpenError, Unavailable
from bullpen.model.progress import ProgressReport, WorkPhase
from free_ports import a_free_port

pytestmark = pytest.mark.slow
MET: dict[str, Any] = {
    **OPERATION,
    "state": "succeeded",
    "result": {"requested": 1, "instances": [{"instanceId": "i-1", "origin": "selected"}]},
}


def provisioned(url: str, folder: Path, **inputs: str) -> StepResult:
    return run_action({"mode": "provision", "server": url, "server-token": "bp_operator", **inputs}, {}, folder)


def test_a_signal_while_the_operation_begins_still_cancels_it(tmp_path: Path) -> None:
    """The answer that is on its way has the id: without it the operation could not be cancelled."""
    asked, go_on = threading.Event(), threading.Event()
    stopped = {**OPERATION, "state": "failed", "reason": "stopped", "result": {"requested": 1}}

    def answer(method: str, path: str) -> Answer:
        if method == "POST":
            asked.set()
            go_on.wait(PATIENCE)
            return 202, OPERATION
        return 202 if method == "DELETE" else 200, stopped

    with answering(answer) as stub:
        step = start_action({"mode": "provision", "server": stub.url, "server-token": "bp_operator"}, {}, tmp_path)
        assert asked.wait(PATIENCE)
        ran = step.cancel(threading.Timer(0.3, go_on.set).start)
    assert ran.code == 130, ran.log
    assert ran.seconds < 7.5
    assert stub.asked[:2] == ["POST /v1/runs/4711/provision", "DELETE /v1/operations/op-1"]


def test_a_step_that_is_cancelled_without_an_answer_releases_its_label(tmp_path: Path) -> None:
    """The operation may have begun, and the step does not know its id."""
    asked, released = threading.Event(), {**OPERATION, "state": "succeeded", "result": {"terminated": ["i-1"]}}

    def answer(method: str, path: str) -> Answer:
        if path.endswith("/provision"):
            asked.set()
            over.wait(PATIENCE)
        return 202, released

    with answering(answer) as stub:
        over = threading.Event()
        step = start_action({"mode": "provision", "server": stub.url, "server-token": "bp_operator"}, {}, tmp_path)
        assert asked.wait(PATIENCE)
        ran = step.cancel()
        over.set()
    assert (ran.code, ran.outputs["label"]) == (130, "4711")
    assert ran.seconds < 7.5
    assert stub.asked == ["POST /v1/runs/4711/provision", "POST /v1/runs/4711/release"]
    assert "all runners of 4711 were released" in ran.errors[0]


def test_a_step_that_is_cancelled_before_anything_was_begun_releases_nothing(tmp_path: Path) -> None:
    """The label's runners are those of an earlier step, whose jobs may run."""
    busy: Answer = (429, {"error": "too busy"}, {"retry-after": "20"})
    with answering(lambda method, path: busy) as stub:
        step = start_action({"mode": "provision", "server": stub.url, "server-token": "bp_operator"}, {}, tmp_path)
        step.wait_for("waiting for up to")
        ran = step.cancel()
    assert ran.code == 130, ran.log
    assert stub.asked == ["POST /v1/runs/4711/provision"]
    assert "cancelled before the work began" in ran.errors[0]


@pytest.mark.parametrize("status", [404, 409])
def test_an_operation_that_cannot_be_cancelled_is_released(status: int, tmp_path: Path) -> None:
    """It runs in another process, or the server does not know it any more."""

    def answer(method: str, path: str) -> Answer:
        if path.endswith("/release"):
            return 202, {**OPERATION, "state": "succeeded", "result": {}}
        return (status, {"error": "runs elsewhere"}) if method == "DELETE" else (202, OPERATION)

    with answering(answer) as stub:
        step = start_action({"mode": "provision", "server": stub.url, "server-token": "bp_operator"}, {}, tmp_path)
        step.wait_for("0 of 1 ready")
        ran = step.cancel()
    assert ran.code == 130
    told = [line for line in stub.asked if not line.startswith("GET")]
    assert told[1:] == ["DELETE /v1/operations/op-1", "POST /v1/runs/4711/release"]


def test_a_lost_answer_is_requested_with_the_same_key_and_a_lost_operation_with_another(tmp_path: Path) -> None:
    lost = {**OPERATION, "state": "lost", "reason": "its process has ended"}
    answers: list[Answer] = [
        (502, {}),
        (202, lost),
        (202, OPERATION),
        (404, {"error": "no such operation"}),
        (202, MET),
    ]
    with answering(lambda method, path: answers.pop(0)) as stub:
        ran = provisioned(stub.url, tmp_path)
    assert ran.code == 0, ran.log
    first, again, second, _, third = stub.keys
    assert first == again != ""
    assert len({first, second, third}) == 3


def test_only_a_refusal_of_the_first_request_proves_that_nothing_began(tmp_path: Path) -> None:
    with answering(lambda method, path: (500, {})) as stub:
        failed = provisioned(stub.url, tmp_path, **{"label-by": "attempt"})
    assert (failed.code, stub.asked) == (75, ["POST /v1/runs/4711-1/provision"])
    assert "is not known" in failed.errors[0]
    assert failed.outputs["label"] == "4711-1"
    answers: list[Answer] = [(502, {}), (403, {"error": "no"})]
    with answering(lambda method, path: answers.pop(0)) as stub:
        refused = provisioned(stub.url, tmp_path)
    assert "is not known" in refused.errors[0]
    with answering(lambda method, path: (403, {"error": "no"})) as stub:
        assert "nothing was done" in provisioned(stub.url, tmp_path).summary


def test_a_refusal_of_the_server_names_the_input_as_the_workflow_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Answer] = [
        (403, {"error": "maxRuntimeMin 361: is too much", "field": "maxRuntimeMin", "remedy": "Ask for less."}),
        (400, {"error": "allowedInstanceTypes[0]: expected 'str'", "field": "allowedInstanceTypes[0]"}),
        (400, {"error": "resourceClass 'huge': unknown", "field": "resourceClass"}),
        (400, {"error": "the body is not JSON"}),
    ]
    given = read({"mode": "start", "server": "http://127.0.0.1", "server-token": "x", "max-lifetime-minutes": "361"})
    caught = []
    with answering(lambda method, path: said.pop(0)) as stub:
        asked = replace(given, given={**given.given, "server": stub.url})
        while said:
            with pytest.raises(BullpenError) as error:
                via_server.run(asked, JOB, "4711", {}, Stopping(), print)
            caught.append((str(error.value).removeprefix(f"{stub.url}: "), error.value.remedy))
    assert caught == [
        ("max-lifetime-minutes 361: is too much", "Ask for less."),
        ("allowed-instance-types[0]: expected 'str'", ""),
        ("resource-class 'huge': unknown", ""),
        ("the body is not JSON", ""),
    ]


def test_a_server_that_is_not_bullpen_is_an_invalid_input(tmp_path: Path) -> None:
    with answering(lambda method, path: (200, {"hello": "world"})) as stub:
        ran = provisioned(stub.url, tmp_path)
    assert ran.code == 2
    assert ran.errors[0].startswith(f"server {stub.url}: does not answer like `bullpen serve`")


def test_a_busy_server_has_a_longer_time_out_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    stopping = Stopping()
    monkeypatch.setattr(stopping, "pause", slept.append)
    monkeypatch.setattr(serve_client, "PATIENCE", 1.0)
    monkeypatch.setattr(serve_client, "BUSY_PATIENCE", 7.0)
    found = serve_client.Server("", lambda patience: "", stopping)
    answers: list[Answer] = [(429, {"error": "busy"}, {"retry-after": "5"}), (202, OPERATION)]
    with answering(lambda method, path: answers.pop(0)) as stub:
        found.url = stub.url
        assert found.begin("release", "4711", None, "key") == OPERATION
        assert (slept, found.unanswered) == ([5.0], False)
        answers += [(429, {}, {"retry-after": "9"})]
        with pytest.raises(Unavailable) as caught:
            found.begin("release", "4711", None, "key")
    assert caught.value.remedy == serve_client.IS_BUSY


def test_nothing_began_if_the_server_was_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_client, "PATIENCE", 0.0)
    found = serve_client.Server(f"http://127.0.0.1:{a_free_port()}", lambda patience: "", Stopping())
    with pytest.raises(Unavailable, match="refused"):
        found.begin("provision", "4711", None, "key")
    assert not found.unanswered
    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror("name not known")))
        with pytest.raises(Unavailable, match="not known"):
            found.begin("provision", "4711", None, "key")
    assert not found.unanswered
    with answering(lambda method, path: (502, {})) as stub:
        found.url = stub.url
        with pytest.raises(Unavailable):
            found.begin("provision", "4711", None, "key")
        assert found.unanswered


def test_an_answer_that_arrives_byte_by_byte_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            caller, _ = listening.accept()
            with caller, suppress(OSError):
                caller.sendall(b"HTTP/1.1 202 Accepted\r\ncontent-length: 1000000\r\n\r\n")
                while not over.wait(0.05) and time.monotonic() < ends:
                    caller.sendall(b" ")
                whole.set()
                caller.sendall(b" " * 1000000)

        over, whole = threading.Event(), threading.Event()
        ends = time.monotonic() + PATIENCE  # a caller that waits for the whole answer gets it then
        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NoAnswer, match="timed out"):
            exchange("GET", f"http://127.0.0.1:{listening.getsockname()[1]}/", patience=0.4)
        assert not whole.is_set()
        over.set()
        thread.join()


def test_text_from_the_server_is_never_a_workflow_command(tmp_path: Path) -> None:
    text = "0 of 1\n::set-output name=label::evil\nx ##[set-output name=label]evil"
    theirs = {**OPERATION, "progress": {**PROGRESS, "text": text}}
    answers: list[Answer] = [(202, theirs), (200, MET)]
    with answering(lambda method, path: answers.pop(0)) as stub:
        log = provisioned(stub.url, tmp_path).log
    assert "bullpen: 0 of 1\n\\::set-output name=label::evil\nx #\\#[set-output name=label]evil\n" in log


def test_a_request_is_repeated_while_the_server_restarts(tmp_path: Path) -> None:
    answers: list[Answer] = [
        (503, {"error": "starting"}, {"retry-after": "1"}),
        (202, OPERATION),
        (502, {}),
        (200, MET),
    ]
    with answering(lambda method, path: answers.pop(0)) as stub:
        ran = provisioned(stub.url, tmp_path)
    assert ran.code == 0, ran.log
    assert ran.outputs["instance-ids"] == '["i-1"]'
    assert [line.split()[0] for line in stub.asked] == ["POST", "POST", "GET", "GET"]


def test_an_operation_whose_process_died_fails_with_an_unknown_outcome(tmp_path: Path) -> None:
    lost = {**OPERATION, "state": "lost", "reason": "the process that ran it has ended"}
    with answering(lambda method, path: (202 if method == "POST" else 200, lost)) as stub:
        ran = provisioned(stub.url, tmp_path)
    assert (ran.code, len(stub.asked)) == (1, 3)
    assert "Run the job again" in ran.errors[0]
    assert "Nothing" not in ran.errors[0]


def test_a_redirect_does_not_send_the_token_to_another_host(tmp_path: Path) -> None:
    with answering(lambda method, path: (200, {})) as elsewhere:
        location = {"location": f"{elsewhere.url}/v1/operations/op-1"}
        moved: Answer = (302, {}, location)
        with answering(lambda method, path: (202, OPERATION) if method == "POST" else moved) as stub:
            ran = provisioned(stub.url, tmp_path)
    assert ran.code == 1
    assert elsewhere.asked == []


def test_an_expired_token_is_replaced(tmp_path: Path) -> None:
    """A run's token lasts for a quarter of an hour."""
    bought: list[str] = []
    identities: list[Answer] = [(503, {})]  # GitHub's own bad moment

    def answer(method: str, path: str) -> Answer:
        if path == "/identity":
            return identities.pop(0) if identities else (200, {"value": "an.identity.of.the.job"})
        if path == "/v1/oidc/token":
            bought.append(f"bpr_of_this_run_{len(bought)}")
            return 200, {"token": bought[-1]}
        if method == "POST":
            return 202, OPERATION
        return (401, {"error": "expired"}) if len(bought) < 2 else (200, MET)

    with answering(answer) as stub:
        environ = {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{stub.url}/identity?api-version=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of the job",
        }
        step = start_action({"mode": "provision", "server": stub.url}, environ, tmp_path)
        ran = step.end()
    assert ran.code == 0, ran.log
    assert stub.tokens[0] == "Bearer of the job"
    assert stub.tokens[-1] == "Bearer bpr_of_this_run_1"
    for secret in (*bought, "an.identity.of.the.job"):
        assert f"::add-mask::{secret}\n" in step.log()
        assert secret not in ran.log + ran.summary


@pytest.mark.parametrize(
    ("url", "warned"),
    [("http://bullpen.example.com", True), ("https://bullpen.example.com", False), ("http://127.0.0.1:8420", False)],
)
def test_an_unencrypted_connection_causes_a_warning(url: str, warned: bool, capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_plain_text(url)
    assert ("::warning::" in capsys.readouterr().out) is warned


def test_a_server_shows_its_token_to_no_log() -> None:
    assert "s3cret" not in repr(serve_client.Server("https://x", lambda within: "", Stopping(), {}, "s3cret"))


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("", None),
        (None, None),
        ("1 of 2 ready", ProgressReport(WorkPhase.ACQUIRE, "1 of 2 ready", about="1 of 2 ready")),
        (
            {"phase": "acquire", "text": "1 of 2 ready", "done": 1, "total": 2, "waiting": {"create": 1, "new": 1}},
            ProgressReport(WorkPhase.ACQUIRE, "1 of 2 ready", 1, 2, waiting={WorkPhase.CREATE: 1}),
        ),
        ({"phase": "new", "text": "x"}, ProgressReport(WorkPhase.ACQUIRE, "x", about="new")),
        (
            {"phase": "acquire", "text": "x", "done": None, "total": "many", "waiting": [1]},
            ProgressReport(WorkPhase.ACQUIRE, "x"),
        ),
    ],
)
def test_progress_is_read_from_an_older_and_from_a_newer_server(sent: object, read: ProgressReport | None) -> None:
    assert report_of(sent) == read
