"""The keys of a pool: operators' tokens, of which the store has hashes, and the secret from which agents' and runs'
tokens are derived.

    bpo_<id>_<secret>               an operator's: found by its id, compared by the hash of the whole
    bpa_<instance>_<until>_<mac>    an agent's: bound to its instance and a time, proved by the mac; stored nowhere
    bpr_<claims>_<mac>              a workflow run's: bound to it, its repository, its trust domain and a time; as above

The session of a browser (`auth.sessions`) is proved in the same way, and ends with the operator's token it belongs to.

A process keeps a copy of what the store has (`ports.Tokens`) and reads it again every second: requests ask far more
often, and must not wait. Only the caller with an operator's token that the copy lacks waits for the next read
(`catch_up`): it may have been created a moment ago, by any process. However many such callers there are, they add one
read a second. If the store cannot be read for long, operators are refused: one might have been revoked.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import re
import secrets
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeAlias

from bullpen.errors import BullpenError, ConfigError, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock, StoredToken, TokenBook, Tokens
from bullpen.structured_log import get_logger

SECRET_LENGTH = 32  # bytes
LOOK_EVERY = 1.0  # seconds between two reads of the tokens
READ_WITHIN = 5.0  # seconds for one read
STALE = 30.0  # seconds without a successful read, after which operators are refused
FORM = re.compile(r"bpo_[0-9a-f]{16}_[0-9a-f]{64}", re.ASCII)  # of an operator's token, as `drawn` makes it
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
AGENT_LASTS = 30 * 24 * 3600
"""Seconds that an agent's token is valid: longer than any instance should live, short enough to be worth little."""
RUN_LASTS = 15 * 60
"""Seconds that a run's token is valid: a provision and its watching; a job gets another one as easily."""


class Scope(StrEnum):
    """What an operator may do; each includes those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    def includes(self, other: "Scope") -> bool:
        return _LADDER[self] >= _LADDER[other]


_LADDER = {scope: rank for rank, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True)
class Operator:
    """`id` is the name of the token."""

    id: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    instance_id: str


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """A job of a workflow run, which may act for all of it. Its repository and trust domain come from GitHub, not from
    the job."""

    repository: str
    run: str
    attempt: int
    trust: str


Speaker: TypeAlias = Operator | AgentIdentity | RunIdentity

log = get_logger("bullpen.server")


class Keys:
    """What this process knows of the keys. Everything but `refresh` answers at once."""

    def __init__(self, tokens: Tokens, secret: bytes, book: TokenBook | None = None) -> None:
        if len(secret) < SECRET_LENGTH:
            raise ConfigError(f"the agents' secret of the store has {len(secret)} bytes: it can be guessed")
        self._tokens = tokens
        self._secret = secret
        self._failing_since: float | None = None
        self._known: dict[str, StoredToken] = {}
        self._required = False
        self._over: frozenset[str] = frozenset()  # ended sessions, as the store has them
        self._over_here: dict[str, datetime] = {}  # by this process, and until when each would have lasted
        self._reading = asyncio.Lock()
        self._begun = 0  # reads so far
        self._ended = 0  # the number of the last one that has ended; one that was cancelled has not
        self._next_read = 0.0  # by the loop's clock: the first moment at which a caller may cause one
        self.learn(book or TokenBook())

    @classmethod
    async def opened(cls, tokens: Tokens) -> Self:
        """The keys as the store has them; the agents' secret is made when first needed."""
        secret = await tokens.secret(secrets.token_bytes(SECRET_LENGTH))
        return cls(tokens, secret, await tokens.read())

    def learn(self, book: TokenBook) -> None:
        """Take over what the store has. Once required, tokens stay required: no failure of the store opens it."""
        self._required = self._required or book.required
        self._known = {token.id: token for token in book.tokens}
        self._over = frozenset(book.ended)

    async def refresh(self, now: float) -> None:
        """Read the tokens again; note if that fails."""
        async with self._reading:
            await self._read(now)

    async def catch_up(self, now: float) -> None:
        """Return when a read that began after this call has ended. Callers share their reads, of which one begins each
        `LOOK_EVERY` seconds. Raise Unavailable if it failed."""
        seen = self._begun
        async with self._reading:
            if self._ended <= seen:
                clock = asyncio.get_running_loop().time
                if (pause := self._next_read - clock()) > 0:
                    await asyncio.sleep(pause)
                self._next_read = clock() + LOOK_EVERY
                await self._read(now)
        if self._failing_since is not None:
            raise Unavailable("the tokens could not be read")

    async def _read(self, now: float) -> None:
        self._begun += 1
        number = self._begun
        try:
            async with asyncio.timeout(READ_WITHIN):
                self.learn(await self._tokens.read())
        except Exception as exc:  # whatever it was: the next attempt may succeed, and nothing else depends on this one
            if self._failing_since is None:
                self._failing_since = now
                why = str(exc) if isinstance(exc, BullpenError) else type(exc).__name__
                log.warning("tokens cannot be read", error=why)
        else:
            self._failing_since = None
        self._ended = number

    async def keep_current(self, clock: Clock, stop: asyncio.Event) -> None:
        """Refresh until `stop`: a token that is revoked anywhere is refused here about a second later."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await stop.wait()
            except TimeoutError:
                await self.refresh(clock.now().timestamp())

    def has_tokens(self, now: float) -> bool:
        """Whether operators need a token at all. Raise Unavailable if that is not known any more."""
        if not self._required:
            self._check_fresh(now)
        return self._required

    def agent_token(self, instance_id: str, now: float) -> str:
        """The token of an instance, derived from the pool's secret."""
        until = int(now) + AGENT_LASTS
        return f"bpa_{instance_id}_{until}_{_mac(self._secret, instance_id, str(until))}"

    def run_token(self, run: RunIdentity, now: float) -> str:
        """A token with which the jobs of a workflow run act for it."""
        claims = [run.repository, run.run, run.attempt, run.trust, int(now) + RUN_LASTS]
        packed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
        return f"bpr_{packed}_{_mac(self._secret, 'run', packed)}"

    def bearer(self, token: str, now: float) -> Speaker | None:
        """The caller that a token names; None if it is not valid. Raise Unavailable if it may have been revoked."""
        match token[:4]:
            case "bpa_":
                return self._agent(token, now)
            case "bpo_":
                return self._operator(token, now)
            case "bpr_":
                return self._run(token, now)
        return None

    def _agent(self, token: str, now: float) -> AgentIdentity | None:
        parts = token.split("_")
        if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 16):
            return None
        _, instance_id, until, mac = parts
        if not hmac.compare_digest(mac.encode(), _mac(self._secret, instance_id, until).encode()):
            return None
        return AgentIdentity(instance_id) if now < int(until) else None

    def may_be_new(self, token: str) -> bool:
        """Whether this is an operator's token that the store may have, and this process has not read. Also one with a
        known id and a wrong secret: a caller that waits does not learn which ids exist."""
        return FORM.fullmatch(token) is not None and self._stored(token) is None

    def _stored(self, token: str) -> StoredToken | None:
        known = self._known.get(token.split("_")[1])
        # Compared even where nothing is known: how long it takes does not show which ids exist.
        is_right = hmac.compare_digest(_hash(token), known.sha256 if known else _hash(""))
        return known if is_right else None

    def _operator(self, token: str, now: float) -> Operator | None:
        known = self._stored(token)
        return None if known is None else self.operator_of(known.id, now)

    def operator_of(self, id: str, now: float) -> Operator | None:
        """The operator whose token has this id; None if that is unknown, revoked or has expired. Raise Unavailable if
        it may have been revoked."""
        known = self._known.get(id)
        if known is None or known.revoked is not None or known.scope not in _LADDER:
            return None
        if known.expires is not None and now >= known.expires.timestamp():
            return None
        self._check_fresh(now)
        return Operator(known.name, Scope(known.scope))

    def stored(self, token: str, now: float) -> StoredToken | None:
        """What the store keeps of an operator's token; None if it is not valid. Raise Unavailable as `bearer`."""
        found = self._stored(token) if token.startswith("bpo_") else None
        return found if found is not None and self.operator_of(found.id, now) is not None else None

    def is_known(self, id: str) -> bool:
        """Whether this process has read a token of this id; another process may have created it a moment ago."""
        return id in self._known

    def mac(self, kind: str, said: str) -> str:
        """Proves that this pool said this, in texts of a kind."""
        return _mac(self._secret, kind, said)

    def has_ended(self, session: str) -> bool:
        return session in self._over or session in self._over_here

    async def end_session(self, session: str, until: datetime, now: datetime) -> None:
        """It is over: here at once, in other processes when they read the tokens again, a second later. Raise
        Unavailable if the store could not note it."""
        # Apart from what the store has: a read that is under way does not know of it yet.
        self._over_here = {id: end for id, end in self._over_here.items() if end > now} | {session: until}
        await self._tokens.end_session(session, until, now)

    def _run(self, token: str, now: float) -> RunIdentity | None:
        packed, _, mac = token.removeprefix("bpr_").rpartition("_")
        if not hmac.compare_digest(mac.encode(), _mac(self._secret, "run", packed).encode()):
            return None
        # Nothing of it is read before its mac is verified.
        repository, run, attempt, trust, until = json.loads(base64.urlsafe_b64decode(packed))
        return RunIdentity(repository, run, attempt, trust) if now < until else None

    def _check_fresh(self, now: float) -> None:
        if self._failing_since is not None and now - self._failing_since > STALE:
            raise Unavailable(f"the tokens could not be read for {STALE:g} s")


def drawn(scope: Scope, now: datetime, expires: datetime | None, name: str = "") -> tuple[StoredToken, str]:
    """A new token: what the store keeps of it, and the token itself, which is shown once. Without a name it gets one.

    Raise ConfigError for a name that cannot be one.
    """
    if name and (not NAME.fullmatch(name) or name == "open"):
        allowed = "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit, and not 'open'"
        raise ConfigError(f"--name {name[:70]!r}: must be {allowed}")
    id_ = secrets.token_hex(8)
    token = f"bpo_{id_}_{secrets.token_hex(32)}"
    return StoredToken(name or f"token-{id_[:8]}", id_, scope.value, _hash(token), now, expires), token


def _mac(secret: bytes, subject: str, said: str) -> str:
    """Proves that this pool made the token for the subject. No instance has the name of another kind of subject."""
    return hmac.digest(secret, f"{subject}\n{said}".encode(), "sha256").hex()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
