"""Admission of a request once its headers are complete, before any of its body is read.

caller    by the Authorization header; endpoints that authenticate by their body, and those of the process's health,
          require no token here
length    a declared length over the limit of the endpoint is refused; otherwise the body is counted as it arrives

Without this, a client without a token could make the server read, collect and parse megabytes before it is refused.
"""

from collections.abc import Iterable
from typing import TypeAlias

from bullpen.auth.tokens import Speaker
from bullpen.lazy_dataclass import dataclass
from bullpen.server.authentication import Doorkeeper, UnknownToken
from bullpen.server.heartbeats import LARGEST as LARGEST_BEATS
from bullpen.server.load_limits import Admission
from bullpen.server.problems import bad_input, too_large
from bullpen.server.routes import github, tokens

LARGEST_BODY = 1024 * 1024  # bytes of any request whose endpoint has no limit of its own
HEALTH = ("/healthz", "/readyz")
DOCUMENTS = ("/v1/openapi.json", "/v1/openapi-agents.json")
LARGEST = {
    **LARGEST_BEATS,
    "/v1/github/webhook": github.LARGEST,
    "/v1/oidc/token": tokens.LARGEST_EXCHANGE,
    "/v1/agents/token": tokens.LARGEST_PROOF,
    **dict.fromkeys(HEALTH, 0),
}
OPEN = frozenset({"/v1/github/webhook", "/v1/oidc/token", "/v1/agents/token", *DOCUMENTS, *HEALTH})
"""Endpoints that need no token: they authenticate by their body, or reveal nothing about the pool."""
DASHBOARD = ("/", "/dashboard")
"""Its files, which are the same for everyone."""

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class Head:
    """The headers that decide. `length` is None where none is declared."""

    authorization: str | None = None
    host: str | None = None
    origin: str | None = None
    length: int | None = None
    chunked: bool = False

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)


def head_of(headers: Headers) -> Head:
    """Raise a 400 for a length or an encoding by which the end of the body cannot be found."""
    head = Head()
    for name, value in headers:
        if name == b"authorization":
            head.authorization = value.decode("latin-1")
        elif name == b"host":
            head.host = value.decode("latin-1")
        elif name == b"origin":
            head.origin = value.decode("latin-1")
        elif name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise bad_input("Content-Length: not a number of bytes", "content-length", value.decode("latin-1"))
            head.length = int(value)
        elif name == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                # The parser would refuse it too, but only once the request has begun.
                raise bad_input("unknown Transfer-Encoding", "transfer-encoding", value.decode("latin-1"), "chunked")
            head.chunked = True
    return head


def _is_dashboard(path: str) -> bool:
    return path in DASHBOARD or path.startswith("/dashboard/")


class RequestGate:
    """Admits requests by their headers."""

    def __init__(self, doorkeeper: Doorkeeper, admission: Admission) -> None:
        self._doorkeeper = doorkeeper
        self._admission = admission

    def admit(self, path: str, head: Head, peer: str | None) -> Speaker | None:
        """The caller; None where the endpoint needs no token. Raise a 401 or 403 for a caller that is refused, a 413
        for a body whose declared length is too large, a 503 if the tokens cannot be read. Raise an UnknownToken where
        `admit_unknown` may find the caller."""
        # Spelled as the router reads it: with a slash at the end it is the same endpoint.
        path = path if path in LARGEST else "/" + "/".join(part for part in path.split("/") if part)
        if path not in HEALTH:
            self._doorkeeper.check_peer(peer)
        speaker = None
        if path not in OPEN and not _is_dashboard(path):
            speaker = self._doorkeeper.identify(head.authorization, head.host, head.origin)
        largest = LARGEST.get(path, LARGEST_BODY)
        if head.length is not None and head.length > largest:
            raise too_large(largest)
        return speaker

    async def admit_unknown(self, path: str, head: Head, peer: str | None) -> Speaker | None:
        """As `admit`, by tokens that are read meanwhile if the caller's may be new. Raise a 429 if too many wait."""
        try:
            return self.admit(path, head, peer)
        except UnknownToken:
            with self._admission.wait_for_tokens():
                await self._doorkeeper.catch_up()
        return self.admit(path, head, peer)
