"""Credentials for GitHub: a token, or an App that gets a token for an hour.

    App: key ─▶ a signed JWT, valid for nine minutes ─▶ the installation of the scope ─▶ its token, valid for an hour

A token that GitHub refuses may have been revoked before its time: an App is asked for a fresh one once, and all calls
that wait for it share it. What a file keeps may be replaced at any time: a token is read again when it is refused, a
key whenever something is signed with it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from bullpen.config import Github
from bullpen.engines.github.answers import GithubAnswer, GithubCall, failure, moment, understood
from bullpen.engines.github.single_flight import Flights
from bullpen.engines.github.token_cache import Issued, TokenCache
from bullpen.errors import ConfigError, Refused
from bullpen.ports import Clock

BACKDATED = timedelta(seconds=60)  # GitHub refuses a note from the future, and clocks differ
NOTE_LASTS = timedelta(minutes=9)  # GitHub takes ten at most

Send = Callable[[GithubCall, str], Awaitable[GithubAnswer]]
"""Makes a call with the bearer that is given, and nothing else: no repeats, no translation."""


class TokenCredentials:
    """A personal access token."""

    name = "github.token"  # what they are called in errors

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._token = read()

    async def bearer(self) -> str:
        """What goes into the header of a call."""
        return self._token

    def renewed(self, refused: str) -> bool:
        """Called when GitHub refused a bearer: whether asking again yields another."""
        if self._token == refused:  # otherwise another task has noticed before
            self._token = self._read()
        return self._token != refused


class AppCredentials:
    """A GitHub App with its private key. `permissions` are those of the last token, by GitHub's keys."""

    def __init__(self, settings: Github, scope_path: str, clock: Clock, send: Send, flights: Flights) -> None:
        self.name = f"the App {settings.app_id}"
        self.permissions: dict[str, str] = {}
        self._settings = settings
        self._scope_path = scope_path
        self._clock = clock
        self._send = send
        self._installation = settings.installation_id
        self._token = TokenCache(self._fetched, clock, flights)
        _key_of(settings)  # whether there is one is said before anything depends on it

    async def bearer(self) -> str:
        return await self._token.value()

    def renewed(self, refused: str) -> bool:
        self._token.drop(refused)
        return True

    async def _fetched(self) -> Issued:
        note = self._note()
        if not self._installation:
            call = GithubCall("GET", f"{self._scope_path}/installation")
            found = await self._ask(call, note)
            with understood(call):
                self._installation = int(found.body["id"])
        call = GithubCall("POST", f"/app/installations/{self._installation}/access_tokens")
        made = await self._ask(call, note)
        with understood(call):
            self.permissions = dict(made.body.get("permissions", {}))
            return Issued(str(made.body["token"]), moment(made.body["expires_at"]))

    async def _ask(self, call: GithubCall, note: str) -> GithubAnswer:
        answer = await self._send(call, note)
        if answer.status == 404:
            self._installation = self._settings.installation_id  # it may have been installed again
            remedy = "Install the App there, or correct github.app-id, github.installation-id and github.scope."
            raise Refused(f"{call}: {self.name} is not installed there: {answer.message} (404)", remedy=remedy)
        if answer.status not in (200, 201):
            raise failure(call, answer, f"github.private-key of {self.name}")
        return answer

    def _note(self) -> str:
        import jwt  # half of what starting a command takes, and only this needs it

        now = self._clock.now()
        claims = {"iss": self._settings.app_id, "iat": now - BACKDATED, "exp": now - BACKDATED + NOTE_LASTS}
        return jwt.encode(claims, _key_of(self._settings), algorithm="RS256")


Credentials = TokenCredentials | AppCredentials


def credentials_of(settings: Github, scope_path: str, clock: Clock, send: Send, flights: Flights) -> Credentials:
    """Those that the settings name. Raise ConfigError, naming the setting, if what it holds cannot be used."""
    if settings.app_id:
        return AppCredentials(settings, scope_path, clock, send, flights)
    return TokenCredentials(partial(_token_of, settings))


def read_secret(setting: str, value: str) -> str:
    """What a setting keeps secret, or the file that it names, without the line break at its end; empty if none is set.

    Raise ConfigError, which names the setting and never what it holds, if its file cannot be read or is empty.
    """
    if not value.startswith("file:"):
        return value
    path = Path(value.removeprefix("file:")).expanduser()
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise ConfigError(f"github.{setting}: {path} cannot be read ({why})") from exc
    if not found:
        raise ConfigError(f"github.{setting}: {path} is empty")
    return found


def _token_of(settings: Github) -> str:
    token = read_secret("token", settings.token)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("github.token: it has characters that a token cannot have")
    return token


def _key_of(settings: Github) -> str:
    """An RSA private key in PEM. Variables often spell its line breaks as two characters."""
    import jwt  # noqa: F401 - missing is found here, before anything depends on it
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = read_secret("private-key", settings.private_key).replace("\\n", "\n")
    try:
        is_ours = isinstance(load_pem_private_key(key.encode(), password=None), RSAPrivateKey)
    except (ValueError, TypeError) as exc:  # no PEM; or one with a password
        raise ConfigError(_NO_KEY, remedy=_MAKE_KEY) from exc
    if not is_ours:
        raise ConfigError(_NO_KEY, remedy=_MAKE_KEY)
    return key


_NO_KEY = "github.private-key: not an RSA private key in PEM format without a password"
_MAKE_KEY = 'Generate one on the App\'s page, and name its file: github.private-key = "file:/path/to/key.pem".'
