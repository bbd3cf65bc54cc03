"""The token of an agent that was launched without one, given by `bullpen serve` for proof of which instance it is.

The proof is a request to STS that the agent signs with the machine's role and does not send: see `bullpen.model.proof`.
"""

from __future__ import annotations

import time
from threading import Lock
from urllib.parse import urlsplit

from bullpen.agent.aws.imds import Metadata, NoMetadata
from bullpen.agent.aws.sigv4 import Credentials, signed
from bullpen.agent.config import Config
from bullpen.agent.store.connection import Answer, Caller, FixedToken, ServiceAway
from bullpen.model import proof

PATIENCE = 3.0  # seconds for an answer: the loop that sends the heartbeat may be waiting for it


class Attested(FixedToken):
    """Fetched when first needed, and again when it was refused. Several threads may share it."""

    def __init__(self, config: Config, metadata: Metadata) -> None:
        super().__init__("")
        self._config = config
        self._metadata = metadata
        self._caller = Caller(config.serve_url, FixedToken(""), PATIENCE)
        self._lock = Lock()

    def token(self) -> str:
        with self._lock:
            if not self._token:
                self._token = self._fetched()
            return self._token

    def refused(self, token: str) -> None:
        with self._lock:
            if self._token == token:  # else another thread has fetched a new one already
                self._token = ""

    def _fetched(self) -> str:
        if (pause := self._caller.pause_left()) > 0:
            raise ServiceAway(f"waiting {pause:.1f} s before asking for a token again")
        try:
            credentials = self._metadata.credentials()
        except NoMetadata as exc:
            raise ServiceAway(f"cannot ask for a token without credentials: {exc}") from exc
        told = self._config
        request = proof_of(credentials, told.region, told.sts_endpoint, told.serve_url, time.time())
        status, answer = self._caller.call("POST", "/v1/agents/token", request)
        if status != 200:
            raise ServiceAway(f"{urlsplit(told.serve_url).netloc} answered {status} instead of giving a token")
        return str(answer["token"])


def proof_of(credentials: Credentials, region: str, sts_endpoint: str, serve_url: str, at: float) -> Answer:
    """Proves to the server that the holder of these credentials asks, at this time."""
    host = urlsplit(proof.endpoint(region, sts_endpoint)).netloc
    found = signed(credentials, region, "sts", host, proof.headers(serve_url), proof.BODY, at)
    return {
        "authorization": found["authorization"],
        "date": found["x-amz-date"],
        "sessionToken": found.get("x-amz-security-token", ""),
    }
