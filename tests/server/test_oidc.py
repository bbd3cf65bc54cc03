"""A job's GitHub identity buys a token for its own run, and nothing that is not GitHub's word buys anything."""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from bullpen.auth.tokens import RUN_LASTS, RunIdentity
from bullpen.config import Github, Settings
from bullpen.engines.github.issuer import KEYS_LAST, LARGEST_ANSWER, LOOK_AGAIN, RETRY, IssuerKeys, issuer
from bullpen.engines.github.oidc import LEEWAY
from bullpen.errors import Unavailable
from bullpen.model.trust import TRUSTED, trust_domain
from bullpen.server.load_limits import Admission
from bullpen.server.routes.tokens import LARGEST_EXCHANGE, NO_JOB, SEE_LOG
from server.fixtures import a_house
from server.jobs_of_github import (
    EXCHANGE,
    ISSUER,
    PAT,
    SECRET,
    SETTINGS,
    GuardedService,
    a_hub,
    claims,
    private_key,
    unsigned,
)


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 401 and answer.json() == {
        "code": "unauthenticated",
        "error": NO_JOB,
        "remedy": SEE_LOG,
    }


# ---- what a job gets


async def test_a_job_gets_a_token_for_its_own_run(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        answer = (await hub.exchange(run_attempt="2")).json()
        token = answer.pop("token")
        assert answer == {
            "expiresIn": RUN_LASTS,
            "runId": "4711",
            "repository": "acme/widgets",
            "trustDomain": "acme/widgets/42",
        }
        found = hub.house.context.keys.bearer(token, hub.now)
        assert found == RunIdentity(repository="acme/widgets", run="4711", attempt=2, trust="acme/widgets/42")


async def test_a_pull_request_gets_a_trust_domain_of_its_own(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        answer = (await hub.exchange(event_name="pull_request", ref="refs/pull/7/merge")).json()
        assert answer["trustDomain"] == "acme/widgets/42#pull-request"


@pytest.mark.parametrize("event", TRUSTED)
def test_an_event_that_only_writers_can_cause_gets_the_trust_domain_of_the_repository(event: str) -> None:
    assert trust_domain("acme/widgets", 42, event, "refs/heads/main", "octocat") == "acme/widgets/42"


@pytest.mark.parametrize(
    ("event", "ref", "actor"),
    [
        ("pull_request", "refs/pull/7/merge", "octocat"),
        ("pull_request", "refs/heads/main", "octocat"),
        ("pull_request_target", "refs/heads/main", "octocat"),
        ("issue_comment", "refs/heads/main", "octocat"),
        ("workflow_run", "refs/heads/main", "octocat"),
        ("dynamic", "refs/heads/main", "octocat"),
        ("an_event_of_tomorrow", "refs/heads/main", "octocat"),
        ("", "refs/heads/main", "octocat"),
        ("PUSH", "refs/heads/main", "octocat"),
        ("push", "refs/pull/7/head", "octocat"),
        ("push", "", "octocat"),
        ("push", "refs/heads/dependabot/pip/x", "dependabot[bot]"),
        ("push", "refs/heads/main", ""),
    ],
)
def test_every_other_event_gets_the_trust_domain_of_a_pull_request(event: str, ref: str, actor: str) -> None:
    assert trust_domain("acme/widgets", 42, event, ref, actor) == "acme/widgets/42#pull-request"


async def test_every_repository_of_an_organisation_is_inside_its_scope(tmp_path: Path) -> None:
    settings = _scoped("Acme")
    async with a_hub(tmp_path, settings) as hub:
        assert (await hub.exchange(repository="acme/gadgets")).status_code == 200
        assert is_refused(await hub.exchange(repository="acme-fork/gadgets"))


@pytest.mark.parametrize(
    ("github", "expected"),
    [
        (Github(), "https://token.actions.githubusercontent.com"),
        (Github(url="https://octo.ghe.com"), "https://token.actions.octo.ghe.com"),
        (Github(url="https://git.example/"), "https://git.example/_services/token"),
        (Github(url="https://git.example", oidc_issuer="http://127.0.0.1:1/x/"), "http://127.0.0.1:1/x"),
    ],
)
def test_the_issuer_belongs_to_githubs_address_unless_it_is_set(github: Github, expected: str) -> None:
    assert issuer(github) == expected


# ---- what no job gets anything for

FORGERIES: dict[str, Callable[[GuardedService], str]] = {
    "signed by another key under a known name": lambda hub: hub.issuer.token(
        hub.now, key="other", headers={"kid": "first"}
    ),
    "not signed": lambda hub: unsigned({"alg": "none", "kid": "first"}, claims(hub.now)),
    "not signed, in another spelling": lambda hub: unsigned({"alg": "None", "typ": "JWT"}, claims(hub.now)),
    "signed with the public key as if it were a secret": lambda hub: _signed_with_public_key(hub),
    "signed with another method": lambda hub: jwt.encode(
        claims(hub.now), private_key("first"), algorithm="RS512", headers={"kid": "first"}
    ),
    "signed with a key that the token brings along": lambda hub: hub.issuer.token(
        hub.now, key="other", headers={"kid": "other", "jku": "https://evil.example/jwks", "jwk": {"kty": "RSA"}}
    ),
    "signed with a key that the header does not name": lambda hub: jwt.encode(
        claims(hub.now), private_key("first"), algorithm="RS256"
    ),
    "with claims changed after signing": lambda hub: _resewn(hub),
    "cut off": lambda hub: hub.issuer.token(hub.now)[:-10],
    "no token at all": lambda hub: "hello",
    "two dots": lambda hub: "..",
    "not even text of a token": lambda hub: "é.ü.\x00",
    "nested deeply": lambda hub: unsigned({"alg": "RS256", "kid": "first"}, _deep(700)),
    "a header nested deeply": lambda hub: unsigned(_deep(700), {}),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_token_is_refused(tmp_path: Path, name: str) -> None:
    async with a_hub(tmp_path) as hub:
        assert (await hub.exchange()).status_code == 200  # the keys are known
        assert is_refused(await hub.exchange(FORGERIES[name](hub)))


@pytest.mark.parametrize(
    ("changed", "log"),
    [
        ({"aud": "sts.amazonaws.com"}, "audience"),
        ({"aud": ["bullpen", "sts.amazonaws.com"]}, "audience"),
        ({"aud": None}, "the claim aud is missing"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"iss": f"{ISSUER}/"}, "issuer"),
        ({"iss": None}, "the claim iss is missing"),
        ({"repository": "acme/gadgets"}, "outside github.scope"),
        ({"repository": "evil/widgets"}, "outside github.scope"),
        ({"repository": "acme/widgets\n"}, "outside github.scope"),
        ({"repository": None}, "repository"),
        ({"repository": ["acme/widgets"]}, "repository"),
        ({"repository_id": None}, "repository_id"),
        ({"repository_id": 42}, "repository_id"),
        ({"repository_id": "0"}, "repository_id"),
        ({"repository_id": "42/43"}, "repository_id"),
        ({"repository_id": "42\n"}, "repository_id"),
        ({"run_id": None}, "run_id"),
        ({"run_id": 4711}, "run_id"),
        ({"run_id": "4711-2"}, "run_id"),
        ({"run_id": "0"}, "run_id"),
        ({"run_attempt": None}, "run_attempt"),
        ({"run_attempt": "-1"}, "run_attempt"),
        ({"event_name": None}, "event_name"),
        ({"exp": None}, "exp"),
        ({"nbf": None}, "nbf"),
        ({"iat": None}, "iat"),
    ],
)
async def test_a_valid_token_about_something_else_is_refused_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], log: str
) -> None:
    async with a_hub(tmp_path) as hub:
        assert is_refused(await hub.exchange(**changed))
        assert log in caplog.text


async def test_a_token_is_good_from_its_time_until_its_end(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        token = hub.issuer.token(hub.now + 200)  # its nbf is before, its iat is not
        assert is_refused(await hub.exchange(token))
        await asyncio.sleep(200 - LEEWAY + 1)
        assert (await hub.exchange(token)).status_code == 200
        await asyncio.sleep(300 + 2 * LEEWAY)
        assert is_refused(await hub.exchange(token))
        later = hub.issuer.token(hub.now, nbf=int(hub.now + LEEWAY + 5))
        assert is_refused(await hub.exchange(later))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[1]", 400),
        (b"\xff\xfe", 400),
        (b'{"token": 7}', 400),
        (b'{"token": ""}', 400),
        (b'{"token": "x", "trustDomain": "acme/widgets"}', 400),
        (b'{"token": "' + b"x" * 9000 + b'"}', 400),
        (b'{"token": "' + b"x" * LARGEST_EXCHANGE + b'"}', 413),
        (b"[" * 5000, 400),
    ],
)
async def test_malformed_and_huge_bodies_are_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with a_hub(tmp_path) as hub:
        answer = await hub.house.ask("POST", EXCHANGE, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, "error" in answer.json()) == (status, True)
        assert hub.issuer.fetched == []


async def test_a_pool_without_github_exchanges_no_tokens(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("POST", EXCHANGE, json={"token": "x"})).status_code == 404


# ---- the issuer's keys


async def test_keys_are_fetched_once_from_where_the_issuer_publishes_them(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        answers = await asyncio.gather(*(hub.exchange() for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        assert hub.issuer.fetched == [f"{ISSUER}/.well-known/jwks"]


async def test_a_flood_of_unknown_keys_fetches_the_keys_once_a_minute(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await hub.exchange()
        for n in range(50):
            assert is_refused(await hub.exchange(hub.issuer.token(hub.now, key="other", headers={"kid": f"k{n}"})))
        assert len(hub.issuer.fetched) == 1
        for minute in range(3):
            await asyncio.sleep(LOOK_AGAIN)
            for n in range(20):
                await hub.exchange(hub.issuer.token(hub.now, key="other", headers={"kid": f"m{n}"}))
            assert len(hub.issuer.fetched) == 2 + minute
        assert (await hub.exchange()).status_code == 200


async def test_no_keys_are_fetched_for_a_token_that_is_not_signed_with_rs256(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        for method in ("none", "HS256", "RS512", "ES256", 7, None):
            assert is_refused(await hub.exchange(unsigned({"alg": method, "kid": "first"}, claims(hub.now), b"x")))
        assert hub.issuer.fetched == []


async def test_a_new_key_is_found_within_a_minute(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await hub.exchange()
        hub.issuer.keys = ["first", "other"]
        assert is_refused(await hub.exchange(key="other"))
        await asyncio.sleep(LOOK_AGAIN)
        assert (await hub.exchange(key="other")).status_code == 200


async def test_a_withdrawn_key_is_accepted_for_an_hour_at_most(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        assert (await hub.exchange()).status_code == 200
        hub.issuer.keys = ["other"]
        await asyncio.sleep(KEYS_LAST)
        assert is_refused(await hub.exchange())


async def test_without_the_issuer_a_job_gets_a_503_and_may_retry(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        hub.issuer.away = True
        for _ in range(3):
            answer = await hub.exchange()
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert len(hub.issuer.fetched) == 1
        hub.issuer.away = False
        await asyncio.sleep(RETRY)
        assert (await hub.exchange()).status_code == 200


async def test_known_keys_are_enough_while_the_issuer_is_away(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        await hub.exchange()
        hub.issuer.away = True
        await asyncio.sleep(LOOK_AGAIN)
        assert (await hub.exchange(key="other")).status_code == 503
        assert (await hub.exchange()).status_code == 200


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[]", b"{}", b'{"keys": []}', b'{"keys": 7}', b'{"keys": [7]}', b'{"keys":' + b"[" * 9000],
)
async def test_an_issuer_that_answers_without_a_set_of_keys_counts_as_unavailable(
    tmp_path: Path, answer: bytes
) -> None:
    async with a_hub(tmp_path) as hub:
        hub.issuer.answer = answer
        assert (await hub.exchange()).status_code == 503


async def test_keys_for_other_purposes_are_not_used(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        hub.issuer.answer = hub.issuer.jwks().replace(b'"sig"', b'"enc"')
        assert is_refused(await hub.exchange())
        hub.issuer.answer = b'{"keys": [{"kty": "oct", "kid": "first", "k": "c2VjcmV0", "alg": "HS256"}]}'
        await asyncio.sleep(LOOK_AGAIN)
        assert is_refused(await hub.exchange(_signed_with_public_key(hub)))


@pytest.mark.real_loop
async def test_an_issuer_is_asked_over_http_and_must_answer_briefly() -> None:
    answers = {"/good": (200, b'{"keys": []}'), "/huge": (200, b" " * (LARGEST_ANSWER + 1)), "/gone": (404, b"{}")}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition("/.well-known/jwks")[0]
        status, body = answers[path]
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)) + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    where = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for path, reason in {"/good": "not a key set", "/huge": "too large", "/gone": "answered 404"}.items():
        with pytest.raises(Unavailable, match=reason):
            await IssuerKeys(where + path).key("first")
    server.close()
    await server.wait_closed()
    with pytest.raises(Unavailable, match="did not answer"):
        await IssuerKeys(where).key("first")


# ---- what is shown


async def test_no_answer_and_no_log_shows_a_token_or_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_hub(tmp_path) as hub:
        sent = [hub.issuer.token(hub.now), hub.issuer.token(hub.now, aud="x"), hub.issuer.token(hub.now - 9000)]
        sent += [make(hub) for name, make in FORGERIES.items() if name not in ("two dots", "no token at all")]
        answers = [await hub.exchange(token) for token in sent]
        given = answers[0].json()["token"]
        said = caplog.text + "".join(answer.text for answer in answers[1:])
        secrets = [SECRET, PAT, given, given.rpartition("_")[2], hub.house.tokens["admin"]]
        secrets += [part for token in sent for part in token.split(".") if len(part) > 20]
        assert [secret for secret in secrets if secret in said] == []
        assert "run gets its token run=4711 attempt=1 repository=acme/widgets" in caplog.text


async def test_requests_that_wait_for_the_issuer_do_not_count_as_requests_at_work(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub:
        hub.house.context.admission = Admission(requests=0)
        assert (await hub.exchange()).status_code == 200
        hub.house.context.admission = Admission(watching=0)
        assert (await hub.exchange()).status_code == 429


async def test_the_oidc_endpoint_is_described_as_needing_no_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        described = (await house.ask("GET", "/v1/openapi.json")).json()["paths"][EXCHANGE]["post"]
        assert (described["security"], "requestBody" in described) == ([], True)


def _scoped(scope: str) -> Settings:
    return replace(SETTINGS, github=replace(SETTINGS.github, scope=scope))


def _signed_with_public_key(hub: GuardedService) -> str:
    """What a library that lets the token choose would accept: everybody has the public key."""
    public = private_key("first").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = unsigned({"alg": "HS256", "kid": "first"}, claims(hub.now)).rpartition(".")[0]
    mac = base64.urlsafe_b64encode(hmac.digest(public, head.encode(), "sha256")).rstrip(b"=").decode()
    return f"{head}.{mac}"


def _resewn(hub: GuardedService) -> str:
    header, _, signature = hub.issuer.token(hub.now).split(".")
    payload = hub.issuer.token(hub.now, run_id="4712").split(".")[1]
    return f"{header}.{payload}.{signature}"


def _deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found
