"""GitHub's service for scale sets: where it is, with which token it is asked, and what its refusals mean.

    credentials ─▶ registration token ─▶ address and JWT of the service ─▶ calls below that address
                                                                        └▶ a session's queue, with a token of its own

GitHub makes the JWT for about an hour. It is replaced five minutes before its end, and whenever the service refuses it.
A host that asks for a pause is not called before its time. Tokens go to trusted hosts only.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from bullpen.engines.github.answers import GithubAnswer, GithubCall, derived_failure, understood
from bullpen.engines.github.client import WHOLE, GithubClient
from bullpen.engines.github.exchange import RawAnswer
from bullpen.engines.github.limits import RateLimits
from bullpen.engines.github.permissions import runners
from bullpen.engines.github.runners import make_token
from bullpen.engines.github.scale_sets import parsing
from bullpen.engines.github.scale_sets.trusted_hosts import below, trusted
from bullpen.engines.github.token_cache import NEEDED, Issued, TokenCache
from bullpen.errors import BullpenError, Throttled, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock

if TYPE_CHECKING:
    import httpx

API_VERSION = "6.0-preview"
AT_ONCE = 16  # calls that make, find and remove registrations and sets
REPEATED = ("GET", "DELETE", "PATCH")  # each does no harm twice
PATIENCE, PAUSE = 5.0, 0.5  # seconds: in which a call without an answer is repeated, and before that; doubled each time
TOO_FRESH = 3  # attempts: GitHub may not know a registration token in the second after it made it
SHORTEST = timedelta(minutes=1)  # a JWT is used for so long, whatever it says of its end: a wrong clock is no loop
USUAL = timedelta(hours=1)  # the life of a token that does not say


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """A call below the service's address. `path` has no slash at its beginning."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.named())

    def named(self) -> GithubCall:
        return GithubCall(self.method, f"/{self.path}")


class ActionsService:
    def __init__(self, client: GithubClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._right = runners(client.settings.scope)
        self._address = ""
        self._jwt = TokenCache(self._connected, clock, client.flights)
        self._limits: dict[str, RateLimits] = {}  # by host
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(self, call: ServiceCall, body: Any = None, expecting: Collection[int] = ()) -> RawAnswer:
        """Make a call with the JWT and return its answer: a success, or of a status in `expecting`."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE, PAUSE
        while True:
            try:
                answer = await self._authorised(call, body)
            except Throttled:
                raise
            except Unavailable:
                if call.method not in REPEATED or loop.time() + pause > until:
                    raise
                await asyncio.sleep(pause)
                pause *= 2
                continue
            if not answer.is_success and answer.status not in expecting:
                raise self.failure(call.named(), answer)
            return answer

    async def send(
        self,
        call: GithubCall,
        url: "httpx.URL",
        authorization: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        within: float = WHOLE,
        turns: AbstractAsyncContextManager[Any] | None = None,
    ) -> RawAnswer:
        """One exchange, outside the client's turns. Raise Throttled if the host asks for a pause, Unavailable for no
        answer and for an error of the server."""
        loop = asyncio.get_running_loop()
        limits = self._limits.setdefault(url.host, RateLimits())
        if wait := limits.wait(call, loop.time()):
            raise _throttled(call, wait)
        headers = {"accept": "application/json", **(headers or {}), "authorization": authorization}
        turns = nullcontext() if turns is None else turns
        answer = await self._client.exchange(call, url, headers, body, within=within, turns=turns)
        if limits.note(call, _as_api(answer), self._clock.now(), loop.time()):
            raise _throttled(call, limits.wait(call, loop.time()))
        if answer.status >= 500:
            raise self.failure(call, answer)
        return answer

    async def url(self, call: ServiceCall) -> "httpx.URL":
        """Where a call goes that has a token of its own."""
        await self._jwt.value()
        return self._url(call)

    def trusted(self, url: str) -> "httpx.URL":
        """Raise Refused if no token may be sent there."""
        return trusted(url, self._client.settings.url)

    def failure(self, call: GithubCall, answer: RawAnswer) -> BullpenError:
        """The error that an answer amounts to."""
        return derived_failure(replace(call, right=self._right), _as_api(answer), self._client.credentials_name)

    async def _authorised(self, call: ServiceCall, body: Any) -> RawAnswer:
        jwt = await self._jwt.value()
        answer = await self._sent(call, jwt, body)
        if answer.status == 401:
            self._jwt.drop(jwt)
            answer = await self._sent(call, await self._jwt.value(), body)
        return answer

    async def _sent(self, call: ServiceCall, jwt: str, body: Any) -> RawAnswer:
        return await self.send(call.named(), self._url(call), f"Bearer {jwt}", body, turns=self._turns)

    def _url(self, call: ServiceCall) -> "httpx.URL":
        url = below(self.trusted(self._address), call.path)
        return url.copy_merge_params({**call.query, "api-version": API_VERSION})

    async def _connected(self) -> Issued:
        """Learn where the service is, and get a JWT for it."""
        registration = await make_token(self._client, "registration")
        call = GithubCall("POST", "/actions/runner-registration", self._right)
        settings = self._client.settings
        body = {"url": f"{settings.url.rstrip('/')}/{settings.scope}", "runner_event": "register"}
        authorization = f"RemoteAuth {registration.value}"
        answer = await self._client.send_as(authorization, call, body)
        for attempt in range(1, TOO_FRESH):
            if answer.status not in (401, 403):
                break
            await asyncio.sleep(attempt * PAUSE)
            answer = await self._client.send_as(authorization, call, body)
        if not 200 <= answer.status < 300:
            raise derived_failure(call, answer, self._client.credentials_name)
        with understood(call):
            self._address, jwt = _text(answer.body["url"]), _text(answer.body["token"])
        now = self._clock.now()
        said = parsing.lifetime(jwt, now)
        lasts = USUAL if said is None else timedelta(seconds=said)
        return Issued(jwt, now + max(lasts, NEEDED + SHORTEST))


def _as_api(answer: RawAnswer) -> GithubAnswer:
    """An answer of the service as one of the API: the same statuses and limits, and other names for what is wrong."""
    body = None if answer.is_success else {"message": parsing.said(answer.content)}
    return GithubAnswer(answer.status, answer.headers, body)


def _text(found: Any) -> str:
    if not isinstance(found, str) or not parsing.is_visible(found):
        raise TypeError("no text that a header can have")
    return found


def _throttled(call: GithubCall, wait: float) -> Throttled:
    return Throttled(f"{call}: the scale sets' service asks for a pause of {wait:.0f} s", retry_after=wait)
