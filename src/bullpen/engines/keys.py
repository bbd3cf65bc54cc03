"""A home's keys: operators' tokens, kept as hashes, and the secret from which agents' and runs' tokens are derived.

    bpo_<id>_<secret>               an operator's: found by its id, compared by the hash of the whole
    bpa_<instance>_<until>_<mac>    an agent's: bound to its instance and a time, proved by the mac; stored nowhere
    bpr_<claims>_<mac>              a workflow run's: bound to it, its repository, its trust domain and a time; as above

Both files are the owner's alone (0600). A token is one line of `tokens`: adding one is one append, so two at once lose
nothing, and taking a line out revokes it.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from bullpen.errors import ConfigError

TOKENS, SECRET = "tokens", "agent.secret"
SECRET_LENGTH = 32  # bytes
LOOK_EVERY = 1.0  # seconds: for so long at most a revoked token still opens
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
    """`id` names the token, never shows it."""

    id: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Agent:
    instance_id: str


@dataclass(frozen=True, slots=True)
class Run:
    """A job of a workflow run, which speaks for all of it. Where it comes from, and how far that is trusted, is not for
    it to say."""

    repository: str
    run: str
    attempt: int
    trust: str


Speaker: TypeAlias = Operator | Agent | Run


@dataclass(frozen=True, slots=True)
class _Line:
    scope: Scope
    sha256: str
    expires: float | None


class Keys:
    """The keys of one home. Whether the tokens have changed is looked at once a second: beats ask far more often."""

    def __init__(self, home: Path) -> None:
        self._tokens = home / TOKENS
        self._secret_file = home / SECRET
        self._secret = b""
        self._lines: dict[str, _Line] = {}
        self._seen: tuple[int, int, int] | None = None
        self._ever_seen = False
        self._looked_at: float | None = None

    def has_tokens(self, now: float) -> bool:
        """Whether operators need a token at all. A file that exists counts, even with no line that is still valid, and
        one that has ever been seen counts for ever: losing it opens no door."""
        self._look(now)
        return self._ever_seen

    def create(self, scope: Scope, expires: datetime | None) -> str:
        """A new operator's token, shown this once. Raise ConfigError if the file cannot be written."""
        id_, secret = secrets.token_hex(8), secrets.token_hex(32)
        token = f"bpo_{id_}_{secret}"
        until = expires.timestamp() if expires else None
        line = {"id": id_, "scope": scope.value, "sha256": _hash(token), "expires": until}
        try:
            self._tokens.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._tokens, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as exc:
            raise ConfigError(f"{self._tokens}: cannot be written ({exc.strerror})") from exc
        self._looked_at = None
        return token

    def agent_token(self, instance_id: str, now: float) -> str:
        """The token of an instance, derived from the home's secret, which is made when first needed."""
        until = int(now) + AGENT_LASTS
        return f"bpa_{instance_id}_{until}_{self._mac(instance_id, str(until))}"

    def run_token(self, run: Run, now: float) -> str:
        """A token with which the jobs of a workflow run speak for it."""
        claims = [run.repository, run.run, run.attempt, run.trust, int(now) + RUN_LASTS]
        packed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
        return f"bpr_{packed}_{self._mac('run', packed)}"

    def bearer(self, token: str, now: float) -> Speaker | None:
        """Whose token it is; None if it is nobody's, or no longer."""
        match token[:4]:
            case "bpa_":
                return self._agent(token, now)
            case "bpo_":
                return self._operator(token, now)
            case "bpr_":
                return self._run(token, now)
        return None

    def _agent(self, token: str, now: float) -> Agent | None:
        parts = token.split("_")
        if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit() and len(parts[2]) < 16):
            return None
        _, instance_id, until, mac = parts
        if not hmac.compare_digest(mac.encode(), self._mac(instance_id, until).encode()):
            return None
        return Agent(instance_id) if now < int(until) else None

    def _operator(self, token: str, now: float) -> Operator | None:
        id_ = token.split("_")[1]
        self._look(now)
        line = self._lines.get(id_)
        # Compared even where nothing is known: how long it takes tells nobody which ids exist.
        is_right = hmac.compare_digest(_hash(token), line.sha256 if line else _hash(""))
        if line is None or not is_right or (line.expires is not None and now >= line.expires):
            return None
        return Operator(id_, line.scope)

    def _run(self, token: str, now: float) -> Run | None:
        packed, _, mac = token.removeprefix("bpr_").rpartition("_")
        if not hmac.compare_digest(mac.encode(), self._mac("run", packed).encode()):
            return None
        # Nothing of it was read before it was proved to be ours.
        repository, run, attempt, trust, until = json.loads(base64.urlsafe_b64decode(packed))
        return Run(repository, run, attempt, trust) if now < until else None

    def _mac(self, subject: str, said: str) -> str:
        """Proves that we said so of the subject. No instance is called like another kind of subject."""
        if not self._secret:
            self._secret = _made_secret(self._secret_file)
        return hmac.digest(self._secret, f"{subject}\n{said}".encode(), "sha256").hex()

    def _look(self, now: float) -> None:
        if self._looked_at is not None and 0 <= now - self._looked_at < LOOK_EVERY:
            return
        try:
            found = self._tokens.stat()
            self._ever_seen = True
            seen = found.st_ino, found.st_mtime_ns, found.st_size
            if seen != self._seen:
                self._lines, self._seen = _read(self._tokens), seen
        except FileNotFoundError:
            self._lines, self._seen = {}, None
        except OSError as exc:
            raise ConfigError(f"{self._tokens}: cannot be read ({exc.strerror})") from exc
        self._looked_at = now


def _read(path: Path) -> dict[str, _Line]:
    """The tokens of a file. Raise ConfigError if it is not ours: guessing at credentials is worse than stopping."""
    lines = {}
    try:
        for text in path.read_text(encoding="utf-8").splitlines():
            if text.strip():
                found = json.loads(text)
                lines[str(found["id"])] = _Line(Scope(found["scope"]), str(found["sha256"]), found["expires"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ConfigError(f"{path}: line {len(lines) + 1} is no token ({type(exc).__name__})") from exc
    return lines


def _made_secret(path: Path) -> bytes:
    """The home's secret. Of several processes that make it at once one wins, and all use what it wrote.

    Raise ConfigError for one that can be guessed, such as what a crash of the machine left of it.
    """
    try:
        found = path.read_bytes() if path.exists() else _first_secret(path)
    except OSError as exc:
        raise ConfigError(f"{path}: the agents' secret cannot be read or made ({exc.strerror})") from exc
    if len(found) < SECRET_LENGTH:
        remedy = "Delete it: another is made, and agents, which hold tokens of the old one, are started anew."
        raise ConfigError(f"{path}: {len(found)} bytes are no secret", remedy=remedy)
    return found


def _first_secret(path: Path) -> bytes:
    """Raise OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{SECRET}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(SECRET_LENGTH))
        file.flush()
        os.fsync(file.fileno())  # before it has its name: a crash must not leave an empty one under it
    with suppress(FileExistsError):
        os.link(draft, path)  # whole or not at all: nobody ever reads half a secret
    os.unlink(draft)
    _sync(path.parent)
    return path.read_bytes()


def _sync(folder: Path) -> None:
    """Tokens are handed out under a secret: it must still be there after a crash."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
