"""Message sessions: a session's queue is asked with a token of its own, which lasts for less than an hour.

The token is replaced five minutes before its end, and when the queue refuses it. A session is over if its fresh token
is refused as well. Holders keep the session that they were given; the newest token is known here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import timedelta
from urllib.parse import quote

from bullpen.engines.github.answers import GithubCall, understood
from bullpen.engines.github.exchange import RawAnswer
from bullpen.engines.github.scale_sets import parsing
from bullpen.engines.github.scale_sets.service import API_VERSION, ActionsService, ServiceCall
from bullpen.engines.github.scale_sets.trusted_hosts import below
from bullpen.errors import Conflict, NotFound, SessionGone, Unavailable
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock, MessageSession, SetMessage

POLL = 65.0  # seconds; the service answers after 50 if there is nothing
SETS = "_apis/runtime/runnerscalesets"
RENEWED = timedelta(minutes=5).total_seconds()  # before the end
SHORTEST = timedelta(minutes=1).total_seconds()  # between two renewals, whatever a token says of its end
USUAL = timedelta(minutes=50).total_seconds()  # the life of a token that does not say
GONE = (404, 410)
EXPIRED = "SessionExpired"  # in the type of an error


@dataclass(slots=True)
class HeldSession:
    """A session with its newest token. One task at a time renews it: a token ends when the next is made."""

    session: MessageSession
    renew_at: float  # by the event loop
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class MessageSessions:
    """The part of `ports.ScaleSets` that is about sessions and their messages."""

    def __init__(self, service: ActionsService, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._held: dict[str, HeldSession] = {}  # by the session's id

    async def open(self, set_id: int, owner: str) -> MessageSession:
        call = ServiceCall("POST", f"{SETS}/{set_id}/sessions")
        answer = await self._service.ask(call, {"ownerName": owner}, expecting=(404, 409))
        if answer.status == 409:
            raise Conflict(f"scale set {set_id}: another session is open ({parsing.said(answer.content)})")
        if answer.status == 404:
            raise NotFound(f"scale set {set_id} does not exist ({parsing.said(answer.content)})")
        with understood(call.named()):
            session = parsing.session(answer.content, set_id)
        if not session.queue or not session.token:  # it would keep the place of one that can be used
            await self.close(set_id, session.id)
            raise Unavailable(f"scale set {set_id}: GitHub opened a session without a message queue, and it was closed")
        self._hold(session)
        return session

    async def renew(self, session: MessageSession) -> MessageSession:
        held = self._current(session)
        async with held.turn:
            return await self._renewed(held)

    async def close(self, set_id: int, session_id: str) -> None:
        call = ServiceCall("DELETE", _path(set_id, session_id))
        answer = await self._service.ask(call, expecting=(400, *GONE))
        if not answer.is_success and not _is_gone(answer):
            raise self._service.failure(call.named(), answer)
        self._held.pop(session_id, None)

    async def poll(self, session: MessageSession, last: int, capacity: int) -> SetMessage | None:
        call = GithubCall("GET", f"/message queue of scale set {session.set_id}")
        headers = {
            "accept": f"application/json; api-version={API_VERSION}",
            "x-scalesetmaxcapacity": str(capacity),
        }

        async def send(current: MessageSession) -> RawAnswer:
            url = self._service.trusted(current.queue)
            url = url.copy_merge_params({"lastMessageId": str(last)}) if last else url
            return await self._service.send(call, url, f"Bearer {current.token}", headers=headers, within=POLL)

        answer = self._checked(call, session, await self._with_token(session, send))
        has_content = answer.status not in (202, 204) and answer.content.strip()
        return parsing.message(answer.content) if has_content else None

    async def acquire(self, session: MessageSession, requests: Sequence[int]) -> list[int]:
        if not requests:
            return []
        call = ServiceCall("POST", f"{SETS}/{session.set_id}/acquirejobs")

        async def send(current: MessageSession) -> RawAnswer:
            url = await self._service.url(call)
            return await self._service.send(call.named(), url, f"Bearer {current.token}", list(requests))

        answer = self._checked(call.named(), session, await self._with_token(session, send))
        with understood(call.named()):
            return parsing.acquired(answer.content)

    async def acknowledge(self, session: MessageSession, message: int) -> None:
        call = GithubCall("DELETE", f"/message {message} of scale set {session.set_id}")

        async def send(current: MessageSession) -> RawAnswer:
            url = below(self._service.trusted(current.queue), str(message))
            return await self._service.send(call, url, f"Bearer {current.token}")

        with suppress(SessionGone):  # with its queue the message is gone, or it comes again in the next session
            answer = await self._with_token(session, send)
            if answer.status not in GONE:  # the message is gone, not the session: its newest token is still needed
                self._checked(call, session, answer)

    async def _with_token(
        self, session: MessageSession, send: Callable[[MessageSession], Awaitable[RawAnswer]]
    ) -> RawAnswer:
        """Send with the newest token, and once more with a fresh one if that is refused."""
        held = self._current(session)
        if asyncio.get_running_loop().time() >= held.renew_at:
            with suppress(Unavailable):  # the token at hand is good for some minutes
                await self._renew_once(held, held.session.token)
        used = held.session
        answer = await send(used)
        if answer.status == 401:
            await self._renew_once(held, used.token)
            answer = await send(held.session)
        return answer

    async def _renew_once(self, held: HeldSession, token: str) -> None:
        """Replace a token, unless another task has done so meanwhile."""
        async with held.turn:
            if held.session.token == token:
                await self._renewed(held)

    async def _renewed(self, held: HeldSession) -> MessageSession:
        old = held.session
        call = ServiceCall("PATCH", _path(old.set_id, old.id))
        answer = await self._service.ask(call, expecting=(400, *GONE))
        self._checked(call.named(), old, answer)
        with understood(call.named()):
            fresh = parsing.session(answer.content, old.set_id)
        if not fresh.token:
            raise Unavailable(f"{call}: the renewed session has no token")
        held.session = replace(fresh, id=old.id, queue=fresh.queue or old.queue)
        held.renew_at = self._renew_at(fresh.token)
        return held.session

    def _current(self, session: MessageSession) -> HeldSession:
        return self._held.get(session.id) or self._hold(session)

    def _hold(self, session: MessageSession) -> HeldSession:
        held = self._held[session.id] = HeldSession(session, self._renew_at(session.token))
        return held

    def _renew_at(self, token: str) -> float:
        lasts = parsing.lifetime(token, self._clock.now())
        return asyncio.get_running_loop().time() + max((USUAL if lasts is None else lasts) - RENEWED, SHORTEST)

    def _checked(self, call: GithubCall, session: MessageSession, answer: RawAnswer) -> RawAnswer:
        """Raise SessionGone if it is over; anything else that is no success as every call does."""
        if answer.is_success:
            return answer
        if answer.status == 401 or _is_gone(answer):
            self._held.pop(session.id, None)
            said = parsing.said(answer.content)
            raise SessionGone(f"scale set {session.set_id}: its session has ended ({said}, {answer.status})")
        raise self._service.failure(call, answer)


def _path(set_id: int, session_id: str) -> str:
    return f"{SETS}/{set_id}/sessions/{quote(session_id, safe='')}"


def _is_gone(answer: RawAnswer) -> bool:
    return answer.status in GONE or EXPIRED in parsing.problem(answer.content)[0]
