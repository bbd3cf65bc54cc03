"""`bullpen serve` as a process: how it starts and ends, what slow and greedy clients meet, and agents over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from free_ports import a_free_port
from server.served import PATIENCE, ServeProcess, a_server, command, end_pool, environment, until

pytestmark = pytest.mark.slow


def raw(served: ServeProcess, *parts: bytes) -> bytes:
    """Send bytes as they are, and return everything until the service hangs up."""
    with served.connect() as connection:
        for part in parts:
            connection.sendall(part)
        answer = b""
        while received := connection.recv(65536):
            answer += received
        return answer


def request(path: str, body: bytes, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with a_server(tmp_path_factory.mktemp("served") / "home") as served:
        yield served


def test_the_server_prints_its_address_and_becomes_ready_there(served: ServeProcess) -> None:
    assert served.address[1] != 0
    assert served.ask("GET", "/healthz") == (200, {"alive": True})
    until(lambda: served.ask("GET", "/readyz")[0] == 200)


def test_beats_over_one_connection_are_answered_one_after_the_other(served: ServeProcess) -> None:
    beats = b"".join(
        request("/v1/heartbeats", json.dumps({"workerInstanceKey": "chain", "token": token}).encode(), more)
        for token, more in ((0, ""), (1, ""), (2, "Connection: close\r\n"))
    )
    # All at once: answers come in order though the second and third took another way through the server.
    answer = raw(served, beats)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert [b'"token":%d' % token in answer for token in (1, 2, 3)] == [True] * 3
    assert answer.index(b'"token":1') < answer.index(b'"token":2') < answer.index(b'"token":3')


def test_a_body_in_pieces_is_put_together(served: ServeProcess) -> None:
    whole = request("/v1/heartbeats", b'{"workerInstanceKey":"slices"}', "Connection: close\r\n")
    assert b'"token":1' in raw(served, whole[:20], whole[20:90], whole[90:])


@pytest.mark.parametrize("path", ["/v1/heartbeats", "/v1/jobs"])
def test_a_body_over_the_limit_is_refused(served: ServeProcess, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000000\r\n\r\n"
    with served.connect() as connection:
        connection.sendall(head.encode())
        with suppress(OSError):  # it may hang up before the test has sent all, or has read the answer
            for _ in range(40):
                connection.sendall(b" " * 65536)
            assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    assert served.ask("GET", "/healthz")[0] == 200


def test_headers_over_the_limit_are_refused(served: ServeProcess) -> None:
    answer = raw(served, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 431")


def test_bytes_that_are_not_http_are_refused(served: ServeProcess) -> None:
    assert raw(served, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_client_that_sends_its_request_too_slowly_is_refused(served: ServeProcess) -> None:
    began = time.monotonic()
    assert raw(served, b"POST /v1/heartbeats HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le").startswith(b"HTTP/1.1 408")
    assert time.monotonic() - began < PATIENCE
    assert served.ask("GET", "/healthz")[0] == 200


def test_anything_but_loopback_is_refused_without_tokens(tmp_path: Path) -> None:
    ran = subprocess.run(
        command(tmp_path / "home", "serve", "--host", "0.0.0.0", "--port", "0"),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 2
    assert "needs tokens" in ran.stderr


def test_a_port_that_is_in_use_is_named_in_the_error(served: ServeProcess, tmp_path: Path) -> None:
    arguments = ("serve", "--port", str(served.address[1]))
    ran = subprocess.run(
        command(tmp_path / "home", *arguments),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 2
    assert "cannot listen" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with a_server(tmp_path / "home") as served:
        served.ask("POST", "/v1/heartbeats", {"workerInstanceKey": "w"})
        with served.connect() as stream:
            stream.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert stream.recv(15) == b"HTTP/1.1 200 OK"
            served.process.send_signal(number)
            assert served.process.wait(PATIENCE) == 0
    log = (tmp_path / "serve.log").read_text()
    assert "Traceback" not in log
    assert "ERROR" not in log


def test_replicas_share_one_home(tmp_path: Path) -> None:
    with a_server(tmp_path / "home") as first, a_server(tmp_path / "home") as second:
        assert first.ask("POST", "/v1/heartbeats", {"workerInstanceKey": "w"})[1]["token"] == 1
        assert second.ask("POST", "/v1/heartbeats", {"workerInstanceKey": "w", "token": 1})[1]["token"] == 2
        begun = first.ask("POST", "/v1/runs/r/release")[1]
        until(lambda: second.ask("GET", f"/v1/operations/{begun['id']}")[1]["state"] == "succeeded")
        first.end()
        assert second.ask("GET", "/v1/workers/w")[1]["token"] == 2


def test_agents_over_http_run_jobs_outlive_the_service_and_come_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    port = str(a_free_port())
    url = f"http://127.0.0.1:{port}"
    settings = ("--set", f"agent.serve-url={url}", "--set", "timings.heartbeat=1", "--port", port)
    try:
        with a_server(home, *settings) as served:
            operation = served.ask("POST", "/v1/runs/r/provision", {"count": 1})[1]
            path = f"/v1/operations/{operation['id']}"
            until(lambda: served.ask("GET", path)[1]["state"] != "running")
            assert served.ask("GET", path)[1]["state"] == "succeeded", served.ask("GET", path)
            script = "echo begun; while [ ! -e go ]; do sleep 0.1; done; echo over"
            job = served.ask("POST", "/v1/jobs", {"runId": "r", "command": ["sh", "-c", script]})[1]
            shown: dict[str, Any] = until(lambda: _bound(served, job["id"]))
            (instance,) = served.ask("GET", "/v1/instances")[1]["instances"]
            config = home / "instances" / instance["id"] / "agent.json"
            assert config.stat().st_mode & 0o777 == 0o600
            assert served.end() == 0
        (home / "instances" / instance["id"] / "work" / "go").touch()
        with a_server(home, *settings) as served:
            ended = until(lambda: _finished(served, job["id"]))
            assert (ended["result"], ended["fence"], ended["worker"]) == ("succeeded", 1, shown["worker"])
            with served.connect() as connection:
                connection.sendall(f"GET /v1/jobs/{job['id']}/logs HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
                assert connection.makefile("rb").read().endswith(b"\r\n\r\nbegun\nover\n")
            released = served.ask("POST", "/v1/runs/r/release")[1]
            path = f"/v1/operations/{released['id']}"
            done = until(lambda: _over(served, path))
            assert done["result"]["offered"] == [instance["id"]]
    finally:
        end_pool(home)


def _over(served: ServeProcess, path: str) -> dict[str, Any] | None:
    shown = served.ask("GET", path)[1]
    return shown if shown["state"] != "running" else None


def _bound(served: ServeProcess, job_id: str) -> dict[str, Any] | None:
    shown = served.ask("GET", f"/v1/jobs/{job_id}")[1]
    return shown if any(line["step"] == "bind" for line in shown["story"]) else None


def _finished(served: ServeProcess, job_id: str) -> dict[str, Any] | None:
    shown = served.ask("GET", f"/v1/jobs/{job_id}")[1]
    return shown if shown["state"] == "finished" else None


def test_a_client_without_a_token_cannot_have_a_large_body_parsed(tmp_path: Path) -> None:
    made = subprocess.run(
        command(tmp_path / "home", "token", "create", "--scope", "admin"),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    head = "POST /v1/heartbeats/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    with a_server(tmp_path / "home") as served:
        with served.connect() as greedy:
            greedy.sendall(f"{head}\r\n".encode())
            assert greedy.recv(12) == b"HTTP/1.1 401"  # none of the body was sent yet
        with served.connect() as trusted:
            trusted.sendall(f"{head}Authorization: Bearer {made.stdout.strip()}\r\n\r\n".encode())
            trusted.sendall(b"1\r\n \r\n" * 500_000)
            # Far from done: others are answered meanwhile.
            assert served.ask("GET", "/healthz")[0] == 200
            trusted.sendall(b"0\r\n\r\n")
            assert trusted.recv(12) == b"HTTP/1.1 400"


def test_a_token_that_is_revoked_is_refused_by_every_replica(tmp_path: Path) -> None:
    def token(*arguments: str) -> str:
        ran = subprocess.run(
            command(tmp_path / "home", "token", *arguments),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=PATIENCE,
            check=True,
        )
        return ran.stdout.strip()

    made = {"authorization": f"Bearer {token('create', '--scope', 'read', '--name', 'ci')}"}
    with a_server(tmp_path / "home") as first, a_server(tmp_path / "home") as second, first.connect() as stream:
        for served in (first, second):
            assert served.ask("GET", "/v1/status", headers=made)[0] == 200
        opened = f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {made['authorization']}\r\n\r\n"
        stream.sendall(opened.encode())
        assert stream.recv(15) == b"HTTP/1.1 200 OK"
        token("revoke", "ci")
        for served in (first, second):
            until(partial(_is_refused, served, made))
            assert served.ask("GET", "/v1/status")[0] == 401
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):  # the stream ends by itself
            received += (part := stream.recv(65536))
            assert part


def _is_refused(served: ServeProcess, headers: dict[str, str]) -> bool:
    return served.ask("GET", "/v1/status", headers=headers)[0] == 401
