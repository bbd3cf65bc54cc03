"""Answers that several open pages share: what they ask of the whole pool again and again is worked out once.

    a page asks ──▶ worked out a moment ago? ──▶ the same answer
                ──▶ being worked out?        ──▶ the same answer, when it is there
                └─▶ work it out, and keep it for as long as it took, many times over

So however many pages are open, the questions of a kind take a small share of the server. An answer is a second old at
most where it was cheap, and fifteen where it was not; what a long history cost may be minutes old. What a page changes
itself is never hidden from it: after each of its writes everything is worked out again.

Only for requests of the dashboard's own pages, which browsers mark; a program always gets an answer of its own. Only
for answers that are the same for every operator.
"""

import asyncio
from collections.abc import Mapping
from email.utils import format_datetime
from typing import Any

from bullpen.auth.tokens import Operator
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock
from bullpen.server.head import READING

PATHS = frozenset(
    (
        "/v1/activity",
        "/v1/control",
        "/v1/cost",
        "/v1/cost/hours",
        "/v1/pauses",
        "/v1/queue",
        "/v1/runs",
        "/v1/series",
        "/v1/status",
        "/v1/workers",
    )
)
"""Questions about the whole pool."""
PAST = frozenset(("/v1/cost", "/v1/cost/hours"))
"""Questions that read a month of history, of which the last minutes change little."""
LEAST, MOST = 1.0, 15.0  # seconds for which an answer is kept
MOST_OF_PAST = 300.0
SHARE = 100  # … which are so many times as many as it took: a question takes a hundredth of a core
KEPT = 32  # answers; each with other parameters is one
LARGEST = 4 * 1024 * 1024  # bytes of one that is kept


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """An answer as the application sent it, and until when it may be given to others."""

    start: Mapping[str, Any]
    body: bytes
    until: float

    async def send(self, send: Any) -> None:
        await send({**self.start, "headers": list(self.start["headers"])})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class SharedAnswers:
    """In front of an application: answers pages from what is kept, and others by asking it."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._kept: dict[tuple[str, bytes], SharedAnswer] = {}
        self._under_way: dict[tuple[str, bytes], asyncio.Future[SharedAnswer | None]] = {}
        self._changes = 0  # writes of pages so far

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not is_of_page(scope):
            await self._app(scope, receive, send)
        elif scope["method"] not in READING:
            try:
                await self._app(scope, receive, send)
            finally:
                self._changes += 1
                self._kept.clear()
                self._under_way.clear()  # those that wait already get it; nothing that is asked from now on does
        elif scope["method"] == "GET" and scope["path"] in PATHS and isinstance(scope["state"]["speaker"], Operator):
            await self._share(scope, send)
        else:
            await self._app(scope, receive, send)

    async def _share(self, scope: Any, send: Any) -> None:
        key = (scope["path"], scope["query_string"])
        found = self._kept.get(key)
        if found is None or found.until <= _now():
            under_way = self._under_way.get(key)
            found = await self._worked_out(key, scope) if under_way is None else await asyncio.shield(under_way)
        if found is None:  # the request that was to work it out was ended
            found = await self._worked_out(key, scope)
        await found.send(send)

    async def _worked_out(self, key: tuple[str, bytes], scope: Any) -> SharedAnswer:
        future: asyncio.Future[SharedAnswer | None] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        found: SharedAnswer | None = None
        changes = self._changes
        try:
            found = await self._asked(scope)
        finally:
            if self._under_way.get(key) is future:
                del self._under_way[key]
            future.set_result(found)
        if found.start["status"] == 200 and len(found.body) <= LARGEST and changes == self._changes:
            self._kept.pop(key, None)
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
        return found

    async def _asked(self, scope: Any) -> SharedAnswer:
        start: dict[str, Any] = {}
        body = bytearray()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.extend(message.get("body", b""))

        began = _now()
        await self._app(scope, receive, send)
        took = _now() - began
        most = MOST_OF_PAST if scope["path"] in PAST else MOST
        return SharedAnswer(start, bytes(body), _now() + min(most, max(LEAST, SHARE * took)))


def is_of_page(scope: Any) -> bool:
    """Whether a page of this server's own sent the request: browsers say so, and let no page say it itself."""
    return any(name == b"sec-fetch-site" and value == b"same-origin" for name, value in scope["headers"])


def date_header(clock: Clock) -> tuple[bytes, bytes]:
    """By which a page knows how far the clock of its machine is off."""
    return b"date", format_datetime(clock.now(), usegmt=True).encode()


def _now() -> float:
    return asyncio.get_running_loop().time()
