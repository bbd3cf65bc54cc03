"""Proof of which instance speaks: a request to STS, GetCallerIdentity, that the instance signs and `serve` sends.

Both sides build the request from here, so that only the time, the session token and the signature travel: whoever
signed anything else has proved nothing. A signed header names the service that the proof is meant for, which makes it
worthless to every other. STS answers who signed, and the session of a machine's role is named after the machine.
"""

from urllib.parse import urlsplit

BODY = b"Action=GetCallerIdentity&Version=2011-06-15"
AUDIENCE = "x-bullpen-audience"
SIGNED = f"content-type;host;x-amz-date;x-amz-security-token;{AUDIENCE}"
"""The headers that a proof signs: these, all of them."""
LASTS = 300.0
"""Seconds around its time in which a proof is good."""


def headers(serve_url: str) -> dict[str, str]:
    """Those of the request that say what it is and for whom, beside what every signed request has."""
    audience = urlsplit(serve_url).netloc.lower()
    return {"content-type": "application/x-www-form-urlencoded; charset=utf-8", AUDIENCE: audience}


def endpoint(region: str, configured: str = "") -> str:
    """The URL of STS, as both sides must see it."""
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return configured or f"https://sts.{region}.{domain}"
