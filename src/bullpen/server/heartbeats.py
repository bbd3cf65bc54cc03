"""The heartbeat endpoints, kept apart so that a beat costs little and never waits for other requests.

    POST /v1/heartbeats          one beat, one answer
    POST /v1/heartbeats/batch    up to a thousand, a result for each: a bad one fails alone

The connections of `bullpen serve` call `Heartbeats.receive` themselves (`protocol`); elsewhere it is a plain ASGI
application. The caller was admitted before (`gate`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from bullpen.auth.tokens import AgentIdentity, Operator, Speaker
from bullpen.config import Settings
from bullpen.errors import BullpenError
from bullpen.liveness.heartbeat import record_validated
from bullpen.liveness.schema import HeartbeatAnswer, HeartbeatRequest
from bullpen.model import limits
from bullpen.model.worker import Rejected
from bullpen.ports import Clock, Ports
from bullpen.schema.error import ErrorAnswer
from bullpen.server.authentication import forbidden, may_beat
from bullpen.server.heartbeat_batcher import HeartbeatBatcher, Results
from bullpen.server.mistakes import of_decoding
from bullpen.server.problems import Problem, bad_input, of_error, of_rejection, too_large

SINGLE, BATCH = "/v1/heartbeats", "/v1/heartbeats/batch"
LARGEST = {SINGLE: 128 * 1024, BATCH: 4 * 1024 * 1024}
"""Bytes of a body: a thousand activities fit into a beat, a thousand beats into a batch."""

BEATING = (Operator, AgentIdentity)  # callers with workers
MOST_KEYS = 4  # new keys of one agent within `KEYS_WITHIN`
KEYS_WITHIN = 3600.0  # seconds
KEYS_ALLOWED = f"{MOST_KEYS} new keys an hour"
MOST_AGENTS = 20_000  # agents whose keys are remembered

Reply: TypeAlias = Callable[[int, bytes, dict[str, str]], None]


class _Batch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    heartbeats: list[HeartbeatRequest]


class _RawBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    heartbeats: list[msgspec.Raw]


class _BatchAnswer(msgspec.Struct, frozen=True):
    """One result for each beat, in order: the answer, or what was wrong with it."""

    results: list[HeartbeatAnswer | ErrorAnswer]


class Newcomers:
    """How many keys each agent used for the first time lately, in this process: a few are allowed, for restarts. With
    thousands that then fall silent, a single agent could make the whole pool look dead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: dict[str, dict[str, float]] = {}

    def admit(self, instance_id: str, key: str) -> None:
        """Raise a 429 for one new key too many. The same key may begin as often as it likes."""
        now = self._clock.now().timestamp()
        known = self._began.pop(instance_id, {})
        recent = {old: since for old, since in known.items() if now - since < KEYS_WITHIN}
        self._began[instance_id] = recent  # last in line: the agent whose last new key is oldest is forgotten first
        if len(self._began) > MOST_AGENTS:
            del self._began[next(iter(self._began))]
        if key in recent:
            return
        if len(recent) >= MOST_KEYS:
            wait = max(1.0, min(recent.values()) + KEYS_WITHIN - now)
            error, headers = "the instance used too many new worker keys", {"retry-after": f"{wait:.0f}"}
            raise Problem(429, error, "workerInstanceKey", allowed=KEYS_ALLOWED, headers=headers)
        recent[key] = now


class Heartbeats:
    """Receives beats, and answers each after the commit that holds it."""

    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._newcomers = Newcomers(ports.clock)
        # Plain numbers, which `/metrics` reads: anything else would be felt here.
        self.accepted = self.resurrected = self.rejected = self.refused = 0
        self._settings = settings
        self._batcher = HeartbeatBatcher(
            lambda beats, overloaded: record_validated(ports, self._settings, beats, overloaded=overloaded)
        )
        self._single = msgspec.json.Decoder(HeartbeatRequest)
        self._batch = msgspec.json.Decoder(_Batch)
        self._raw_batch = msgspec.json.Decoder(_RawBatch)
        self._encode = msgspec.json.Encoder().encode

    def receive(self, path: str, speaker: Speaker | None, body: bytes, reply: Reply) -> None:
        """Read a body and have it written; `reply` is called once, at once if something is wrong with the body."""
        try:
            if not isinstance(speaker, BEATING):
                raise forbidden("a run's token is valid for its own run only: a run has no worker")
            if path == BATCH:
                self._receive_batch(speaker, body, reply)
            else:
                self._receive_one(speaker, body, reply)
        except Problem as problem:
            self._refuse(problem, reply)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            self._refuse(of_decoding(exc, _Batch if path == BATCH else HeartbeatRequest, body), reply)

    def adopt(self, settings: Settings) -> None:
        """Grant leases by these settings, from the next write on."""
        self._settings = settings

    async def close(self) -> None:
        await self._batcher.close()

    def _receive_one(self, speaker: Operator | AgentIdentity, body: bytes, reply: Reply) -> None:
        beat = self._admitted(self._single.decode(body), speaker)

        def done(results: Results) -> None:
            if isinstance(results, BullpenError):
                self._refuse(of_error(results), reply)
            elif isinstance(result := results[0], Rejected):
                self.rejected += 1
                problem = of_rejection(result)
                reply(problem.status, self._encode(problem.answer), problem.headers)
            else:
                self.accepted += 1
                if result.resurrected:
                    self.resurrected += 1
                reply(200, self._encode(result), {})

        self._batcher.submit((beat,), done)

    def _receive_batch(self, speaker: Operator | AgentIdentity, body: bytes, reply: Reply) -> None:
        items = self._decoded(body)
        if not 1 <= len(items) <= limits.BEATS:
            raise bad_input("heartbeats: too many or none", "heartbeats", len(items), f"1 to {limits.BEATS} beats")
        checked: list[tuple[HeartbeatRequest, str] | Problem] = []
        for item in items:
            try:
                checked.append(item if isinstance(item, Problem) else self._admitted(item, speaker))
            except Problem as problem:
                checked.append(problem)
        good = [item for item in checked if not isinstance(item, Problem)]

        def done(results: Results) -> None:
            if isinstance(results, BullpenError):
                self._refuse(of_error(results), reply)
                return
            rejected = sum(isinstance(one, Rejected) for one in results)
            self.rejected += rejected
            self.refused += len(checked) - len(results)
            self.accepted += len(results) - rejected
            self.resurrected += sum(isinstance(one, HeartbeatAnswer) and one.resurrected for one in results)
            coming = iter(results)
            shown = [
                item.answer
                if isinstance(item, Problem)
                else of_rejection(result).answer
                if isinstance(result := next(coming), Rejected)
                else result
                for item in checked
            ]
            reply(200, self._encode(_BatchAnswer(shown)), {})

        if good:
            self._batcher.submit(good, done)
        else:
            done([])

    def _decoded(self, body: bytes) -> Sequence[HeartbeatRequest | Problem]:
        """All at once; only if something is wrong one by one, to find which."""
        try:
            return self._batch.decode(body).heartbeats
        except msgspec.ValidationError:
            return [self._decoded_item(place, raw) for place, raw in enumerate(self._raw_batch.decode(body).heartbeats)]

    def _decoded_item(self, place: int, raw: msgspec.Raw) -> HeartbeatRequest | Problem:
        try:
            return self._single.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            found = of_decoding(exc, HeartbeatRequest, bytes(raw)).answer
            return Problem(
                400,
                found.error,
                f"heartbeats[{place}].{found.field}",
                value=found.value or None,
                allowed=found.allowed,
                remedy=found.remedy,
            )

    def _admitted(self, beat: HeartbeatRequest, speaker: Operator | AgentIdentity) -> tuple[HeartbeatRequest, str]:
        """A beat that the caller may send, and the id of its instance. Raise a 403 for the worker of another instance,
        a 429 for one new key too many."""
        key = beat.key
        if not may_beat(speaker, key):
            raise forbidden("workerInstanceKey: the token is not valid for this worker")
        if isinstance(speaker, Operator):
            head, slash, _ = key.partition("/")
            return beat, head if slash and head.startswith("i-") else ""
        if beat.token == 0:
            self._newcomers.admit(speaker.instance_id, key)
        if beat.domain:  # ignored: a wrong one would make a whole domain look silent
            beat = msgspec.structs.replace(beat, domain="")
        return beat, speaker.instance_id

    def _refuse(self, problem: Problem, reply: Reply) -> None:
        self.refused += 1
        reply(problem.status, self._encode(problem.answer), problem.headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The same as an ASGI application."""
        answered: asyncio.Future[tuple[int, bytes, dict[str, str]]] = asyncio.get_running_loop().create_future()

        def reply(status: int, body: bytes, headers: dict[str, str]) -> None:
            if not answered.done():
                answered.set_result((status, body, headers))

        body = bytearray()
        more = True
        while more and not answered.done():
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > LARGEST[scope["path"]]:
                self._refuse(too_large(LARGEST[scope["path"]]), reply)
        if not answered.done():
            self.receive(scope["path"], scope["state"]["speaker"], bytes(body), reply)
        status, content, extra = await answered
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        headers += [(name.encode(), value.encode()) for name, value in extra.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
