"""An STS that checks signatures with botocore's own signer, and instances that prove themselves to the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bullpen.agent.aws.identity import proof_of
from bullpen.config import Agent, Aws, Engines, Settings
from bullpen.engines.aws.boot.identity import Attestor
from bullpen.model import proof

REGION = "eu-central-1"
URL = f"https://sts.{REGION}.amazonaws.com"
SERVE = "https://pool.example:8420"
KEY, SECRET, TOKEN = "ASIAIOSFODNN7EXAMPLE", "the machine's secret", "c2Vzc2lvbg=="
ROLE = "arn:aws:iam::123456789012:role/ci/bullpen-instance"
SETTINGS = Settings(
    engines=Engines(pool="aws"), agent=Agent(serve_url=SERVE), aws=Aws(region=REGION, instance_role=ROLE)
)
ANSWER = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    "<Arn>{arn}</Arn><UserId>AROA:x</UserId><Account>123456789012</Account>"
    "</GetCallerIdentityResult></GetCallerIdentityResponse>"
)


def session_of(instance_id: str, role: str = "bullpen-instance", account: str = "123456789012") -> str:
    return f"arn:aws:sts::{account}:assumed-role/{role}/{instance_id}"


@dataclass
class Sts:
    """Says that `arn` signed, if the signature is right. Notes what it was sent."""

    arn: str
    status: int = 200
    received: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def send(self, url: str, headers: dict[str, str]) -> tuple[int, bytes]:
        self.received.append((url, headers))
        if self.status != 200:
            return self.status, b"<Error/>"
        if not self.is_signed(url, headers):
            return 403, b"<ErrorResponse><Error><Code>SignatureDoesNotMatch</Code></Error></ErrorResponse>"
        return 200, ANSWER.format(arn=self.arn).encode()

    @staticmethod
    def is_signed(url: str, headers: dict[str, str]) -> bool:
        found = {name: value for name, value in headers.items() if name != "authorization"}
        request = AWSRequest(method="POST", url=f"{url}/", data=proof.BODY, headers=found)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = SigV4Auth(Credentials(KEY, SECRET, TOKEN), "sts", REGION)
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        return headers["authorization"].endswith(f"Signature={signature}")

    def attestor(self) -> Attestor:
        return Attestor(SETTINGS, REGION, self.send)


def a_proof(at: float, secret: str = SECRET, serve_url: str = SERVE, sts_endpoint: str = "") -> dict[str, Any]:
    return proof_of((KEY, secret, TOKEN), REGION, sts_endpoint, serve_url, at)
