"""The session of a browser: what its cookie opens, from which pages, and when it ends."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bullpen.auth import sessions
from bullpen.auth.sessions import LASTS, Session
from bullpen.auth.tokens import LOOK_EVERY, Keys, Scope
from bullpen.errors import Unavailable
from bullpen.ports import Tokens
from bullpen.server.app import ServerApp
from bullpen.server.context import Context
from bullpen.server.events import RECHECK
from bullpen.server.login_limits import RIGHT, SLOTS, WRONG
from bullpen.server.problems import Problem
from bullpen.server.sessions import is_same_origin
from server.fixtures import INSTANCE, House, a_house, keys_of
from server.wired import Wire, beat, chunks, request

HERE = {"origin": "http://127.0.0.1"}
FAR = {"host": "pool.example.com", "origin": "https://pool.example.com"}
WRITES = [
    ("POST", "/v1/runs/r/provision", {"count": 1}),
    ("POST", "/v1/runs/r/release", None),
    ("POST", "/v1/jobs", {"runId": "r", "command": ["true"]}),
    ("POST", "/v1/heartbeats", {"workerInstanceKey": "w"}),
    ("DELETE", "/v1/operations/op-1", None),
    ("DELETE", "/v1/workers/w?token=1&epoch=1", None),
    ("POST", "/v1/pause", {"note": "why"}),
    ("POST", "/v1/resume", {}),
    ("POST", "/v1/drain", {"instances": ["i-1"]}),
    ("POST", "/v1/rotate", {}),
    ("DELETE", "/v1/session", None),
]


async def log_in(house: House, name: str = "operate", **headers: str) -> httpx.Response:
    return await house.ask("POST", "/v1/session", json={"token": house.token(name)}, headers={**HERE, **headers})


async def cookie_of(house: House, name: str = "operate", **headers: str) -> str:
    answer = await log_in(house, name, **headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


async def asked(house: House, method: str, path: str, cookie: str, **what: Any) -> httpx.Response:
    headers = {"cookie": cookie, **what.pop("headers", {})}
    return await house.ask(method, path, headers=headers, **what)


async def status(house: House, cookie: str, **headers: str) -> int:
    return (await asked(house, "GET", "/v1/status", cookie, headers=headers)).status_code


# ---- log-in


async def test_a_token_opens_a_session_of_its_scope(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await log_in(house, "read")
        said = answer.json()
        assert (said["name"], said["scope"]) == ("read", "read")
        cookie = answer.headers["set-cookie"].partition(";")[0]
        who = await asked(house, "GET", "/v1/session", cookie)
        assert (who.status_code, who.json()) == (200, said)
        assert await status(house, cookie) == 200


async def test_the_cookie_is_neither_the_token_nor_readable_by_scripts_or_other_sites(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await log_in(house)
        said = answer.headers["set-cookie"]
        attributes = {part.strip() for part in said.split(";")[1:]}
        assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={LASTS}"} == attributes
        secret = house.token("operate").rpartition("_")[2]
        assert secret not in said + answer.text
        value = said.partition(";")[0].partition("=")[2]
        assert (await house.ask("GET", "/v1/status", value)).status_code == 401  # no token
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "origin", "is_secure"),
    [
        ("pool.example.com", "https://pool.example.com", True),
        ("pool.example.com:8443", "https://pool.example.com:8443", True),
        ("localhost:8443", "https://localhost:8443", True),
        ("localhost:8420", "http://localhost:8420", False),
        ("127.0.0.1", "http://127.0.0.1", False),
        ("[::1]:8420", "http://[::1]:8420", False),
    ],
)
async def test_the_cookie_is_secure_unless_the_browser_is_on_loopback(
    tmp_path: Path, host: str, origin: str, is_secure: bool
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        said = (await log_in(house, host=host, origin=origin)).headers["set-cookie"]
        assert ("Secure" in said, said.startswith("__Host-")) == (is_secure, is_secure)
        assert "Domain" not in said
        assert await status(house, said.partition(";")[0], host=host) == 200


async def test_an_unencrypted_page_of_another_machine_gets_no_session(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await log_in(house, host="pool.example.com", origin="http://pool.example.com")
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert "https" in answer.json()["remedy"]


async def test_off_loopback_a_cookie_that_a_neighbour_could_have_set_does_not_count(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, **FAR)
        assert await status(house, cookie, host="pool.example.com") == 200
        assert await status(house, cookie.removeprefix("__Host-"), host="pool.example.com") == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "ftp://127.0.0.1"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1", "sec-fetch-site": "none"},
        {},
    ],
)
async def test_no_other_page_logs_a_browser_in(tmp_path: Path, headers: dict[str, str]) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("POST", "/v1/session", json={"token": house.token("admin")}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "set-cookie" not in answer.headers


WRONG_TOKENS = ["", " ", "x", "bpo_", "bpo_0_0", "bpo_" + "0" * 16 + "_" + "0" * 64, "é" * 20, "bps_x_y", "Bearer x"]


@pytest.mark.parametrize("token", WRONG_TOKENS)
async def test_a_wrong_token_is_a_401_that_says_what_to_do(tmp_path: Path, token: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await log_in(house, token)
        assert answer.status_code == (401 if token else 400)
        assert "set-cookie" not in answer.headers
        if token:
            assert "bullpen token create" in answer.json()["remedy"]


async def test_only_the_token_of_an_operator_opens_a_session(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await log_in(house, INSTANCE)
        assert (answer.status_code, "an agent's token" in answer.json()["error"]) == (401, True)


async def test_a_revoked_token_and_an_expired_one_open_none(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        await house.revoke("operate")
        assert (await log_in(house)).status_code == 401
        expired = house.create(Scope.READ, house.ports.clock.now() - timedelta(seconds=1))
        assert (await log_in(house, expired)).status_code == 401


async def test_a_token_opens_a_session_as_soon_as_it_is_created(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        token = house.create(Scope.READ, name="new")
        house.context.keys._known.pop(token.split("_")[1])  # another process created it
        assert (await log_in(house, token)).status_code == 200


async def test_nothing_of_a_log_in_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        wrong = house.token("admin")[:-1] + "x"
        for _ in range(WRONG + 3):
            await log_in(house, wrong)
        for secret in (house.token("operate"), cookie.partition("=")[2], wrong):
            assert secret not in caplog.text
            assert secret.rpartition("_")[2][:20] not in caplog.text
        assert "operator logged in" in caplog.text


async def test_a_log_in_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await log_in(house, "x" * 300)).status_code == 400
        assert (await log_in(house, "x" * 5000)).status_code == 413


# ---- attempts


async def test_wrong_log_ins_are_limited_and_lock_out_no_right_one(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        found = Counter([(await log_in(house, "wrong")).status_code for _ in range(3 * WRONG)])
        assert found == {401: WRONG, 429: 2 * WRONG}
        refused = await log_in(house, "wrong")
        assert int(refused.headers["retry-after"]) > 0
        assert (await log_in(house)).status_code == 200  # from the same address
        await asyncio.sleep(60)
        assert (await log_in(house, "wrong")).status_code == 401


async def test_wrong_log_ins_beyond_the_limit_read_no_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        for _ in range(WRONG):
            await log_in(house, "wrong")
        reads: list[int] = []
        monkeypatch.setattr(house.ports.tokens, "read", lambda: reads.append(1))
        assert (await log_in(house, "bpo_" + "0" * 16 + "_" + "0" * 64)).status_code == 429
        assert reads == []


async def test_the_memory_of_attempts_is_fixed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(5000):
            with suppress(Problem):  # a caller shares the attempts of others, once there are many
                house.context.logins.note_wrong(f"2001:db8:{number:x}::1")
        assert len(house.context.logins._wrong._slots) == SLOTS


async def test_neighbours_in_one_network_share_their_attempts(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(WRONG):
            house.context.logins.note_wrong(f"2001:db8::{number:x}")
        with pytest.raises(Exception, match="too many"):
            house.context.logins.check_wrong("2001:db8::ffff")
        house.context.logins.check_wrong("192.0.2.1")


async def test_a_token_opens_so_many_sessions_at_once_and_keeps_no_other_out(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        found = Counter([(await log_in(house, "read")).status_code for _ in range(RIGHT + 5)])
        assert found == {200: RIGHT, 429: 5}
        assert (await log_in(house)).status_code == 200


# ---- pages


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "https://127.0.0.1.evil.example"},
    {"origin": "http://127.0.0.1:8421"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1", "sec-fetch-site": "cross-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
async def test_a_session_is_never_accepted_from_another_page(tmp_path: Path, headers: dict[str, str]) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, "admin")
        assert await status(house, cookie, **headers) == 403
        for method, path, body in WRITES:
            answer = await asked(house, method, path, cookie, json=body, headers=headers)
            assert answer.status_code == 403, path
        assert await house.is_untouched()
        assert await status(house, cookie) == 200  # nor was it logged out


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "none"}], ids=str)
async def test_a_session_writes_only_for_a_page_that_is_named(tmp_path: Path, headers: dict[str, str]) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, "admin")
        for method, path, body in WRITES:
            assert (await asked(house, method, path, cookie, json=body, headers=headers)).status_code == 403, path
        assert await status(house, cookie, **headers) == 200  # reading is possible
        assert await house.is_untouched()


@pytest.mark.parametrize(
    "headers", [HERE, {"sec-fetch-site": "same-origin"}, {**HERE, "sec-fetch-site": "same-origin"}]
)
async def test_a_session_writes_from_the_pages_of_the_server(tmp_path: Path, headers: dict[str, str]) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        answer = await asked(house, "POST", "/v1/runs/r/provision", cookie, json={"count": 1}, headers=headers)
        assert answer.status_code == 202


@pytest.mark.parametrize(
    ("origin", "host", "is_same"),
    [
        ("http://a", "a", True),
        ("HTTPS://A.example", "a.EXAMPLE", True),
        ("https://a:443", "a", True),
        ("http://a", "a:80", True),
        ("http://a:8420", "a:8420", True),
        ("http://a:8420", "a", False),
        ("http://a", "b", False),
        ("a", "a", False),
        ("://a", "a", False),
        ("null", "null", False),
        ("http://", "", False),
        ("http://a", None, False),
        ("https://a:80", "a", False),
        ("http://user@a", "a", False),
    ],
)
def test_the_origin_of_a_page_is_compared_with_the_host(origin: str, host: str | None, is_same: bool) -> None:
    assert is_same_origin(origin, host) is is_same


async def test_what_a_browser_gets_is_no_page_and_stays_in_no_cache(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        for path in ("/v1/status", "/v1/jobs/j-1/logs", "/v1/openapi.json"):
            answer = await asked(house, "GET", path, cookie)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "sandbox" in answer.headers["content-security-policy"]
        page = await asked(house, "GET", "/", cookie)
        assert page.headers.get_list("cache-control") == ["no-cache"]
        assert len(page.headers.get_list("content-security-policy")) == 1


# ---- scope


async def test_a_session_with_scope_read_writes_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, "read")
        for method, path, body in WRITES[:-1]:
            answer = await asked(house, method, path, cookie, json=body, headers=HERE)
            assert answer.status_code == 403, path
        assert await house.is_untouched()


async def test_where_a_request_has_a_token_the_session_does_not_count(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, "admin")
        for token, expected in (("read", 200), ("wrong", 401), ("", 401), (INSTANCE, 403)):
            answer = await house.ask("GET", "/v1/status", token, headers={"cookie": cookie})
            assert answer.status_code == expected
        body = {"runId": "r", "command": ["true"]}
        answer = await house.ask("POST", "/v1/jobs", "read", json=body, headers={"cookie": cookie, **HERE})
        assert answer.status_code == 403
        # And the page that it comes from does not matter to a token, as before.
        answer = await house.ask("GET", "/v1/status", "read", headers={"cookie": cookie, "origin": "https://other"})
        assert answer.status_code == 200


async def test_a_token_in_a_cookie_opens_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        name = (await cookie_of(house)).partition("=")[0]
        assert await status(house, f"{name}={house.token('admin')}") == 401
        assert (
            await house.ask("GET", "/v1/status", headers={"authorization": house.token("admin")})
        ).status_code == 401


# ---- forged and foreign


def forged(keys: Keys, claims: object) -> str:
    packed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"bps_{packed}_{keys.mac('session', packed)}"


async def test_a_session_of_another_pool_opens_nothing(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        name, _, value = cookie.partition("=")
        id_ = house.token("operate").split("_")[1]
        until = int(house.ports.clock.now().timestamp()) + 60
        there = keys_of(secret=b"another" * 8)
        assert await status(house, f"{name}={sessions.text_of(there, Session('s', id_, until))}") == 401
        here = sessions.text_of(house.context.keys, Session("s", id_, until))
        assert await status(house, f"{name}={here}") == 200
        assert await status(house, f"bullpen-00000000={value}") == 401  # the name is that of the pool


async def test_two_pools_on_one_machine_do_not_log_each_other_out(tmp_path: Path) -> None:
    """They differ only by their port, and cookies know no ports."""
    async with a_house(tmp_path) as house:
        house.guard()
        there = Keys(house.ports.tokens, b"another" * 8)
        other = Context(tmp_path, house.ports, house.context.settings, house.context.service, there)
        mine, theirs = house.context.doorkeeper.sessions, other.doorkeeper.sessions
        assert mine._name != theirs._name


@pytest.mark.parametrize("part", range(4))
async def test_a_session_that_was_changed_opens_nothing(tmp_path: Path, part: int) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house, "read")
        name, _, value = cookie.partition("=")
        _, packed, mac = value.split("_") if value.count("_") == 2 else ("bps", *value[4:].rsplit("_", 1))
        id_ = house.token("admin").split("_")[1]
        until = int(house.ports.clock.now().timestamp()) + 10 * LASTS
        claims = base64.urlsafe_b64encode(json.dumps(["s", id_, until]).encode()).decode().rstrip("=")
        changed = [f"bps_{claims}_{mac}", f"bps_{packed}_{mac[:-1]}0", f"bps_{packed}_", f"bps_{packed}x_{mac}"][part]
        if changed == value:  # the last digit was that already
            changed = f"bps_{packed}_{mac[:-1]}1"
        assert await status(house, f"{name}={changed}") == 401


@pytest.mark.parametrize(
    "value", ["", "bps_", "bps__", "bps_é_é", "x", "bps_" + "A" * 14_000, "bps_a_b", '"bps_a_b"', "=="]
)
async def test_what_is_no_session_opens_nothing_however_long(tmp_path: Path, value: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        name = house.context.doorkeeper.sessions._name
        for text in (f"{name}={value}", f"a=b; {name}={value}; c", ";" * 5000, f"{name}={value};" * 3):
            if text.isascii():
                assert await status(house, text) == 401


async def test_a_browser_with_many_cookies_has_its_session(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        others = "; ".join(f"other-{number}={'x' * 50}" for number in range(100))
        assert await status(house, f"{others}; {cookie}; last=1") == 200
        stale = f"{cookie.partition('=')[0]}=bps_stale_x"
        assert await status(house, f"{stale}; {cookie}") == 200


async def test_headers_beyond_the_limit_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        wire = Wire(house)
        head = request("/v1/jobs", None, f"Cookie: {'x' * 20_000}")
        for at in range(0, len(head), 4096):
            if not wire.paused:
                wire.send(head[at : at + 4096])
            await wire.turns()
        assert wire.statuses == [431]


# ---- on a connection, before the body


async def answered(wire: Wire) -> None:
    for _ in range(1000):
        if wire.statuses:
            return
        await asyncio.sleep(0.01)


async def test_a_connection_refuses_another_page_before_it_reads_the_body(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        for origin, expected in (("https://evil.example", [403]), ("http://127.0.0.1", [])):
            wire = Wire(house)
            wire.send(request("/v1/jobs", None, f"Cookie: {cookie}", f"Origin: {origin}"))
            await wire.turns()
            assert wire.statuses == expected  # of the other one the body is awaited
            if not expected:
                wire.send(chunks(b"{}"))
                await answered(wire)
                assert wire.statuses == [400]


async def test_a_connection_refuses_a_write_that_names_no_page(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            wire = Wire(house)
            wire.send(request("/v1/jobs", None, f"Cookie: {cookie}", method=method))
            await wire.turns()
            assert wire.statuses == [403], method
        beats = Wire(house)
        beats.send(beat("w-1", f"Cookie: {cookie}"))
        await beats.turns()
        assert beats.statuses == [403]
        assert await house.is_untouched()


async def test_a_connection_admits_the_session_of_a_reader_without_an_origin(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        wire = Wire(house)
        wire.send(request("/v1/session", b"", f"Cookie: {cookie}", method="GET"))
        await answered(wire)
        assert wire.statuses == [200]


# ---- its end


async def test_a_session_ends_with_its_time(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        await asyncio.sleep(LASTS - 1)
        assert await status(house, cookie) == 200
        await asyncio.sleep(2)
        answer = await asked(house, "GET", "/v1/status", cookie)
        assert (answer.status_code, "has ended" in answer.json()["error"]) == (401, True)


async def test_a_session_lasts_no_longer_than_its_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        token = house.create(Scope.READ, house.ports.clock.now() + timedelta(seconds=60))
        answer = await log_in(house, token)
        assert "Max-Age=60" in answer.headers["set-cookie"]
        await asyncio.sleep(61)
        assert await status(house, answer.headers["set-cookie"].partition(";")[0]) == 401


async def test_a_session_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        await house.revoke("operate")
        assert await status(house, cookie) == 401
        assert (await asked(house, "GET", "/v1/session", cookie)).status_code == 401


async def test_log_out_ends_the_session_and_not_the_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie, other = await cookie_of(house), await cookie_of(house)
        answer = await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
        assert (answer.status_code, answer.json()) == (200, {"ended": True})
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert answer.headers["set-cookie"].partition("=")[0] == cookie.partition("=")[0]
        assert await status(house, cookie) == 401  # from a copy of the cookie
        assert await status(house, other) == 200
        assert (await house.ask("GET", "/v1/status", "operate")).status_code == 200
        again = await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
        assert (again.status_code, again.json()) == (200, {"ended": False})


async def test_log_out_without_a_session_is_no_error(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("DELETE", "/v1/session", headers=HERE)
        assert (answer.status_code, answer.json()) == (200, {"ended": False})


async def test_log_out_that_the_store_cannot_note_ends_the_session_here_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)

        async def broken(*_: object) -> None:
            raise Unavailable("away")

        monkeypatch.setattr(house.ports.tokens, "end_session", broken)
        answer = await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
        assert (answer.status_code, "Max-Age=0" in answer.headers["set-cookie"]) == (503, True)
        assert await status(house, cookie) == 401
        await house.context.keys.refresh(0)
        assert await status(house, cookie) == 401


async def test_a_read_that_began_before_a_log_out_does_not_bring_the_session_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        cookie = await cookie_of(house)
        before = await house.ports.tokens.read()
        await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
        house.context.keys.learn(before)
        assert await status(house, cookie) == 401


async def lasts(house: House, cookie: str) -> float:
    """How long a stream of events lasts that a session opened."""
    began = asyncio.get_running_loop().time()
    async with asyncio.timeout(600):
        answer = await asked(house, "GET", "/v1/events", cookie)
    assert (answer.status_code, answer.content[:6]) == (200, b"retry:")
    return asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("how", ["log-out", "revoked", "expired"])
async def test_an_open_stream_ends_with_its_session(tmp_path: Path, how: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        expires = house.ports.clock.now() + timedelta(seconds=30) if how == "expired" else None
        cookie = await cookie_of(house, house.create(Scope.READ, expires, name="watcher"))

        async def end() -> None:
            await asyncio.sleep(30)
            if how == "log-out":
                await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
            if how == "revoked":
                await house.revoke("watcher")

        lasted, _ = await asyncio.gather(lasts(house, cookie), end())
        assert 30 <= lasted <= 30 + RECHECK + 1


# ---- several servers


async def a_replica(house: House, tokens: Tokens | None = None) -> House:
    """Another process on the same store: what it knows it has read there."""
    keys = await Keys.opened(tokens or house.ports.tokens)
    context = Context(house.context.home, house.ports, house.context.settings, house.context.service, keys)
    return House(context, ServerApp(context), house.memory, house.tokens)


async def a_shared_secret(house: House) -> None:
    """What `Keys.opened` finds: the fixture made its keys of another one."""
    house.memory.shelf.secret = b"agents" * 8


async def test_a_session_is_known_to_every_replica_and_after_a_restart(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_shared_secret(house)
        house.guard()
        cookie = await cookie_of(house, "read")
        other = await a_replica(house)
        assert await status(other, cookie) == 200
        answer = await asked(other, "POST", "/v1/runs/r/release", cookie, headers=HERE)
        assert answer.status_code == 403
        await other.app.heartbeats.close()


async def test_log_out_reaches_every_replica(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_shared_secret(house)
        house.guard()
        cookie = await cookie_of(house)
        other, stop = await a_replica(house), asyncio.Event()
        reading = asyncio.create_task(other.context.keys.keep_current(house.ports.clock, stop))
        assert await status(other, cookie) == 200
        await asked(house, "DELETE", "/v1/session", cookie, headers=HERE)
        await asyncio.sleep(2 * LOOK_EVERY)
        assert await status(other, cookie) == 401
        stop.set()
        await reading
        later = await a_replica(house)  # started afterwards
        assert await status(later, cookie) == 401
        for one in (other, later):
            await one.app.heartbeats.close()


async def test_a_session_of_a_token_that_a_replica_has_not_read_is_known_there_at_once(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await a_shared_secret(house)
        house.guard()
        other = await a_replica(house)
        cookie = await cookie_of(house, house.create(Scope.READ, name="new"))
        assert await status(other, cookie) == 200
        await other.app.heartbeats.close()


# ---- a server without tokens


async def test_an_open_server_needs_no_log_in_and_says_so(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", "/v1/session")
        assert answer.json() == {"name": "open", "scope": "admin", "expiresAt": None}
        answer = await log_in(house, "whatever")
        assert (answer.status_code, answer.json()["name"]) == (200, "open")
        assert "set-cookie" not in answer.headers
        house.guard()
        assert (await house.ask("GET", "/v1/session")).status_code == 401


async def test_an_open_server_logs_no_other_host_or_page_in(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/v1/session", headers={"host": "evil.example"})).status_code == 403
        assert (await house.ask("GET", "/v1/session", headers={"origin": "https://evil.example"})).status_code == 403


async def test_a_caller_with_a_token_is_shown_without_a_session(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("GET", "/v1/session", "admin")
        assert answer.json() == {"name": "admin", "scope": "admin", "expiresAt": None}
        assert (await house.ask("GET", "/v1/session", INSTANCE)).status_code == 403
