"""One request to the server: sent again where that is safe, its answer checked and decoded.

| happens | reaction |
|---|---|
| 429; 502, 503 and 504 if the request is repeatable | again after `Retry-After` |
| the connection fails before the request was sent | again; an error at once if the server has never answered |
| the answer is lost | again, if the request is repeatable |
| `patience` seconds of this | the last error |

`reach` asks for an answer of any kind first: a wrong URL, or a server that hangs, is found within seconds, and what the
server is asked next may take its time.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from bullpen.client import answers
from bullpen.client.answers import BUSY, GATEWAYS, Reply
from bullpen.client.transport import HttpRequest, ServerAway, Transport

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
OK = 200
SHORTEST = 0.1  # seconds for an answer
FIRST_TRIES = 2  # again, of a request whose answer was lost, to a server that has never answered
T = TypeVar("T")
OnWait = Callable[[str, float], None]
"""Takes why a request is going to be repeated, and the seconds until it is given up."""


class Requester:
    """A server as the methods of the client ask it. `patience` is how long a request is repeated, in seconds; `on_wait`
    is called each time."""

    def __init__(self, transport: Transport, url: str, patience: float, on_wait: OnWait | None = None) -> None:
        self.transport = transport
        self.url = url
        self.patience = patience
        self.has_answered = False
        self._on_wait = on_wait or (lambda why, left: None)

    async def reach(self, within: float) -> None:
        """Raise unless something answers with HTTP within so many seconds. Whether it is a Bullpen, the next request
        finds out. A lost answer, and a proxy whose server is away, are asked again until then."""
        give_up = time.monotonic() + within
        last_pause = give_up - PAUSES[0]
        while True:
            try:
                left = max(give_up - time.monotonic(), SHORTEST)
                reply = await self.transport.exchange(HttpRequest("GET", "/healthz", timeout=left))
            except ServerAway as exc:
                if not exc.was_sent or time.monotonic() > last_pause:
                    raise
            else:
                if reply.status not in GATEWAYS or answers.check_speaker(self.url, reply):
                    self.has_answered = True
                    return
                if time.monotonic() > last_pause:
                    answers.check(self.url, reply)
            await self.transport.pause(PAUSES[0])

    async def ask(self, request: HttpRequest, kind: type[T]) -> T:
        return answers.read(self.url, await self.reply(request), kind)

    async def reply(self, request: HttpRequest) -> Reply:
        """An answer that is not an error."""
        give_up, failures = time.monotonic() + self.patience, 0
        while True:
            pause = PAUSES[min(failures, len(PAUSES) - 1)]
            try:
                reply = await self.transport.exchange(request)
            except ServerAway as exc:
                if not self._may_repeat(request, exc, failures) or time.monotonic() + pause > give_up:
                    raise
                why = str(exc)
            else:
                self.has_answered = True
                pause = max(pause, reply.retry_after)
                again = reply.status == BUSY or (reply.status in GATEWAYS and request.is_repeatable)
                if not again or time.monotonic() + pause > give_up:
                    answers.check(self.url, reply)
                    return reply
                answers.check_speaker(self.url, reply)
                why = f"{self.url}: {'is busy' if reply.status == BUSY else f'answered {reply.status}'}"
            failures += 1
            self._on_wait(why, give_up - time.monotonic())
            await self.transport.pause(pause)

    @asynccontextmanager
    async def stream(self, request: HttpRequest, silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of an answer that has no end, sent once."""
        async with self.transport.stream(request, silence) as stream:
            self.has_answered = True
            content = b"" if stream.reply.status == OK else b"".join([piece async for piece in stream.pieces])
            answers.check(self.url, replace(stream.reply, content=content))
            yield stream.pieces

    def _may_repeat(self, request: HttpRequest, lost: ServerAway, failures: int) -> bool:
        """A server that has never answered is more likely the wrong one than a busy one."""
        if not self.has_answered:
            return lost.was_sent and request.is_repeatable and failures < FIRST_TRIES
        return request.is_repeatable or not lost.was_sent
