"""Signature version 4 of requests to AWS. It also travels in user data."""

from __future__ import annotations

import hashlib
import hmac
import time

Credentials = tuple[str, str, str]  # access key, secret key, session token


def signed(
    credentials: Credentials, region: str, service: str, host: str, headers: dict[str, str], body: bytes, at: float
) -> dict[str, str]:
    """The headers of a POST to `/`, all of them signed, and the signature among them. Their names are in lower case."""
    key, secret, token = credentials
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    headers = {**headers, "host": host, "x-amz-date": moment}
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    said = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    derived = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        derived = hmac.digest(derived, part.encode(), "sha256")
    signature = hmac.digest(derived, said.encode(), "sha256").hex()
    said_by = f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": said_by}
