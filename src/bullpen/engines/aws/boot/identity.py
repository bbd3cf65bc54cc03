"""The identity of an instance: `serve` asks STS, with a request that the instance has signed. See
`bullpen.model.proof`.

The caller chooses nothing: `serve` sets method, URL, body and audience, and the signature fits them or not. So no
caller makes it call another service or operation, and a request that was signed for another audience is refused.
Whether the pool still has the instance that signed is a question for the records.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit
from xml.etree import ElementTree

from bullpen.config import Settings
from bullpen.errors import PermissionDenied, Unavailable
from bullpen.model import proof
from bullpen.ports.callers import InstanceProof

PATIENCE = 5.0  # seconds for STS to answer
LARGEST_ANSWER = 64 * 1024  # bytes
AUTHORIZATION = (
    r"AWS4-HMAC-SHA256 Credential=[A-Z0-9]{16,128}/[0-9]{8}/[a-z0-9-]{1,32}/sts/aws4_request, "
    rf"SignedHeaders={re.escape(proof.SIGNED)}, Signature=[0-9a-f]{{64}}"
)
SESSION_TOKEN = r"[A-Za-z0-9+/=]{1,4096}"
ARN = r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([\w+=,.@-]{1,64})/(i-[0-9a-f]{8,32})"

Send = Callable[[str, dict[str, str]], Awaitable[tuple[int, bytes]]]


class Attestor:
    """Knows the machines of one role. `send` posts a proof's request to a URL and returns the status and the answer."""

    def __init__(self, settings: Settings, region: str, send: Send | None = None) -> None:
        self._headers = proof.headers(settings.agent.serve_url)
        self._url = proof.endpoint(region, settings.aws.endpoints.get("sts", ""))
        self._role = settings.aws.instance_role
        self._send = send or _post

    async def instance(self, given: InstanceProof, now: datetime) -> str:
        """The id of the instance that signed. Raise PermissionDenied for any other caller, Unavailable without STS."""
        _check(given, now)
        signed = {
            "authorization": given.authorization,
            "x-amz-date": given.date,
            "x-amz-security-token": given.session_token,
            "host": urlsplit(self._url).netloc,
        }
        status, content = await self._send(self._url, {**self._headers, **signed})
        if status >= 500 or b"Throttling" in content:
            raise Unavailable(f"STS GetCallerIdentity: answered {status}")
        if status != 200:
            raise PermissionDenied(f"STS GetCallerIdentity: answered {status}")
        return self._named(_arn(content))

    def _named(self, arn: str) -> str:
        found = re.fullmatch(ARN, arn)
        if found is None:
            raise PermissionDenied(f"{arn} is not the session of an EC2 instance")
        partition, account, role, instance_id = found.groups()
        # A role's session shows no path. It need not: within an account a role's name is unique.
        configured = re.sub(":role/.*/", ":role/", self._role)
        if configured != f"arn:{partition}:iam::{account}:role/{role}":
            raise PermissionDenied(f"{arn} is not a session of aws.instance-role {self._role}")
        return instance_id


def attestor(settings: Settings) -> Attestor | None:
    """None where agents bring their token with them, or need none."""
    if settings.engines.pool != "aws" or not settings.agent.serve_url:
        return None
    if not (region := settings.aws.region):
        from botocore.session import get_session

        region = str(get_session().get_config_variable("region") or "")
    return Attestor(settings, region)


def _check(given: InstanceProof, now: datetime) -> None:
    """Raise PermissionDenied unless it is a recent proof by its shape. No text says of what it was: not even that."""
    is_shaped = re.fullmatch(AUTHORIZATION, given.authorization) and re.fullmatch(SESSION_TOKEN, given.session_token)
    try:
        at = datetime.strptime(given.date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as exc:
        raise PermissionDenied("the proof has no date") from exc
    if not is_shaped or not given.date.isascii() or len(given.date) != 16:
        raise PermissionDenied("the proof is malformed")
    if abs((now - at).total_seconds()) > proof.LASTS:
        raise PermissionDenied("the date of the proof is too far from now")


def _arn(content: bytes) -> str:
    try:
        found = ElementTree.fromstring(content).findtext(".//{*}Arn")
    except ElementTree.ParseError as exc:
        raise Unavailable("STS GetCallerIdentity: its answer is not XML") from exc
    return found or ""


async def _post(url: str, headers: dict[str, str]) -> tuple[int, bytes]:
    return await asyncio.to_thread(_posted, url, headers)


def _posted(url: str, headers: dict[str, str]) -> tuple[int, bytes]:
    where = urlsplit(url)
    kind = HTTPSConnection if where.scheme == "https" else HTTPConnection
    connection = kind(where.netloc, timeout=PATIENCE)
    try:
        connection.request("POST", "/", proof.BODY, headers)
        response = connection.getresponse()
        return response.status, response.read(LARGEST_ANSWER)
    except (OSError, HTTPException) as exc:
        raise Unavailable(f"STS GetCallerIdentity: {where.netloc} did not answer ({type(exc).__name__})") from exc
    finally:
        connection.close()
