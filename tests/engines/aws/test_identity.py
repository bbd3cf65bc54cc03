"""How the service asks STS, over HTTP. What it makes of the answers is in tests/server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from msgspec.structs import replace

from bullpen.agent.aws.identity import proof_of
from bullpen.agent.aws.imds import Metadata
from bullpen.agent.aws.sigv4 import Credentials
from bullpen.config import Aws, Engines, Settings
from bullpen.engines.aws.boot.identity import Attestor, attestor
from bullpen.errors import PermissionDenied, Unavailable
from bullpen.model import proof
from bullpen.ports.callers import InstanceProof
from fakes.ec2 import ground
from fakes.ec2.calling import a_fleet, a_template, client_of, ids_of
from fakes.ec2.control import Control
from fakes.ec2.ground import ROLE_ARN
from server.sts import ANSWER, REGION, ROLE, SERVE, SETTINGS, Sts, a_proof, session_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
INSTANCE = "i-0123456789abcdef0"


@contextmanager
def answering(status: int, content: bytes, received: list[tuple[str, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def ask(sts: str) -> str:
    settings = replace(SETTINGS, aws=Aws(region=REGION, instance_role=ROLE, endpoints={"sts": sts}))
    given = a_proof(NOW.timestamp(), sts_endpoint=sts)
    asked = InstanceProof(given["authorization"], given["date"], given["sessionToken"])
    return await Attestor(settings, REGION).instance(asked, NOW)


@pytest.mark.real_loop
async def test_the_configured_sts_is_asked_one_question_only() -> None:
    received: list[tuple[str, bytes]] = []
    with answering(200, ANSWER.format(arn=session_of(INSTANCE)).encode(), received) as sts:
        assert await ask(sts) == INSTANCE
    assert received == [("/", proof.BODY)]


@pytest.mark.real_loop
@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>", PermissionDenied),
        (400, b"<Error><Code>ExpiredToken</Code></Error>", PermissionDenied),
        (302, b"", PermissionDenied),
        (400, b"<Error><Code>Throttling</Code></Error>", Unavailable),
        (500, b"", Unavailable),
        (200, b"<html>", Unavailable),
        (200, b"<Empty/>", PermissionDenied),
    ],
)
async def test_an_answer_is_a_name_a_refusal_or_none(status: int, content: bytes, error: type[Exception]) -> None:
    with answering(status, content, []) as sts, pytest.raises(error):
        await ask(sts)


@pytest.mark.parametrize(
    "arn",
    [
        session_of(INSTANCE, role="another-role"),
        session_of(INSTANCE, account="210987654321"),
        session_of("a-person"),
        session_of(f"{INSTANCE}/x"),
        f"arn:aws:sts::123456789012:federated-user/{INSTANCE}",
        f"arn:aws:iam::123456789012:user/{INSTANCE}",
        "arn:aws:iam::123456789012:root",
        f"arn:aws-cn:sts::123456789012:assumed-role/bullpen-instance/{INSTANCE}",
        "",
    ],
)
async def test_only_a_session_of_the_machines_role_named_after_a_machine_counts(arn: str) -> None:
    given = a_proof(NOW.timestamp())
    asked = InstanceProof(given["authorization"], given["date"], given["sessionToken"])
    assert await Sts(session_of(INSTANCE)).attestor().instance(asked, NOW) == INSTANCE
    with pytest.raises(PermissionDenied):
        await Sts(arn).attestor().instance(asked, NOW)


@pytest.mark.real_loop
async def test_an_sts_that_is_not_there_is_no_refusal() -> None:
    with answering(200, b"", []) as sts:
        pass
    with pytest.raises(Unavailable):
        await ask(sts)


@pytest.mark.real_loop
async def test_a_machine_is_known_by_the_credentials_of_its_role(
    cloud: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both from the cloud: the credentials that the machine signs with, and the service that checks them."""
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        first, second = ids_of(await ec2.create_fleet(**a_fleet(2)))
    settings = replace(SETTINGS, aws=Aws(region=ground.REGION, instance_role=ROLE_ARN, endpoints={"sts": cloud.url}))
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{cloud.url}/imds/{first}/")
    own = Metadata().credentials()
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{cloud.url}/imds/{second}/")
    others = Metadata().credentials()
    now = datetime.now(UTC)

    async def named(credentials: Credentials, serve_url: str = SERVE) -> str:
        given = proof_of(credentials, ground.REGION, cloud.url, serve_url, now.timestamp())
        asked = InstanceProof(given["authorization"], given["date"], given["sessionToken"])
        return await Attestor(settings, ground.REGION).instance(asked, now)

    assert await named(own) == first
    assert await named(others) == second
    for forged in ((own[0], others[1], own[2]), (own[0], own[1], others[2])):
        with pytest.raises(PermissionDenied):
            await named(forged)
    with pytest.raises(PermissionDenied):
        await named(own, "https://other.example")


def test_only_a_pool_on_aws_whose_agents_use_the_service_asks_sts() -> None:
    assert attestor(SETTINGS) is not None
    assert attestor(Settings()) is None
    assert attestor(Settings(engines=Engines(pool="aws"))) is None
    assert attestor(replace(SETTINGS, engines=Engines())) is None


def test_a_proof_is_not_shown() -> None:
    assert "c2Vzc2lvbg==" not in repr(InstanceProof("a", "b", "c2Vzc2lvbg=="))


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-central-1", "https://sts.eu-central-1.amazonaws.com"),
        ("cn-north-1", "https://sts.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_both_sides_know_the_sts_of_a_region(region: str, url: str) -> None:
    assert proof.endpoint(region) == url
