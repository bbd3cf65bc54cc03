"""Proof of identity of an instance: a request to STS, GetCallerIdentity, that the instance signs and `serve` sends.

Both sides build the request from here, so only the time, the session token and the signature travel: a signature of any
other request is refused. A signed header names the service that the proof is for, so no other service can use it. STS
answers which role session signed it, and the session of a machine's role is named after the machine.
"""

from urllib.parse import urlsplit

BODY = b"Action=GetCallerIdentity&Version=2011-06-15"
AUDIENCE = "x-bullpen-audience"
SIGNED = f"content-type;host;x-amz-date;x-amz-security-token;{AUDIENCE}"
"""The headers that a proof signs: these, all of them."""
LASTS = 300.0
"""Seconds before and after its time in which a proof is valid."""


def headers(serve_url: str) -> dict[str, str]:
    """The headers that name the content and the audience, beside those that every signed request has."""
    audience = urlsplit(serve_url).netloc.lower()
    return {"content-type": "application/x-www-form-urlencoded; charset=utf-8", AUDIENCE: audience}


def endpoint(region: str, configured: str = "") -> str:
    """The URL of STS, as both sides must see it."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return configured or f"https://sts.{region}.{domain}"
