"""Requests of an agent to the service: kept connections, time-outs, and pauses that grow and differ."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from bullpen.agent.store.connection import FIRST_PAUSE, LONGEST_PAUSE, Caller, FixedToken, ServiceAway

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b'{"a":true}'
BUSY = b"HTTP/1.1 429 Busy\r\nContent-Length: 16\r\nRetry-After: 7\r\n\r\n" + b'{"error":"busy"}'
GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 16\r\n\r\n" + b'{"error":"gone"}'


class Service:
    """Answers each request of each connection with the next of its answers; hangs up after `per_connection` of them."""

    def __init__(self, answers: list[bytes], per_connection: int = 100) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._answers = answers
        self._per_connection = per_connection
        self.connections = 0
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # ends the wait for another connection
        self._listening.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while self._answers:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                for _ in range(self._per_connection):
                    if not self._answers or not (received := connection.recv(65536)):
                        break
                    self.requests.append(received)
                    connection.sendall(self._answers.pop(0))


Begin = Callable[..., tuple[Service, Caller]]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """A service with these answers, and a caller; both are gone when the test ends."""
    begun: list[tuple[Service, Caller]] = []

    def start(*answers: bytes, per_connection: int = 100, patience: float = 5.0) -> tuple[Service, Caller]:
        service = Service(list(answers), per_connection)
        begun.append((service, Caller(service.url, FixedToken("secret"), patience)))
        return begun[-1]

    yield start
    for service, asking in begun:
        asking.close()
        service.close()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest that each pause might have lasted; they last no time at all."""
    longest: list[float] = []

    def none(low: float, high: float) -> float:
        longest.append(high)
        return 0.0

    monkeypatch.setattr("random.uniform", none)
    return longest


def test_requests_share_a_connection_and_carry_the_token(begin: Begin) -> None:
    service, asking = begin(OK, OK)
    assert [asking.call("GET", "/x"), asking.call("POST", "/x", {"b": 1})] == [(200, {"a": True})] * 2
    assert service.connections == 1
    assert b"Authorization: Bearer secret" in service.requests[0]


def test_a_connection_that_was_closed_meanwhile_is_opened_again_without_a_failure(begin: Begin) -> None:
    service, asking = begin(OK, OK, per_connection=1)
    assert asking.call("GET", "/x")[0] == 200
    assert asking.call("GET", "/x")[0] == 200
    assert service.connections == 2


def test_a_refusal_is_an_answer(begin: Begin) -> None:
    _, asking = begin(GONE)
    assert asking.call("GET", "/x") == (410, {"error": "gone"})


def test_without_a_server_there_is_no_answer_and_the_pause_grows_to_its_longest(
    begin: Begin, pauses: list[float]
) -> None:
    service, asking = begin()
    service.close()
    for _ in range(8):
        with pytest.raises(ServiceAway):
            asking.call("GET", "/x")
    assert pauses == [min(LONGEST_PAUSE, FIRST_PAUSE * 2**n) for n in range(8)]


def test_within_a_pause_nothing_is_sent(begin: Begin) -> None:
    service, asking = begin(BUSY, OK)
    with pytest.raises(ServiceAway, match="429"):
        asking.call("GET", "/x")
    assert 6 < asking.pause_left() <= 7  # as long as the service asked for
    with pytest.raises(ServiceAway, match="waiting"):
        asking.call("GET", "/x")
    assert len(service.requests) == 1


def test_a_success_resets_the_pause_to_its_shortest(begin: Begin, pauses: list[float]) -> None:
    broken = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}"
    _, asking = begin(broken, OK, broken, per_connection=1)
    with pytest.raises(ServiceAway, match="500"):
        asking.call("GET", "/x")
    assert asking.call("GET", "/x")[0] == 200
    with pytest.raises(ServiceAway, match="500"):
        asking.call("GET", "/x")
    assert pauses == [FIRST_PAUSE, FIRST_PAUSE]


def test_a_service_that_does_not_answer_is_awaited_no_longer_than_the_timeout(begin: Begin) -> None:
    _, asking = begin(b"", patience=0.2)
    with pytest.raises(ServiceAway):
        asking.call("GET", "/x")


def test_an_answer_that_is_not_the_service_s_counts_as_no_answer(begin: Begin, pauses: list[float]) -> None:
    _, asking = begin(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
    with pytest.raises(ServiceAway):
        asking.call("GET", "/x")
