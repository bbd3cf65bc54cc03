"""What the client says of a URL where no Bullpen of its version answers, and of requests whose answers get lost."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import msgspec
import pytest

from bullpen import __version__
from bullpen.client import AsyncClient, Client, ProvisionRun, SubmitJob
from bullpen.errors import (
    BullpenError,
    ConfigError,
    Conflict,
    NotFound,
    PermissionDenied,
    Throttled,
    Unavailable,
)
from client.stand_ins import OURS, answering, certificate, speaking
from free_ports import a_free_port
from server.served import a_server

MAJOR, MINOR = (int(part) for part in __version__.split(".")[:2])
STATUS = json.dumps(
    {
        **{name: [] for name in ("pools", "workers", "silentWorkers", "controls", "waiting", "failingLoops")},
        "counts": {},
        "hold": "",
        "loops": {},
        "settings": {},
    }
).encode()
OPERATION = b'{"kind":"provision","id":"op-1","runId":"4711","state":"running","startedAt":"","endsBy":""}'


def failure(url: str, **options: float | str) -> BullpenError:
    with Client(url, **{"patience": 0.0, **options}) as client, pytest.raises(BullpenError) as caught:  # type: ignore[arg-type]
        client.status()
    return caught.value


def test_a_page_of_another_server_is_named_as_such() -> None:
    with answering(lambda *_: (200, {"content-type": "text/html"}, b"<html>")) as (where, _):
        error = failure(f"http://{where}")
    assert isinstance(error, ConfigError)
    assert str(error) == f"http://{where}: is not a Bullpen server (it answered 200, text/html)"
    assert "BULLPEN_SERVER" in error.remedy


@pytest.mark.parametrize("content", [b"404 page not found", b'{"message": "no route"}', b"[]"])
def test_a_404_of_another_server_is_no_missing_record(content: bytes) -> None:
    with answering(lambda *_: (404, {"content-type": "application/json"}, content)) as (where, _):
        error = failure(f"http://{where}")
    assert isinstance(error, ConfigError)
    assert "is not a Bullpen server" in str(error)


@pytest.mark.slow
def test_a_path_in_the_url_of_a_server_is_refused_with_the_setting(tmp_path: Path) -> None:
    with a_server(tmp_path / "served" / "home") as served:
        error = failure(f"{served.url}/pool")
    assert (type(error), error.field) == (ConfigError, "server")
    assert f"{served.url}/pool: the server has no such endpoint" in str(error)
    assert "without the path of an endpoint" in error.remedy


def test_a_redirect_is_not_followed_and_its_target_is_named() -> None:
    with answering(lambda *_: (301, {"location": "https://other.example/v1/status"}, b"")) as (where, asked):
        error = failure(f"http://{where}", token="secret")
    assert "redirects to https://other.example" in str(error)
    assert "https://other.example." in error.remedy
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("theirs", "says", "install"),
    [
        (f"{MAJOR}.{MINOR + 1}.3", "newer than this client", f"version {MAJOR}.{MINOR + 1} of bullpen-ci[client]"),
        (f"{MAJOR + 1}.0.0", "newer than this client", f"version {MAJOR + 1}.0 of bullpen-ci[client]"),
        ("0.0.9", "older than this client", "version 0.0 of bullpen-ci[client]"),
    ],
)
def test_a_server_of_another_version_is_refused_with_the_version_to_install(
    theirs: str, says: str, install: str
) -> None:
    with answering(lambda *_: (200, {**OURS, "bullpen-version": theirs}, STATUS)) as (where, _):
        error = failure(f"http://{where}")
    assert isinstance(error, ConfigError)
    assert f"{theirs}, {says} ({__version__})" in str(error)
    assert install in error.remedy


def test_another_patch_of_the_same_version_is_accepted() -> None:
    with answering(lambda *_: (200, {**OURS, "bullpen-version": f"{MAJOR}.{MINOR}.999"}, STATUS)) as (where, _):  # noqa: SIM117
        with Client(f"http://{where}") as client:
            assert client.status().counts == {}


def test_a_server_that_reports_no_version_is_older() -> None:
    with answering(lambda *_: (200, {"content-type": "application/json"}, STATUS)) as (where, _):
        error = failure(f"http://{where}")
    assert "the server is older than this client" in str(error)
    assert error.remedy == "Upgrade the server."


@pytest.mark.parametrize(
    ("greeting", "says"),
    [
        (b"220 mail.example ESMTP\r\n\r\n", "speaks no HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "hung up without an HTTP answer"),
        (b"", "hung up without an HTTP answer"),
    ],
)
def test_a_port_that_speaks_no_http_is_named(greeting: bytes, says: str) -> None:
    with speaking(greeting) as where:
        error = failure(f"http://{where}")
    assert str(error).startswith(f"http://{where}: ")
    assert says in str(error)
    assert "bullpen serve" in error.remedy


def test_a_port_where_nothing_listens_is_unavailable_at_once() -> None:
    error = failure(f"http://127.0.0.1:{a_free_port()}", patience=600.0)
    assert isinstance(error, Unavailable)
    assert "does not answer (Connection refused)" in str(error)
    assert "bullpen serve" in error.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_asynchronous_client_says_it_in_the_same_words(host: str) -> None:
    async def ask() -> None:
        async with AsyncClient(f"http://{host}:{a_free_port()}") as client:
            await client.status()

    with pytest.raises(Unavailable, match=r"does not answer \(Connection refused\)"):
        asyncio.run(ask())


def test_a_field_with_its_default_is_not_sent() -> None:
    bodies = [ProvisionRun(count=1), SubmitJob(run_id="4711", command=("true",))]
    assert list(map(msgspec.json.encode, bodies)) == [b'{"count":1}', b'{"runId":"4711","command":["true"]}']


def test_a_host_name_that_does_not_exist_is_named() -> None:
    error = failure("https://no-such-host.invalid")
    assert "the host name is not known" in str(error)


# ---- proxies


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        ("socks5h://me:hunter2@127.0.0.1:1", "cannot use a SOCKS proxy"),
        ("gopher://me:hunter2@127.0.0.1:1", "is not the URL of a proxy"),
        ("http://[::1", "is not the URL of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str, says: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match=says) as caught:
        Client("https://bullpen.example.com")
    assert "NO_PROXY" in caught.value.remedy
    assert "hunter2" not in str(caught.value) + caught.value.remedy


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_counts_only_for_a_server_that_is_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    port = a_free_port()
    with answering(lambda *_: (403, {}, b"")) as (proxy, asked):
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy}")
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy}")
        assert "Connection refused" in str(failure(f"http://127.0.0.1:{port}", token="secret"))
        assert asked == []  # it would read the token
        monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")  # it does not count beside HTTPS_PROXY
        assert isinstance(failure("https://bullpen.example.com"), Unavailable)
        assert asked == ["CONNECT bullpen.example.com:443"]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert "Connection refused" in str(failure(f"https://127.0.0.1:{port}"))
        assert len(asked) == 1


# ---- TLS


def test_a_certificate_of_an_unknown_authority_is_refused_with_the_way_to_trust_it(tmp_path: Path) -> None:
    file, context = certificate(tmp_path)
    with answering(lambda *_: (200, OURS, STATUS), context) as (where, asked):
        error = failure(f"https://{where}", token="secret")
        assert isinstance(error, ConfigError)
        assert "the server's certificate is refused (self-signed certificate)" in str(error)
        assert "--ca-file" in error.remedy
        assert asked == []
        with Client(f"https://{where}", token="secret", ca_file=str(file)) as client:
            assert client.status().counts == {}


def test_the_variable_of_the_system_names_authorities_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, context = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with answering(lambda *_: (200, OURS, STATUS), context) as (where, _), Client(f"https://{where}") as client:
        assert client.status().counts == {}


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    file, context = certificate(tmp_path, "127.0.0.9")
    with answering(lambda *_: (200, OURS, STATUS), context) as (where, _):
        error = failure(f"https://{where}", ca_file=str(file))
    assert "certificate is refused (IP address mismatch" in str(error)


def test_tls_to_a_server_without_it_is_named() -> None:
    with answering(lambda *_: (200, OURS, STATUS)) as (where, _):
        error = failure(f"https://{where}")
    assert isinstance(error, ConfigError)
    assert "speaks no TLS" in str(error)


def test_no_tls_to_a_server_with_it_names_https(tmp_path: Path) -> None:
    _, context = certificate(tmp_path)
    with answering(lambda *_: (200, OURS, STATUS), context) as (where, _):
        error = failure(f"http://{where}")
    assert "https://" in error.remedy


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=r"ca-file .*empty.pem: contains no certificate"):
        Client("https://127.0.0.1:1", ca_file=str(tmp_path / "empty.pem"))
    with pytest.raises(ConfigError, match=r"ca-file /missing.pem: No such file"):
        Client("https://127.0.0.1:1", ca_file="/missing.pem")


# ---- errors and repetition


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ConfigError), (401, PermissionDenied), (403, PermissionDenied), (404, NotFound), (409, Conflict)],
)
def test_an_error_keeps_the_servers_words_and_its_code(status: int, kind: type[BullpenError]) -> None:
    said = {"code": "some-code", "error": "count 0: no", "field": "count", "remedy": "Ask for more."}
    with answering(lambda *_: (status, OURS, json.dumps(said).encode())) as (where, asked):
        error = failure(f"http://{where}")
    assert type(error) is kind
    assert (str(error), error.code, error.field, error.remedy) == ("count 0: no", "some-code", "count", "Ask for more.")
    assert len(asked) == 1


def test_a_missing_token_has_a_remedy() -> None:
    said = b'{"code": "unauthenticated", "error": "a token is needed"}'
    with answering(lambda *_: (401, OURS, said)) as (where, _):
        assert "BULLPEN_TOKEN" in failure(f"http://{where}").remedy


def test_a_busy_server_is_asked_again_after_the_time_that_it_names() -> None:
    answers = iter([(429, {**OURS, "retry-after": "1"}, b'{"error": "busy"}'), (200, OURS, STATUS)])
    with answering(lambda *_: next(answers)) as (where, asked), Client(f"http://{where}") as client:
        assert client.status().counts == {}
    assert len(asked) == 2


def test_a_server_that_stays_busy_is_given_up_with_its_own_words() -> None:
    with answering(lambda *_: (429, {**OURS, "retry-after": "1"}, b'{"error": "too many"}')) as (where, asked):
        error = failure(f"http://{where}", patience=1.5)
    assert isinstance(error, Throttled)
    assert (str(error), error.exit_code) == ("too many", 75)
    assert len(asked) == 2


def test_a_lost_answer_of_a_provision_is_asked_for_again_with_the_same_key() -> None:
    """The first request arrives, and its connection breaks before an answer."""
    seen: list[str] = []

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        seen.append(path)
        if len(seen) == 1:
            raise ConnectionResetError
        return 202, OURS, OPERATION

    with answering(answer) as (where, asked), Client(f"http://{where}") as client:
        assert client.begin_provision("4711", ProvisionRun(count=1)).id == "op-1"
    first, second = asked
    assert first == second
    assert len(first.split()[2]) == 32


def test_a_server_that_answers_too_slowly_is_named() -> None:
    never = threading.Event()

    def answer(method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        never.wait(120)
        return 200, OURS, STATUS

    with answering(answer) as (where, _):
        error = failure(f"http://{where}", timeout=0.2)
        never.set()
    assert isinstance(error, Unavailable)
    assert "does not answer (no answer in 0.2 s)" in str(error)


@pytest.mark.real_loop
async def test_a_server_that_answers_byte_by_byte_does_not_delay_the_end_of_the_first_contact() -> None:
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nbullpen-version: 0\r\n\r\n"  # takes many seconds, and would do
    with speaking(whole, pause=0.3) as where:
        async with AsyncClient(f"http://{where}") as client:
            with pytest.raises(Unavailable, match=r"no answer in 1 s"):
                await client.reach(1.0)
