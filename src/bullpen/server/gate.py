"""Admission of a request once its headers are complete, before any of its body is read.

caller    by the Authorization header, or by the cookie of a session; endpoints that authenticate by their body, the
          files of the dashboard, and those of the process's health, require no token here
length    a declared length over the limit of the endpoint is refused; otherwise the body is counted as it arrives

Without this, a client without a token could make the server read, collect and parse megabytes before it is refused.
"""

from bullpen.auth.tokens import Speaker
from bullpen.server.authentication import Doorkeeper, UnknownToken
from bullpen.server.head import Head
from bullpen.server.heartbeats import LARGEST as LARGEST_BEATS
from bullpen.server.load_limits import Admission
from bullpen.server.problems import too_large
from bullpen.server.routes import github, session, tokens

LARGEST_BODY = 1024 * 1024  # bytes of any request whose endpoint has no limit of its own
HEALTH = ("/healthz", "/readyz")
DOCUMENTS = ("/v1/openapi.json", "/v1/openapi-agents.json")
LARGEST = {
    **LARGEST_BEATS,
    "/v1/github/webhook": github.LARGEST,
    "/v1/oidc/token": tokens.LARGEST_EXCHANGE,
    "/v1/agents/token": tokens.LARGEST_PROOF,
    session.PATH: session.LARGEST,
    **dict.fromkeys(HEALTH, 0),
}
OPEN = frozenset({"/v1/github/webhook", "/v1/oidc/token", "/v1/agents/token", session.PATH, *DOCUMENTS, *HEALTH})
"""Endpoints that need no token: they authenticate by their body or by themselves, or reveal nothing about the pool."""
DASHBOARD = ("/", "/dashboard")
"""Its files, which are the same for everyone."""


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
            speaker = self._doorkeeper.identify(head)
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
