"""A command whose server does not answer: found within seconds at its start, and waited for later."""

from __future__ import annotations

import json
import threading

import pytest

from bullpen.cli import remote_pool
from bullpen.client.answers import Reply
from bullpen.client.requester import Requester
from bullpen.client.transport import HttpRequest
from client.stand_ins import OURS, answering
from client.test_bad_servers import STATUS
from command_line import CommandLine

ALIVE = (200, OURS, b'{"alive":true}')


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_pool, "FIRST_CONTACT", 0.4)
    monkeypatch.setattr(remote_pool, "PATIENCE", 0.1)


@pytest.mark.usefixtures("at_once")
def test_a_server_that_takes_connections_and_answers_nothing_is_given_up_in_seconds(bullpen: CommandLine) -> None:
    never = threading.Event()

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        never.wait(600)
        return ALIVE

    with answering(answer) as (where, _):
        ran = bullpen("--server", f"http://{where}", "status")
        never.set()
    assert ran.code == 75
    assert f"bullpen: connecting to http://{where}, giving up after 0.4 s\n" in ran.err
    assert f"bullpen: error: http://{where}: does not answer (no answer in 0.4 s)" in ran.err


@pytest.mark.usefixtures("at_once")
def test_a_proxy_whose_server_is_away_is_given_up_before_anything_is_asked_for(bullpen: CommandLine) -> None:
    with answering(lambda *_: (502, {"content-type": "text/html"}, b"<html>")) as (where, asked):
        ran = bullpen("--server", f"http://{where}", "provision", "--run-id", "4711", "--count", "1")
    assert ran.code == 75
    assert "a proxy in front of the server answered 502" in ran.err
    assert set(asked) == {"GET /healthz"}


def test_the_first_contact_lasts_a_few_seconds() -> None:
    assert remote_pool.FIRST_CONTACT < 10.0


async def test_a_server_that_answered_once_may_take_its_time_with_what_it_is_asked() -> None:
    class Recorded:
        def __init__(self) -> None:
            self.asked: list[HttpRequest] = []

        async def exchange(self, request: HttpRequest) -> Reply:
            self.asked.append(request)
            return Reply(*ALIVE)

    transport = Recorded()
    requester = Requester(transport, "http://127.0.0.1:8420", 30.0)  # type: ignore[arg-type]
    await requester.reach(5.0)
    await requester.reply(HttpRequest("GET", "/v1/status"))
    first, second = transport.asked
    assert first.path == "/healthz"
    assert first.timeout is not None
    assert first.timeout <= 5.0
    assert (second.path, second.timeout) == ("/v1/status", None)


def test_a_server_that_goes_away_in_the_middle_of_a_command_is_waited_for_and_the_progress_says_so(
    bullpen: CommandLine,
) -> None:
    lost: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        if path == "/v1/status" and not lost:
            lost.append(path)
            raise ConnectionError  # it hangs up
        empty = {"runs": [], "instances": [], "next": ""}
        content = {"/healthz": b'{"alive":true}', "/v1/status": STATUS}.get(path, json.dumps(empty).encode())
        return 200, OURS, content

    with answering(answer) as (where, asked):
        ran = bullpen("--server", f"http://{where}", "status")
    assert ran.code == 0, ran.err
    assert asked.count("GET /v1/status") == 2
    assert f"bullpen: http://{where}: does not answer (" in ran.err
    assert "; asking again, giving up in " in ran.err
