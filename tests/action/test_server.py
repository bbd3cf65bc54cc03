"""A server on a bad day: answers that are late, lost, or ask to come back; and a signal at the worst moment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from action.answering import OPERATION, Answer, answering
from action.steps import Ran, run_action, start_action
from bullpen.action.served import warn_of_plain_text

pytestmark = pytest.mark.slow
MET: dict[str, Any] = {
    **OPERATION,
    "state": "succeeded",
    "result": {"requested": 1, "instances": [{"instanceId": "i-1", "origin": "selected"}]},
}


def provisioned(url: str, folder: Path, **inputs: str) -> Ran:
    return run_action({"mode": "provision", "server": url, "server-token": "bp_operator", **inputs}, {}, folder)


def test_a_signal_while_the_operation_begins_still_calls_it_off(tmp_path: Path) -> None:
    """Its id is in the answer that is on its way: without it nobody could be told."""
    asked, go_on = threading.Event(), threading.Event()
    stopped = {**OPERATION, "state": "failed", "reason": "stopped", "result": {"requested": 1}}

    def answer(method: str, path: str) -> Answer:
        if method == "POST":
            asked.set()
            go_on.wait(30)
            return 202, OPERATION
        return 202 if method == "DELETE" else 200, stopped

    with answering(answer) as stub:
        step = start_action({"mode": "provision", "server": stub.url, "server-token": "bp_operator"}, {}, tmp_path)
        assert asked.wait(30)
        threading.Timer(0.3, go_on.set).start()
        ran = step.cancel()
    assert ran.code == 130, ran.log
    assert ran.seconds < 7.5
    assert stub.asked[:2] == ["POST /v1/runs/4711/provision", "DELETE /v1/operations/op-1"]


def test_a_server_that_is_away_for_a_moment_is_asked_again(tmp_path: Path) -> None:
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


def test_an_operation_that_nobody_runs_any_more_is_a_failure_of_which_nothing_is_claimed(tmp_path: Path) -> None:
    lost = {**OPERATION, "state": "lost", "reason": "the process that ran it has ended"}
    with answering(lambda method, path: (202 if method == "POST" else 200, lost)) as stub:
        ran = provisioned(stub.url, tmp_path)
    assert ran.code == 1
    assert "Run the job again" in ran.errors[0]
    assert "Nothing" not in ran.errors[0]


def test_a_token_is_not_taken_along_to_another_host(tmp_path: Path) -> None:
    with answering(lambda method, path: (200, {})) as elsewhere:
        location = {"location": f"{elsewhere.url}/v1/operations/op-1"}
        moved: Answer = (302, {}, location)
        with answering(lambda method, path: (202, OPERATION) if method == "POST" else moved) as stub:
            ran = provisioned(stub.url, tmp_path)
    assert ran.code == 1
    assert elsewhere.asked == []


def test_an_identity_that_has_run_out_is_shown_anew(tmp_path: Path) -> None:
    """A run's token lasts for a quarter of an hour."""
    bought: list[str] = []

    def answer(method: str, path: str) -> Answer:
        if path == "/identity":
            return 200, {"value": "an.identity.of.the.job"}
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
def test_a_token_in_plain_text_is_warned_of(url: str, warned: bool, capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_plain_text(url)
    assert ("::warning::" in capsys.readouterr().out) is warned
