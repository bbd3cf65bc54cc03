"""The client of GitHub's API: one for all calls of a process, within the limits that GitHub asks for.

    call ─▶ rate limits ─▶ at most 8 at once ─▶ bearer ─▶ GitHub ─▶ what it means

A short wait is waited out here, a long one is the caller's to decide: `Throttled`. What does no harm twice is repeated
when there was no answer; anything else never is. Nothing is opened, read or imported before the first call: a provision
on the warm path makes none.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from bullpen.config import Github
from bullpen.engines.github.answers import GithubAnswer, GithubCall, failure, rows, understood
from bullpen.engines.github.credentials import AppCredentials, Credentials, credentials_of
from bullpen.engines.github.endpoints import SERVICE, endpoint
from bullpen.engines.github.exchange import RawAnswer, exchange
from bullpen.engines.github.limits import RateLimits, is_limited, limits_of
from bullpen.engines.github.single_flight import Flights
from bullpen.errors import BullpenError, ConfigError, Throttled, Unavailable
from bullpen.extras import missing_extra
from bullpen.ports import Clock
from bullpen.ports.health import Limit
from bullpen.ports.traffic import RequestResult, Traffic, result_of_status

if TYPE_CHECKING:
    import httpx

AT_ONCE = 8  # GitHub takes a hundred, from all users of the same credentials
PATIENCE = (
    5.0  # seconds that one call may wait for a rate limit or a second answer: its caller holds something meanwhile
)
WHOLE = 20.0  # seconds for one exchange, waiting for its turn included: one byte a second is no answer either
PAUSE = 0.5  # seconds before a call without an answer is repeated; doubled each time
REPEATED = ("GET", "DELETE")
REMEMBERED = 256  # answers kept for their tags: more than the runs that one process follows
LOOKS = 2  # at a list that changes while its pages are turned
MOST_PAGES = 200  # of a hundred each: twice the runners that GitHub allows in a group
AGENT = {"user-agent": "bullpen"}
HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}


class GithubClient:
    """GitHub, for one scope. `base` is where its API is, `scope_path` how paths of that scope begin."""

    def __init__(
        self,
        settings: Github,
        clock: Clock,
        transport: "httpx.AsyncBaseTransport | None" = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.settings = settings
        self._traffic = traffic or Traffic()
        self._traffic.limits = lambda: self.limits
        self.scope_path = f"/repos/{settings.scope}" if "/" in settings.scope else f"/orgs/{settings.scope}"
        self.base = base_url(settings)
        self._clock = clock
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._credentials: Credentials | None = None
        self._rate_limits = RateLimits()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._remembered: OrderedDict[tuple[str, ...], GithubAnswer] = OrderedDict()
        self.flights = Flights()

    @property
    def limits(self) -> dict[str, Limit]:
        """What is left of each resource, as the last answers have said."""
        return self._rate_limits.limits

    async def ask(
        self,
        call: GithubCall,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        expecting: Collection[int] = (),
        remembers: bool = False,
    ) -> GithubAnswer:
        """Make one call and return its answer: a success, or of a status in `expecting`.

        With `remembers` an answer that has not changed since costs nothing of the rate limit. Raise Throttled where
        GitHub asks for a longer wait, PermissionDenied or Refused for what it will not do, Unavailable for no answer.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE, PAUSE
        while True:
            if wait := self._rate_limits.wait(call, loop.time()):
                if loop.time() + wait > until:
                    raise _throttled(call, wait)
                await asyncio.sleep(wait)
                continue
            try:
                answer = await self._authorised(call, query or {}, body, remembers)
                if answer.status >= 500:
                    raise self._failure(call, answer)
            except Throttled:
                raise
            except Unavailable:
                if call.method not in REPEATED or loop.time() + pause > until:
                    raise
                await asyncio.sleep(pause)
                pause *= 2
                continue
            if self._rate_limits.note(call, answer, self._clock.now(), loop.time()):
                continue
            if answer.status >= 300 and answer.status not in expecting:
                raise self._failure(call, answer)
            return answer

    async def listed(
        self,
        call: GithubCall,
        key: str = "",
        query: Mapping[str, str] | None = None,
        expecting: Collection[int] = (),
        remembers: bool = False,
    ) -> list[dict[str, Any]] | None:
        """Everything on all pages, each once. None for a status in `expecting`.

        What goes away while pages are turned makes the others move up, to a page that was read before. So where the
        count on a page has changed, or differs from what was listed, they are turned again, and what only one look has
        shown is listed too.
        """
        found: dict[int, dict[str, Any]] = {}
        for _ in range(LOOKS):
            seen: dict[int, dict[str, Any]] = {}
            counts, asked = [], {"per_page": "100", **(query or {})}
            for _ in range(MOST_PAGES):
                answer = await self.ask(call, query=asked, expecting=expecting, remembers=remembers)
                if answer.status >= 300:
                    return None
                with understood(call):
                    seen |= {one["id"]: one for one in rows(answer.body, key)}
                    counts.append(answer.body.get("total_count") if key else None)
                if (after := _next_page(answer)) is None:
                    break
                asked = after
            if len(counts) == 1 or all(count in (None, len(seen)) for count in counts):
                return list(seen.values())
            found |= seen
        return list(found.values())

    async def rate_limits(self) -> list[Limit]:
        """What is left of Bullpen's rate limits; none where a server has them turned off. The question is free."""
        call = GithubCall("GET", "/rate_limit")
        answer = await self.ask(call, expecting=(404,))
        with understood(call):
            return limits_of(answer.body)

    async def granted(self) -> dict[str, str] | None:
        """The permissions of an App, by GitHub's keys; None for a token, which does not report its own."""
        credentials = self._opened()[1]
        if not isinstance(credentials, AppCredentials):
            return None
        await credentials.bearer()
        return credentials.permissions

    async def exchange(
        self,
        call: GithubCall,
        url: "str | httpx.URL",
        headers: Mapping[str, str],
        body: Any = None,
        *,
        within: float = WHOLE,
        turns: AbstractAsyncContextManager[Any] | None = None,
    ) -> RawAnswer:
        """One request with the caller's own authorization, without repeats or limits, when it is its turn; by default
        one of the few that the client sends at once. Raise Unavailable if there is no whole answer in time."""
        turns = self._turns if turns is None else turns
        client = self._opened()[0]
        try:
            answer = await exchange(client, call, url, headers=headers, body=body, within=within, turns=turns)
        except Unavailable:
            self._traffic.note(SERVICE, endpoint(call), RequestResult.FAILED)
            raise
        limited = is_limited(GithubAnswer(answer.status, answer.headers))
        result = RequestResult.THROTTLED if limited else result_of_status(answer.status)
        self._traffic.note(SERVICE, endpoint(call), result)
        return answer

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def credentials_name(self) -> str:
        """By the settings' names, for messages."""
        return self._opened()[1].name

    async def send_as(
        self, authorization: str, call: GithubCall, body: Mapping[str, Any] | None = None
    ) -> GithubAnswer:
        """One call of the API with another authorization than the credentials', as it is answered. It does not wait
        out a limit: raise Throttled."""
        loop = asyncio.get_running_loop()
        answer = await self._send(call, body=body, headers={"authorization": authorization})
        if self._rate_limits.note(call, answer, self._clock.now(), loop.time()):
            raise _throttled(call, self._rate_limits.wait(call, loop.time()))
        return answer

    def check(self) -> None:
        """Raise ConfigError if no call can ever be made as the settings are; makes none."""
        self._opened()

    async def aclose(self) -> None:
        await self.flights.aclose()
        if self._client is not None:
            await self._client.aclose()

    def _opened(self) -> "tuple[httpx.AsyncClient, Credentials]":
        if self._client is None or self._credentials is None:
            try:
                import httpx

                self._credentials = credentials_of(
                    self.settings, self.scope_path, self._clock, self._noted, self.flights
                )
            except ModuleNotFoundError as exc:
                raise missing_extra("GitHub", exc, "github") from exc
            try:
                # What is asked at once is bounded by turns. Long polls wait outside of them, each on a connection.
                connections = httpx.Limits(max_connections=None, max_keepalive_connections=32)
                self._client = httpx.AsyncClient(headers=AGENT, limits=connections, transport=self._transport)
            except (ValueError, ImportError, httpx.InvalidURL):  # not as the cause: it may show a password of the proxy
                raise ConfigError("GitHub: the proxy that HTTPS_PROXY or ALL_PROXY names cannot be used") from None
        return self._client, self._credentials

    async def _noted(self, call: GithubCall, bearer: str) -> GithubAnswer:
        """A call of the credentials' own."""
        return await self.send_as(f"Bearer {bearer}", call)

    def _failure(self, call: GithubCall, answer: GithubAnswer) -> BullpenError:
        return failure(call, answer, self.credentials_name)

    async def _authorised(
        self, call: GithubCall, query: Mapping[str, str], body: Mapping[str, Any] | None, remembers: bool
    ) -> GithubAnswer:
        credentials = self._opened()[1]
        bearer = await credentials.bearer()
        answer = await self._conditional(call, bearer, query, body, remembers)
        if answer.status == 401 and credentials.renewed(bearer):
            answer = await self._conditional(call, await credentials.bearer(), query, body, remembers)
        return answer

    async def _conditional(
        self, call: GithubCall, bearer: str, query: Mapping[str, str], body: Mapping[str, Any] | None, remembers: bool
    ) -> GithubAnswer:
        name = (call.path, *(word for pair in sorted(query.items()) for word in pair))
        known = self._remembered.get(name) if remembers else None
        headers = {"authorization": f"Bearer {bearer}", **({"if-none-match": known.headers["etag"]} if known else {})}
        answer = await self._send(call, query, body, headers)
        if known and answer.status == 304:
            return replace(known, headers={**known.headers, **answer.headers, "etag": known.headers["etag"]})
        if remembers and answer.status == 200 and "etag" in answer.headers:
            self._remembered[name] = answer
            self._remembered.move_to_end(name)
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return answer

    async def _send(
        self,
        call: GithubCall,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> GithubAnswer:
        """One exchange. Raise Unavailable if there is no answer in time, or none that can be read."""
        headers = {**HEADERS, **(headers or {})}
        url = f"{self.base}{call.path}" + (f"?{urlencode(query)}" if query else "")
        raw = await self.exchange(call, url, headers, body)
        answered = None
        try:
            answered = json.loads(raw.content) if raw.content else None
        except (ValueError, RecursionError) as exc:
            if raw.is_success:  # otherwise a proxy's page, and the status says enough
                raise Unavailable(f"{call}: the answer cannot be read ({raw.status})") from exc
        return GithubAnswer(raw.status, raw.headers, answered)


def base_url(settings: Github) -> str:
    """Where the API is: GitHub's own has a host for it, other servers a path."""
    if settings.api_url:
        return settings.api_url.rstrip("/")
    url = settings.url.rstrip("/")
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    has_a_host = host == "github.com" or host.endswith(".ghe.com")
    return f"https://api.{host}" if has_a_host else f"{url}/api/v3"


def _throttled(call: GithubCall, wait: float) -> Throttled:
    return Throttled(f"{call}: GitHub's rate limit is used up for {wait:.0f} s", retry_after=wait)


def _next_page(answer: GithubAnswer) -> dict[str, str] | None:
    """The query of the next page. Only the query is taken from what an answer says: tokens go nowhere else."""
    for link in answer.headers.get("link", "").split(","):
        target, _, parameters = link.partition(";")
        if 'rel="next"' in parameters:
            return dict(parse_qsl(urlsplit(target.strip(" <>")).query))
    return None
