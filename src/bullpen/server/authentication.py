"""Who speaks, and what they may: an operator by the scope of their token, an agent for its own instance only, a
workflow run for its own label only.

Without tokens the service is open to operators, and then it listens on loopback only, answers to callers on this
machine and loopback names only, and to no web page of another origin. Agents are bound to their instance even then. A
service that others can reach, or that has ever seen tokens, is never open again.
"""

import logging
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address

from bullpen.auth.tokens import AgentIdentity, Keys, Operator, RunIdentity, Scope, Speaker
from bullpen.errors import BullpenError, ConfigError
from bullpen.model import label as labels
from bullpen.ports import Clock
from bullpen.schema.error import ErrorAnswer
from bullpen.server.problems import Problem

OPEN = Operator("open", Scope.ADMIN)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

log = logging.getLogger("bullpen.server")


class Doorkeeper:
    """Turns an `Authorization` header into who speaks."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._always_asks = False
        self._trouble = ""

    def settle(self, listening_on: Iterable[str]) -> None:
        """Decide at the start, from the addresses listened on: if others can reach the service, it asks for tokens for
        ever, whatever becomes of them."""
        has_tokens = self._keys.has_tokens(self._clock.now().timestamp())
        self._always_asks = has_tokens or not all(is_loopback(address) for address in listening_on)

    def check_peer(self, peer: str | None) -> None:
        """Raise a 403 for a caller from elsewhere where nobody is asked for a token."""
        if self._always_asks or (peer is not None and is_loopback(peer)):
            return
        if self._is_open(self._clock.now().timestamp()):
            raise forbidden("without tokens the service answers to this machine only")

    def identify(self, authorization: str | None, host: str | None, origin: str | None) -> Speaker:
        """Who speaks. Raise a 401 for a token that is nobody's, a 403 for whom the open service is not meant, a 503 if
        the keys cannot be read."""
        now = self._clock.now().timestamp()
        if authorization is None:
            if not self._is_open(now):
                raise unauthorized("a token is needed")
            return _local_caller(host, origin)
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            raise unauthorized("the Authorization header must be 'Bearer <token>'")
        try:
            found = self._keys.bearer(token.strip(), now)
        except BullpenError as exc:
            raise self._unreadable(exc) from exc
        if found is None:
            raise unauthorized("the token is wrong, expired or revoked")
        return found

    def _is_open(self, now: float) -> bool:
        try:
            return not self._always_asks and not self._keys.has_tokens(now)
        except BullpenError as exc:
            raise self._unreadable(exc) from exc

    def _unreadable(self, error: BullpenError) -> Problem:
        """What is wrong is for the operator to know: it goes to the log, once and not with every beat."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            log.error("no operator can be let in: %s", error)
        return Problem(503, ErrorAnswer("the service cannot read its tokens; its log says more"), {"retry-after": "5"})


def must_be_operator(speaker: Speaker, scope: Scope) -> Operator:
    """Raise a 403 unless an operator speaks whose scope includes this one."""
    if isinstance(speaker, AgentIdentity):
        raise forbidden("an agent's token speaks for its own instance only")
    if isinstance(speaker, RunIdentity):
        raise forbidden("a run's token speaks for its own run only")
    if not speaker.scope.includes(scope):
        raise forbidden(
            f"the token's scope is {speaker.scope.value}: this needs {scope.value}",
            remedy=f"`bullpen token create --scope {scope.value}` makes one that may.",
        )
    return speaker


def must_serve_run(speaker: Speaker, label: str, scope: Scope) -> Operator | RunIdentity:
    """Raise a 403 unless the workflow run whose label it is speaks, or an operator whose scope includes this one."""
    if not isinstance(speaker, RunIdentity):
        return must_be_operator(speaker, scope)
    found = labels.parse(label)
    if found is None or not found.admits(speaker.run, speaker.attempt):
        raise forbidden(
            f"the token is bound to run {speaker.run}, attempt {speaker.attempt}: it cannot speak for another",
            remedy="A job of that run has to ask, or an operator.",
        )
    return speaker


def must_be_agent(speaker: Speaker, instance_id: str) -> AgentIdentity:
    """Raise a 403 unless the agent of this very instance speaks."""
    if not isinstance(speaker, AgentIdentity):
        raise forbidden("only the instance's own agent may speak here")
    if speaker.instance_id != instance_id:
        raise forbidden(f"the token is bound to {speaker.instance_id}: it cannot speak for another instance")
    return speaker


def may_beat(speaker: Operator | AgentIdentity, worker_key: str) -> bool:
    """An agent beats for workers of its instance, an operator who may operate for any."""
    if isinstance(speaker, AgentIdentity):
        return worker_key.partition("/")[0] == speaker.instance_id
    return speaker.scope.includes(Scope.OPERATE)


def check_bind(keys: Keys, now: float, host: str, *, strangers_here: bool = False) -> None:
    """Raise ConfigError if others could reach a service that asks for no token. With `strangers_here` that is so
    on loopback, too: jobs of workflows run on this machine, and could do everything that an operator can."""
    if keys.has_tokens(now) or (is_loopback(host) and not strangers_here):
        return
    why = f"--host {host}: anything but loopback needs tokens"
    if is_loopback(host):
        why = 'engines.ci = "github": jobs of workflows run on this machine, so that serving it needs tokens'
    raise ConfigError(
        f"{why}, and this pool has none", remedy="`bullpen token create --scope admin` makes the first one."
    )


@lru_cache(maxsize=1024)  # every request without tokens asks it of its peer
def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False  # a name may lead anywhere


def forbidden(error: str, remedy: str = "", field: str = "") -> Problem:
    return Problem(403, ErrorAnswer(error, field, remedy=remedy))


def unauthorized(error: str) -> Problem:
    return Problem(401, ErrorAnswer(error), {"www-authenticate": "Bearer"})


def _local_caller(host: str | None, origin: str | None) -> Operator:
    """A page in a browser on this machine can reach loopback too, under any name that somebody's DNS gives it."""
    name = (host or "").rpartition(":")[0] if not (host or "").endswith("]") and ":" in (host or "") else (host or "")
    if name.lower() not in LOOPBACK_NAMES:
        raise forbidden(f"without tokens the service answers to {', '.join(LOOPBACK_NAMES)} only")
    if origin is not None and origin.partition("://")[2] != host:
        raise forbidden("without tokens the service answers to no page of another origin")
    return OPEN
