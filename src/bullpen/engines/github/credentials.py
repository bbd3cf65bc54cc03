"""Who we are at GitHub: the bearer of a token, or an App that buys itself a token for an hour.

    App: key ─▶ a signed note, good for nine minutes ─▶ the installation of our scope ─▶ its token, good for an hour

A token that GitHub refuses may have been revoked before its time: an App is asked for a fresh one once, and all calls
that wait for it share it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol

from bullpen.config import Github
from bullpen.engines.github.answers import Answer, Call, failure
from bullpen.engines.github.secret import read_secret
from bullpen.errors import ConfigError, Refused
from bullpen.ports import Clock

BACKDATED = timedelta(seconds=60)  # GitHub refuses a note from the future, and clocks differ
NOTE_LASTS = timedelta(minutes=9)  # GitHub takes ten at most
MARGIN = timedelta(minutes=5)  # a token that ends sooner is not used for anything new

Send = Callable[[Call, str], Awaitable[Answer]]
"""Makes a call with the bearer that is given, and nothing else: no repeats, no translation."""


class Credentials(Protocol):
    name: str  # what they are called in errors

    async def bearer(self) -> str:
        """What goes into the header of a call."""

    def renewed(self, refused: str) -> bool:
        """Told that GitHub refused a bearer: whether asking again yields another."""


class Token:
    """A personal access token."""

    name = "github.token"

    def __init__(self, token: str) -> None:
        self._token = token

    async def bearer(self) -> str:
        return self._token

    def renewed(self, refused: str) -> bool:
        return False


class App:
    """A GitHub App with its private key. `permissions` are those of the last token, by GitHub's keys."""

    def __init__(self, settings: Github, scope_path: str, key: str, clock: Clock, send: Send) -> None:
        self.name = f"the App {settings.app_id}"
        self.permissions: dict[str, str] = {}
        self._settings = settings
        self._scope_path = scope_path
        self._key = key
        self._clock = clock
        self._send = send
        self._turn = asyncio.Lock()
        self._installation = settings.installation_id
        self._token = ""
        self._expires = clock.now()

    async def bearer(self) -> str:
        async with self._turn:  # of many callers at once one fetches
            if not self._token or self._clock.now() >= self._expires - MARGIN:
                await self._fetch()
            return self._token

    def renewed(self, refused: str) -> bool:
        if self._token == refused:  # otherwise somebody has noticed before us
            self._token = ""
        return True

    async def _fetch(self) -> None:
        note = self._note()
        if not self._installation:
            found = await self._ask(Call("GET", f"{self._scope_path}/installation"), note)
            self._installation = int(found.body["id"])
        path = f"/app/installations/{self._installation}/access_tokens"
        made = await self._ask(Call("POST", path), note)
        self._token, self._expires = str(made.body["token"]), datetime.fromisoformat(made.body["expires_at"])
        self.permissions = dict(made.body.get("permissions", {}))

    async def _ask(self, call: Call, note: str) -> Answer:
        answer = await self._send(call, note)
        if answer.status == 404:
            self._installation = self._settings.installation_id  # it may have been installed anew
            remedy = "Install the App there, or correct github.app-id, github.installation-id and github.scope."
            raise Refused(f"{call}: {self.name} is not installed there: {answer.message} (404)", remedy=remedy)
        if answer.status not in (200, 201):
            raise failure(call, answer, f"github.private-key of {self.name}")
        return answer

    def _note(self) -> str:
        import jwt  # half of what starting a command takes, and only this needs it

        now = self._clock.now()
        claims = {"iss": self._settings.app_id, "iat": now - BACKDATED, "exp": now - BACKDATED + NOTE_LASTS}
        return jwt.encode(claims, self._key, algorithm="RS256")


def credentials_of(settings: Github, scope_path: str, clock: Clock, send: Send) -> Credentials:
    """Those that the settings name. Raise ConfigError, naming the setting, if what it holds cannot be used."""
    if settings.app_id:
        return App(settings, scope_path, _checked_key(read_secret("private-key", settings.private_key)), clock, send)
    token = read_secret("token", settings.token)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("github.token: it has characters that no token has")
    return Token(token)


def _checked_key(text: str) -> str:
    """An RSA private key in PEM. Variables often spell its line breaks as two characters."""
    import jwt  # noqa: F401 - missing is found here, before anything depends on it
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = text.replace("\\n", "\n")
    try:
        is_ours = isinstance(load_pem_private_key(key.encode(), password=None), RSAPrivateKey)
    except (ValueError, TypeError) as exc:  # no PEM; or one with a password
        raise ConfigError(_NO_KEY, remedy=_MAKE_KEY) from exc
    if not is_ours:
        raise ConfigError(_NO_KEY, remedy=_MAKE_KEY)
    return key


_NO_KEY = "github.private-key: it is no RSA private key in PEM without a password"
_MAKE_KEY = 'Generate one on the App\'s page, and name its file: github.private-key = "file:/path/to/key.pem".'
