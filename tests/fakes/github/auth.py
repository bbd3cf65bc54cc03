"""Callers: personal access tokens, Apps that sign for themselves, and the tokens of their installations.

A grant says what its holder may do: permissions, and the part of GitHub that it can see. What it cannot see does not
exist for it (404); what it sees and must not do is refused (403) with the permission that it takes.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fakes.github.calling import ApiCall, ApiRefusal
from fakes.github.state import State
from fakes.github.views import at, example
from fakes.github.wire import WireAnswer

TOKENS_LAST = timedelta(hours=1)
JWT_LASTS = 600  # seconds at most
CLOCKS_DIFFER = 60  # seconds that `iat` may lie ahead
LEVELS = ("read", "write", "admin")


@dataclass(frozen=True)
class Grant:
    account: str  # whose limits its calls use up
    permissions: Mapping[str, str]
    scope: str = ""  # empty: everything
    expires_at: datetime | None = None
    is_app_itself: bool = False
    name: str = "personal access token"

    def sees(self, scope: str) -> bool:
        mine, asked = self.scope.lower(), scope.lower()
        return mine in ("", asked, asked.partition("/")[0])

    def may(self, permission: str, level: str) -> bool:
        held = self.permissions.get(permission)
        return held is not None and LEVELS.index(held) >= LEVELS.index(level)


@dataclass
class App:
    id: str
    permissions: Mapping[str, str]
    scope: str
    key: int  # which one, see signing_key
    installation: int

    def covers(self, scope: str) -> bool:
        return Grant("", {}, self.scope).sees(scope)


@functools.cache
def signing_key(number: int) -> rsa.RSAPrivateKey:
    """The same in all tests of a process: making one takes a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(number: int) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return signing_key(number).private_bytes(serialization.Encoding.PEM, *form).decode()


class IssuedCredentials:
    def __init__(self, state: State) -> None:
        self._state = state
        self._grants: dict[str, Grant] = {}
        self.apps: dict[str, App] = {}

    def personal(self, permissions: Mapping[str, str], scope: str, expires_in: float | None) -> str:
        token = f"github_pat_{secrets.token_hex(30)}"
        expires_at = None if expires_in is None else self._state.clock() + timedelta(seconds=expires_in)
        self._grants[token] = Grant(token, dict(permissions), scope, expires_at)
        return token

    def revoke(self, token: str) -> None:
        del self._grants[token]

    def app(self, permissions: Mapping[str, str], scope: str) -> tuple[str, str]:
        number = len(self.apps) + 1
        app = App(str(100_000 + number), dict(permissions), scope, number, 50_000_000 + number)
        self.apps[app.id] = app
        return app.id, pem(app.key)

    def replace_key(self, app_id: str) -> str:
        self.apps[app_id].key += 100
        return pem(self.apps[app_id].key)

    def account_of(self, credential: str) -> str:
        """Whose limits a token uses up; an App's id stands for its installation."""
        return f"app-{credential}" if credential in self.apps else self._grants[credential].account

    # ---------------------------------------------------------------------------------------------------------- callers

    def caller(self, authorization: str) -> Grant | None:
        """None without credentials. 401 for bad ones."""
        kind, _, token = authorization.partition(" ")
        if not authorization:
            return None
        if kind.lower() not in ("bearer", "token") or not token:
            raise ApiRefusal(401, "Bad credentials")
        if token in self._grants:
            grant = self._grants[token]
            if grant.expires_at and grant.expires_at <= self._state.clock():
                raise ApiRefusal(401, "Bad credentials")
            return grant
        if token.count(".") == 2 and not token.startswith("ghs_"):
            return self._app_itself(token)
        raise ApiRefusal(401, "Bad credentials")

    def _app_itself(self, token: str) -> Grant:
        try:
            issuer = str(jwt.decode(token, options={"verify_signature": False}).get("iss", ""))
        except jwt.InvalidTokenError:
            raise ApiRefusal(401, "A JSON web token could not be decoded") from None
        app = self.apps.get(issuer)
        if app is None:
            raise ApiRefusal(401, "Integration not found")
        try:
            claims = jwt.decode(
                token,
                signing_key(app.key).public_key(),
                algorithms=["RS256"],
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},  # by our clock, below
            )
        except jwt.InvalidTokenError:
            raise ApiRefusal(401, "A JSON web token could not be decoded") from None
        now, issued, expires = self._state.clock().timestamp(), claims.get("iat"), claims.get("exp")
        if not isinstance(issued, int) or issued > now + CLOCKS_DIFFER:
            must = "must be an Integer representing the time that the assertion was issued"
            raise ApiRefusal(401, f"'Issued at' claim ('iat') {must}")
        if not isinstance(expires, int) or expires <= now:
            must = "must be a numeric value representing the future time at which the assertion expires"
            raise ApiRefusal(401, f"'Expiration time' claim ('exp') {must}")
        if expires > now + JWT_LASTS:
            raise ApiRefusal(401, "'Expiration time' claim ('exp') is too far in the future")
        return Grant(f"app-{app.id}-itself", {}, is_app_itself=True, name=app.id)

    # ----------------------------------------------------------------------------------------------------------- routes

    def get_app(self, call: ApiCall) -> WireAnswer:
        app = self.apps[call.app]
        owner = app.scope.partition("/")[0]
        return WireAnswer(
            200, example("get /app") | {"id": int(app.id), "name": owner, "permissions": dict(app.permissions)}
        )

    def installations(self, call: ApiCall) -> WireAnswer:
        return WireAnswer(200, [self._shown(call, self.apps[call.app])])

    def installation(self, call: ApiCall) -> WireAnswer:
        """By its own number, or as that of a repository or an organisation."""
        app = self.apps[call.app]
        if call.scope and not (call.state.has_scope(call.scope) and app.covers(call.scope)):
            raise ApiRefusal(404, "Not Found")
        if not call.scope and int(call.path["installation_id"]) != app.installation:
            raise ApiRefusal(404, "Not Found")
        return WireAnswer(200, self._shown(call, app))

    def access_token(self, call: ApiCall) -> WireAnswer:
        app = self.apps[call.app]
        if int(call.path["installation_id"]) != app.installation:
            raise ApiRefusal(404, "Not Found")
        wanted = (call.body or {}).get("permissions") or app.permissions
        if not all(Grant("", app.permissions).may(name, level) for name, level in wanted.items()):
            raise ApiRefusal(422, "The permissions requested are not granted to this installation.")
        # The longer form that is being rolled out: no client may rely on 40 characters.
        token = f"ghs_{app.id}_{'.'.join(secrets.token_urlsafe(size) for size in (24, 180, 64))}"
        expires = (self._state.clock() + TOKENS_LAST).replace(microsecond=0)
        self._grants[token] = Grant(f"app-{app.id}", dict(wanted), app.scope, expires, name="integration")
        chosen = "selected" if app.scope else "all"
        shown = {"token": token, "expires_at": at(expires), "permissions": wanted, "repository_selection": chosen}
        return WireAnswer(201, shown)

    def _shown(self, call: ApiCall, app: App) -> dict[str, Any]:
        shown: dict[str, Any] = example("get /orgs/{org}/installation")
        return shown | {"id": app.installation, "app_id": int(app.id), "permissions": dict(app.permissions)}
