"""Webhooks from GitHub: a delivery counts if it is signed, and even then it only says that something has happened.

Deliveries come late, twice, in any order, or not at all. So all that is read of one is which run of which repository it
speaks of, and which labels a job asks for; how that run stands is asked of GitHub. A recorded delivery that is sent
again wakes the server once more, and does no harm.
"""

import hmac
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field
from msgspec.json import Decoder

from bullpen.config import Settings
from bullpen.engines.github.credentials import read_secret
from bullpen.errors import PermissionDenied
from bullpen.model.limits import REPOSITORY_ID_DIGITS
from bullpen.ports.callers import IgnoredEvent, RunEvent
from bullpen.settings.github import covers

RunNumber: TypeAlias = Annotated[int, Meta(ge=1)]
RepositoryId: TypeAlias = Annotated[int, Meta(ge=1, lt=10**REPOSITORY_ID_DIGITS)]


class _Repository(Struct):
    full_name: str
    id: RepositoryId = 0  # GitHub always names it


class _Job(Struct):
    run: RunNumber = field(name="run_id")
    labels: tuple[str, ...] = ()


class _Run(Struct):
    run: RunNumber = field(name="id")


class _OfJob(Struct):
    repository: _Repository
    about: _Job = field(name="workflow_job")
    action: str = ""


class _OfRun(Struct):
    repository: _Repository
    about: _Run = field(name="workflow_run")
    action: str = ""


class Webhooks:
    """The webhooks that point to this server; all of them share one secret."""

    def __init__(self, secret: str, scope: str) -> None:
        self._secret = secret.encode()
        self._scope = scope
        self._decoders: dict[str, Decoder[_OfJob] | Decoder[_OfRun]] = {
            "workflow_job": Decoder(_OfJob),
            "workflow_run": Decoder(_OfRun),
        }

    def check(self, signature: str, body: bytes) -> None:
        """Raise PermissionDenied unless `X-Hub-Signature-256` is made with the secret, over exactly these bytes."""
        if not signature:
            raise PermissionDenied("the delivery has no signature")
        right = "sha256=" + hmac.digest(self._secret, body, "sha256").hex()
        if not hmac.compare_digest(right.encode(), signature.encode()):
            raise PermissionDenied("the signature of the delivery does not match github.webhook-secret")

    def read(self, event: str, body: bytes) -> RunEvent | IgnoredEvent:
        """What a delivery is about. Raise msgspec's DecodeError, or RecursionError, for what GitHub would not send."""
        if (decoder := self._decoders.get(event)) is None:
            return IgnoredEvent("a ping" if event == "ping" else "an event that Bullpen does not use")
        found = decoder.decode(body)
        name, id = found.repository.full_name, found.repository.id
        if not covers(self._scope, name):
            return IgnoredEvent("a repository outside github.scope")
        labels = found.about.labels if isinstance(found.about, _Job) else ()
        return RunEvent(name, id, str(found.about.run), found.action, labels)


def webhooks(settings: Settings) -> Webhooks | None:
    """None where no webhook can be believed. Raise ConfigError if the secret's file cannot be read."""
    secret = read_secret("webhook-secret", settings.github.webhook_secret) if settings.on_github else ""
    return Webhooks(secret, settings.github.scope) if secret else None
