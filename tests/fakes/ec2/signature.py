"""Signatures, version 4: which key signed a request, and whether with the secret that goes with it.

A key that the metadata service handed out to an instance is verified to the last byte. Any other key is the operator's:
tests sign with whatever they like.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote

from fakes.ec2.account import Ec2Account
from fakes.ec2.refusal import Ec2Refusal

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class SignedRequest:
    """As it came over the wire; header names in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Signed:
    key: str
    day: str
    region: str
    service: str
    headers: tuple[str, ...]
    signature: str
    time: str
    token: str


def signed_by(request: SignedRequest) -> Signed:
    """What the request says of its signature, in the header or, presigned, in the query."""
    header = request.headers.get("authorization", "")
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    if header.startswith(ALGORITHM):
        parts = dict(part.strip().split("=", 1) for part in header.removeprefix(ALGORITHM).split(","))
        credential, names, signature = parts["Credential"], parts["SignedHeaders"], parts["Signature"]
        time, token = request.headers.get("x-amz-date", ""), request.headers.get("x-amz-security-token", "")
    elif "X-Amz-Signature" in query:
        credential, names = query["X-Amz-Credential"], query["X-Amz-SignedHeaders"]
        signature, time, token = query["X-Amz-Signature"], query["X-Amz-Date"], query.get("X-Amz-Security-Token", "")
    else:
        raise Ec2Refusal("MissingAuthenticationToken", "Request is missing Authentication Token")
    key, day, region, service, _ = credential.split("/")
    return Signed(key, day, region, service, tuple(names.split(";")), signature, time, token)


def verify(account: Ec2Account, request: SignedRequest, signed: Signed) -> str | None:
    """The instance whose credentials signed; None for the operator. Raise Refusal for a bad signature."""
    credentials = account.credentials.get(signed.key)
    if credentials is None:
        if signed.key.startswith("ASIA"):
            raise Ec2Refusal("InvalidClientTokenId", "The security token included in the request is invalid.")
        return None
    now = account.clock.now()
    if now >= credentials.expiry:
        raise Ec2Refusal("ExpiredToken", "The security token included in the request is expired")
    if signed.token != credentials.token:
        raise Ec2Refusal("InvalidClientTokenId", "The security token included in the request is invalid.")
    when = datetime.strptime(signed.time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if abs(now - when) > SKEW or "host" not in signed.headers:
        raise Ec2Refusal("SignatureDoesNotMatch", f"Signature not yet current or expired: {signed.time}")
    if not hmac.compare_digest(_signature(request, signed, credentials.secret), signed.signature):
        raise Ec2Refusal(
            "SignatureDoesNotMatch", "The request signature we calculated does not match the one you provided."
        )
    return credentials.instance_id


def _signature(request: SignedRequest, signed: Signed, secret: str) -> str:
    scope = f"{signed.day}/{signed.region}/{signed.service}/aws4_request"
    canonical = hashlib.sha256(_canonical(request, signed).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (signed.day, signed.region, signed.service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, "\n".join([ALGORITHM, signed.time, scope, canonical]).encode(), "sha256").hex()


def _canonical(request: SignedRequest, signed: Signed) -> str:
    pairs = [pair for pair in parse_qsl(request.query, keep_blank_values=True) if pair[0] != "X-Amz-Signature"]
    query = "&".join(sorted(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs))
    headers = [f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in signed.headers]
    body = hashlib.sha256(request.body).hexdigest()
    return "\n".join([request.method, request.path, query, "".join(headers), ";".join(signed.headers), body])
