"""Callers of `bullpen serve` that have none of its tokens, and prove in another way who they are.

    an instance    with a request that it signed with its role's credentials
    a job          with the OIDC token that its CI gave it
    the CI         by signing its webhooks

Each is None where the pool has no such callers.
"""

from datetime import datetime
from typing import Protocol

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, repr=False)  # never shown: until it expires it stands for the instance
class InstanceProof:
    authorization: str
    date: str
    session_token: str


class InstanceVerifier(Protocol):
    async def instance(self, given: InstanceProof, now: datetime) -> str:
        """The id of the instance that signed the proof.

        Raise PermissionDenied if no instance of this pool's role signed it, Unavailable if that cannot be found out.
        """


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The workflow run of a job, and the trust domain that the run has earned."""

    repository: str
    run: str
    attempt: int
    trust: str


class JobVerifier(Protocol):
    async def identify(self, token: str, now: datetime) -> JobIdentity:
        """The job that an OIDC token belongs to.

        Raise PermissionDenied, with what is wrong, and Unavailable without the issuer's keys.
        """


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A webhook reports that something happened to a run in the pool's scope."""

    repository: str
    repository_id: int  # 0: not known
    run: str
    action: str
    labels: tuple[str, ...] = ()  # that a job asks for; of a run there are none


@dataclass(frozen=True, slots=True)
class IgnoredEvent:
    """A webhook that does not concern this pool."""

    why: str


class WebhookVerifier(Protocol):
    def check(self, signature: str, body: bytes) -> None:
        """Raise PermissionDenied unless the signature is right for exactly these bytes."""

    def read(self, event: str, body: bytes) -> RunEvent | IgnoredEvent:
        """What a webhook is about. Raise msgspec's DecodeError, or RecursionError, for a body of another shape."""


@dataclass(frozen=True, slots=True)
class Verifiers:
    instances: InstanceVerifier | None = None
    jobs: JobVerifier | None = None
    webhooks: WebhookVerifier | None = None
