"""Sessions at real servers: two replicas of one home, a restart, and streams that are open when a session ends."""

from __future__ import annotations

import asyncio
import json
import socket
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from bullpen.auth.tokens import Scope
from bullpen.cli.token import create_token, revoke_token
from bullpen.config import Settings
from server.served import PATIENCE, ServeProcess, a_server, until

pytestmark = pytest.mark.slow


def a_token(home: Path, name: str, scope: Scope = Scope.READ) -> str:
    _stored, token = asyncio.run(create_token(home, Settings(), scope.value, None, name))
    return token


def here(server: ServeProcess) -> dict[str, str]:
    """What a browser says of a page of this server."""
    return {"origin": server.url, "sec-fetch-site": "same-origin", "content-type": "application/json"}


def log_in(server: ServeProcess, token: str) -> str:
    """The cookie, as a browser sends it back."""
    connection = HTTPConnection(*server.address, timeout=PATIENCE)
    connection.request("POST", "/v1/session", json.dumps({"token": token}), here(server))
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status == 200, said
    cookie = answer.getheader("set-cookie")
    connection.close()
    assert cookie is not None
    assert "HttpOnly" in cookie
    assert token.rpartition("_")[2] not in cookie
    return cookie.partition(";")[0]


def ask(server: ServeProcess, method: str, path: str, cookie: str, body: object = None) -> tuple[int, dict[str, Any]]:
    return server.ask(method, path, body, {**here(server), "cookie": cookie})


def is_refused(server: ServeProcess, cookie: str) -> bool:
    return ask(server, "GET", "/v1/session", cookie)[0] == 401


def open_stream(server: ServeProcess, cookie: str) -> socket.socket:
    found = server.connect()
    found.sendall(f"GET /v1/events HTTP/1.1\r\nHost: {server.url[7:]}\r\nCookie: {cookie}\r\n\r\n".encode())
    assert found.recv(15) == b"HTTP/1.1 200 OK"
    return found


def read_to_its_end(stream: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        part = stream.recv(65536)
        assert part, "the connection broke off"
        received += part
    return received


def test_a_session_works_at_every_replica_and_ends_at_every_replica(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = a_token(home, "ann", Scope.OPERATE)
    with a_server(home) as first, a_server(home) as second:
        cookie, other = log_in(first, token), log_in(second, token)
        for server in (first, second):
            assert ask(server, "GET", "/v1/session", cookie)[1]["name"] == "ann"
            assert server.ask("GET", "/v1/session")[0] == 401
            assert server.ask("POST", "/v1/runs/r/release", None, {"cookie": cookie})[0] == 403  # no page is named
        with open_stream(second, cookie) as stream:
            assert ask(first, "DELETE", "/v1/session", cookie) == (200, {"ended": True})
            assert is_refused(first, cookie)
            assert b"event: workers" in read_to_its_end(stream)
        until(partial(is_refused, second, cookie))
        assert not is_refused(first, other)  # another log-in with the same token
    with a_server(home) as restarted:
        assert is_refused(restarted, cookie)
        assert not is_refused(restarted, other)


def test_the_streams_and_sessions_of_a_token_end_when_it_is_revoked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = a_token(home, "bob")
    a_token(home, "ann")
    with a_server(home) as server:
        cookie = log_in(server, token)
        with open_stream(server, cookie) as stream:
            asyncio.run(revoke_token(home, Settings(), "bob"))
            read_to_its_end(stream)
        until(partial(is_refused, server, cookie))
        log = (home.parent / "serve.log").read_text()
    assert "operator logged in" in log
    for secret in (token, token.rpartition("_")[2], cookie.partition("=")[2]):
        assert secret not in log


def test_a_page_of_another_origin_is_refused_before_its_body_is_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = a_token(home, "ann", Scope.ADMIN)
    with a_server(home) as server, server.connect() as attacker:
        cookie = log_in(server, token)
        head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: {server.url[7:]}\r\nCookie: {cookie}\r\n"
            "Origin: https://evil.example\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n"
        )
        attacker.sendall(head.encode())  # and nothing of the body
        assert attacker.recv(12) == b"HTTP/1.1 403"
        refused = server.ask("POST", "/v1/session", {"token": token}, {"origin": "https://evil.example"})
        assert refused[0] == 403


def test_a_session_of_another_pool_is_refused(tmp_path: Path) -> None:
    homes = [tmp_path / name / "home" for name in ("one", "two")]
    tokens = [a_token(home, "ann") for home in homes]
    with a_server(homes[0]) as mine, a_server(homes[1]) as theirs:
        cookie, other = log_in(mine, tokens[0]), log_in(theirs, tokens[1])
        assert cookie.partition("=")[0] != other.partition("=")[0]
        assert is_refused(theirs, cookie)
        assert is_refused(theirs, f"{other.partition('=')[0]}={cookie.partition('=')[2]}")
        assert not is_refused(theirs, f"{cookie}; {other}")  # a browser sends both: they differ only by their port
