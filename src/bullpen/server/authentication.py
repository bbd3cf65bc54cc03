"""Authentication: the caller of a request, and what it may do. The token of an operator has a scope, that of an agent
is valid for its instance only, that of a workflow run for its label only. A browser sends the cookie of a session
instead of an operator's token. Where a request has both, the token alone counts.

Without tokens the server is open to operators. It then listens on loopback only, and refuses callers from other
machines, other host names and web pages of other origins. Agents need their token even then. A server that other
machines can reach, or that has ever had tokens, is never open again.
"""

from collections.abc import Iterable

from bullpen.auth.loopback import is_loopback
from bullpen.auth.tokens import AgentIdentity, Keys, Operator, RunIdentity, Scope, Speaker
from bullpen.errors import BullpenError, ConfigError
from bullpen.model import label as labels
from bullpen.ports import Clock
from bullpen.server.head import Head
from bullpen.server.problems import Problem
from bullpen.server.sessions import LOOPBACK_NAMES, Sessions, is_loopback_name
from bullpen.structured_log import get_logger

OPEN = Operator("open", Scope.ADMIN)
LOG_IN_AGAIN = "Log in again with a valid token."

log = get_logger("bullpen.server")


class UnknownToken(Problem):
    """A 401 for an operator's token that this process does not know, and that may have been created a moment ago."""


class Doorkeeper:
    """Finds the caller that an `Authorization` header or a session names."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self.sessions = Sessions(keys, clock)
        self._keys = keys
        self._clock = clock
        self._always_asks = False
        self._trouble = ""

    def settle(self, listening_on: Iterable[str]) -> None:
        """Decide at the start, from the addresses listened on: if other machines can reach the server, it requires
        tokens from then on, whatever becomes of them."""
        has_tokens = self._keys.has_tokens(self._clock.now().timestamp())
        self._always_asks = has_tokens or not all(is_loopback(address) for address in listening_on)

    def check_peer(self, peer: str | None) -> None:
        """Raise a 403 for a caller on another machine while no token is required."""
        if self._always_asks or (peer is not None and is_loopback(peer)):
            return
        if self._is_open(self._clock.now().timestamp()):
            raise forbidden("the server has no tokens, so it serves this machine only")

    def identify(self, head: Head) -> Speaker:
        """The caller. Raise a 401 for a token or a session that is not valid, an UnknownToken for one that may be new,
        a 403 for a caller that an open server refuses and for a session's request that comes from another page, a 503
        if the keys cannot be read."""
        now = self._clock.now().timestamp()
        if head.authorization is None:
            if self._is_open(now):
                return _local_caller(head.host, head.origin)
            return self._of_session(head, now)
        kind, _, token = head.authorization.partition(" ")
        if kind.lower() != "bearer":
            raise unauthorized("the Authorization header must be 'Bearer <token>'")
        try:
            found = self._keys.bearer(token.strip(), now)
        except BullpenError as exc:
            raise self._unreadable(exc) from exc
        if found is None:
            may_be_new = self._keys.may_be_new(token.strip())
            raise unauthorized("the token is wrong, expired or revoked", kind=UnknownToken if may_be_new else Problem)
        return found

    def is_open(self) -> bool:
        """Whether operators need no token now. Raise a 503 if that is not known."""
        return self._is_open(self._clock.now().timestamp())

    def _of_session(self, head: Head, now: float) -> Operator:
        found = self.sessions.find(head)
        if found is None:
            raise unauthorized("a token is needed")
        try:
            operator = self.sessions.operator_of(found)
        except BullpenError as exc:
            raise self._unreadable(exc) from exc
        if operator is None:
            # Its token may have been created a moment ago, and read by the process that opened the session.
            may_be_new = not self._keys.is_known(found.token) and now < found.until
            raise unauthorized("the session has ended", LOG_IN_AGAIN, kind=UnknownToken if may_be_new else Problem)
        self.sessions.check_page(head)
        return operator

    async def catch_up(self) -> None:
        """Return when the tokens were read again. Raise a 503 if they cannot be read."""
        try:
            await self._keys.catch_up(self._clock.now().timestamp())
        except BullpenError as exc:
            raise self._unreadable(exc) from exc

    def _is_open(self, now: float) -> bool:
        try:
            return not self._always_asks and not self._keys.has_tokens(now)
        except BullpenError as exc:
            raise self._unreadable(exc) from exc

    def _unreadable(self, error: BullpenError) -> Problem:
        """The reason is for the operator: it goes to the log, once and not with every request."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            log.error("operators are refused: their tokens cannot be read", error=error)
        return Problem(503, "the server cannot read its tokens; see its log", headers={"retry-after": "5"})


def must_be_operator(speaker: Speaker, scope: Scope) -> Operator:
    """Raise a 403 unless the caller is an operator whose scope includes this one."""
    if isinstance(speaker, AgentIdentity):
        raise forbidden("an agent's token is valid for its own instance only")
    if isinstance(speaker, RunIdentity):
        raise forbidden("a run's token is valid for its own run only")
    if not speaker.scope.includes(scope):
        raise forbidden(
            f"the token's scope is {speaker.scope.value}: this needs {scope.value}",
            remedy=f"Create one with `bullpen token create --scope {scope.value}`.",
        )
    return speaker


def must_serve_run(speaker: Speaker, label: str, scope: Scope) -> Operator | RunIdentity:
    """Raise a 403 unless the caller is the workflow run of this label, or an operator whose scope includes this one."""
    if not isinstance(speaker, RunIdentity):
        return must_be_operator(speaker, scope)
    found = labels.parse(label)
    if found is None or not found.admits(speaker.run, speaker.attempt):
        raise forbidden(
            f"the token is bound to run {speaker.run}, attempt {speaker.attempt}: it is not valid for another",
            remedy="Send the request from a job of that run, or as an operator.",
        )
    return speaker


def must_be_agent(speaker: Speaker, instance_id: str, worker: str | None = None) -> None:
    """Raise a 403 unless the caller is the agent of this instance, and the worker, if one is named, is its worker."""
    if not isinstance(speaker, AgentIdentity):
        raise forbidden("this endpoint is for the agent of the instance only")
    if speaker.instance_id != instance_id:
        raise forbidden(f"the token is bound to {speaker.instance_id}: it is not valid for another instance")
    if worker is not None and not may_beat(speaker, worker):
        raise forbidden(f"workerInstanceKey {worker[:60]!r} is not a worker of {instance_id}")


def may_beat(speaker: Operator | AgentIdentity, worker_key: str) -> bool:
    """An agent beats for workers of its instance, an operator with scope operate for any."""
    if isinstance(speaker, AgentIdentity):
        return worker_key.partition("/")[0] == speaker.instance_id
    return speaker.scope.includes(Scope.OPERATE)


def check_bind(keys: Keys, now: float, host: str, *, strangers_here: bool = False) -> None:
    """Raise ConfigError if others could reach a server that requires no token. With `strangers_here` they could on
    loopback, too: jobs of workflows run on this machine, and could do everything that an operator can."""
    if keys.has_tokens(now) or (is_loopback(host) and not strangers_here):
        return
    why = f"--host {host}: listening on anything but loopback needs tokens"
    if is_loopback(host):
        why = 'engines.ci = "github": jobs of workflows run on this machine, so `serve` needs tokens'
    raise ConfigError(
        f"{why}, and this pool has none", remedy="Create the first one with `bullpen token create --scope admin`."
    )


def forbidden(error: str, remedy: str | None = None, field: str = "") -> Problem:
    return Problem(403, error, field, remedy=remedy)


def unauthorized(error: str, remedy: str | None = None, kind: type[Problem] = Problem) -> Problem:
    return kind(401, error, remedy=remedy, headers={"www-authenticate": "Bearer"})


def _local_caller(host: str | None, origin: str | None) -> Operator:
    """A page in a browser on this machine can reach loopback too, under any host name that resolves to it."""
    if not is_loopback_name(host):
        raise forbidden(f"the server has no tokens, so it serves the host names {', '.join(LOOPBACK_NAMES)} only")
    if origin is not None and origin.partition("://")[2] != host:
        raise forbidden("the server has no tokens, so it refuses web pages of other origins")
    return OPEN
