"""An agent without a token proves which instance it is; no other caller gets a token."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import expire, register
from bullpen.agent.aws.identity import proof_of
from bullpen.auth.tokens import AgentIdentity
from bullpen.model import proof
from bullpen.ports.callers import Verifiers
from bullpen.server.load_limits import Admission
from bullpen.server.routes.tokens import LARGEST_PROOF, NO_INSTANCE, SEE_LOG
from server.fixtures import INSTANCE, OTHER, House, a_house
from server.sts import KEY, REGION, SECRET, SERVE, SETTINGS, TOKEN, URL, Sts, a_proof, session_of

PATH = "/v1/agents/token"


@asynccontextmanager
async def a_pool(home: Path, arn: str = session_of(INSTANCE), **more: Any) -> AsyncIterator[tuple[House, Sts]]:
    """A guarded service with one live instance."""
    sts = Sts(arn)
    async with a_house(home, settings=SETTINGS, **more) as house:
        house.guard()
        house.context.verifiers = Verifiers(instances=sts.attestor())
        await house.ports.records.apply(register(INSTANCE))
        yield house, sts


def now(house: House) -> float:
    return house.ports.clock.now().timestamp()


async def prove(house: House, **changed: Any) -> httpx.Response:
    return await house.ask("POST", PATH, json=a_proof(now(house)) | changed)


def is_refused(answer: httpx.Response) -> bool:
    return answer.status_code == 403 and answer.json() == {
        "code": "forbidden",
        "error": NO_INSTANCE,
        "remedy": SEE_LOG,
    }


async def test_an_instance_that_proves_itself_gets_a_token_of_its_own(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, _):
        token = (await prove(house)).json()["token"]
        assert house.context.keys.bearer(token, now(house)) == AgentIdentity(INSTANCE)
        assert (await house.ask("GET", f"/v1/agents/{INSTANCE}/record", token)).status_code == 200
        assert (await house.ask("GET", f"/v1/agents/{OTHER}/record", token)).status_code == 403


async def test_the_request_to_sts_takes_only_the_signature_from_the_caller(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, sts):
        given = a_proof(now(house))
        await prove(house)
        assert sts.received == [
            (
                URL,
                {
                    "content-type": "application/x-www-form-urlencoded; charset=utf-8",
                    "host": "sts.eu-central-1.amazonaws.com",
                    "x-bullpen-audience": "pool.example:8420",
                    "authorization": given["authorization"],
                    "x-amz-date": given["date"],
                    "x-amz-security-token": TOKEN,
                },
            )
        ]


async def test_the_caller_cannot_choose_the_address_or_the_request_to_sts(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, sts):
        for more in ({"url": "https://evil.example"}, {"body": "Action=AssumeRole"}, {"host": "evil.example"}):
            assert (await prove(house, **more)).status_code == 400
        assert sts.received == []


async def test_a_forged_signature_is_refused(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, _):
        assert is_refused(await house.ask("POST", PATH, json=a_proof(now(house), secret="a guess")))


async def test_a_proof_for_another_service_is_refused(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, _):
        for url in ("https://other.example:8420", "https://pool.example"):
            assert is_refused(await house.ask("POST", PATH, json=a_proof(now(house), serve_url=url)))


async def test_a_proof_that_names_no_service_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another service may ask for such a proof, and could then present it here."""
    async with a_pool(tmp_path) as (house, sts):
        found = {name: value for name, value in proof.headers(SERVE).items() if name != proof.AUDIENCE}
        monkeypatch.setattr(proof, "headers", lambda serve_url: found)
        given = proof_of((KEY, SECRET, TOKEN), REGION, "", SERVE, now(house))
        assert proof.AUDIENCE not in given["authorization"]
        assert is_refused(await house.ask("POST", PATH, json=given))
        assert sts.received == []


async def test_an_identity_that_is_no_instance_of_the_pools_role_is_refused(tmp_path: Path) -> None:
    async with a_pool(tmp_path, session_of(INSTANCE, role="another-role")) as (house, _):
        assert is_refused(await prove(house))


async def test_an_instance_without_a_record_gets_no_token(tmp_path: Path) -> None:
    async with a_pool(tmp_path, session_of(OTHER)) as (house, _):
        assert is_refused(await prove(house))


async def test_a_terminated_instance_gets_no_token(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, _):
        found = (await house.ports.records.instances([INSTANCE]))[INSTANCE]
        await house.ports.records.apply(expire(found))
        assert is_refused(await prove(house))


async def test_a_proof_is_good_for_five_minutes(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, sts):
        given = a_proof(now(house))
        await asyncio.sleep(290)
        assert (await house.ask("POST", PATH, json=given)).status_code == 200
        await asyncio.sleep(20)
        assert is_refused(await house.ask("POST", PATH, json=given))
        assert is_refused(await house.ask("POST", PATH, json=a_proof(now(house) + 310)))
        assert len(sts.received) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"authorization": ""},
        {"authorization": "Bearer x"},
        {"authorization": "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=0"},
        {"date": ""},
        {"date": "yesterday"},
        {"date": "2030-01-01 00:00"},
        {"date": "٢٠٣٠٠١٠١T000000Z"},
        {"sessionToken": ""},
        {"sessionToken": "x\r\nx-injected: 1"},
        {"sessionToken": "x y"},
    ],
)
async def test_a_malformed_proof_is_not_sent_to_sts(tmp_path: Path, changed: dict[str, str]) -> None:
    async with a_pool(tmp_path) as (house, sts):
        assert is_refused(await prove(house, **changed))
        assert sts.received == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[1]", 400),
        (b"\xff\xfe", 400),
        (b'{"authorization": 1, "date": "", "sessionToken": ""}', 400),
        (b'{"authorization": "' + b"x" * 600 + b'", "date": "", "sessionToken": ""}', 400),
        (b'{"authorization": "' + b"x" * LARGEST_PROOF + b'"}', 413),
        (b"[" * 5000, 400),
    ],
)
async def test_malformed_and_huge_bodies_are_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with a_pool(tmp_path) as (house, sts):
        answer = await house.ask("POST", PATH, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status
        assert answer.json()["error"]
        assert sts.received == []


async def test_without_sts_the_agent_gets_a_503_and_may_retry(tmp_path: Path) -> None:
    async with a_pool(tmp_path) as (house, sts):
        sts.status = 503
        answer = await prove(house)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_a_proof_counts_as_a_request_at_work(tmp_path: Path) -> None:
    async with a_pool(tmp_path, admission=Admission(requests=0)) as (house, sts):
        assert (await prove(house)).status_code == 429
        assert sts.received == []


async def test_nothing_of_a_proof_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with a_pool(tmp_path) as (house, sts):
        given = a_proof(now(house))
        signature = given["authorization"].rpartition("=")[2]
        token = (await prove(house)).json()["token"]
        await prove(house, date="x")
        sts.arn = session_of(OTHER)
        await prove(house)
        sts.status = 500
        await prove(house)
        said = caplog.text
        assert f"gets its token instance={INSTANCE}" in said
        assert [secret for secret in (signature, TOKEN, KEY, token) if secret in said] == []


async def test_a_pool_that_launches_agents_with_tokens_gives_out_none(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await prove(house)).status_code == 404


async def test_the_endpoint_for_proofs_is_described_as_needing_no_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        described = (await house.ask("GET", "/v1/openapi-agents.json")).json()["paths"][PATH]["post"]
        assert described["security"] == []
        assert described["requestBody"]
