"""A proxy in front of an engine that speaks an AWS protocol: it counts, it is slow, and it fails on request.

    async with Proxy(engines.dynamodb) as proxy:
        settings = aws_settings(endpoints={"dynamodb": proxy.url})
        proxy.fail("UpdateItem", Drop())                                    # the next one lands; its answer is lost
        proxy.fail("Query", Failure("ThrottlingException"), after=2)        # the third one
        proxy.fail("BatchGetItem", LeaveOut(5), times=None)                 # every one is served but for five keys
        ...
        assert proxy.counts["UpdateItem"] == 2

`proxy_in_thread` is the same for a test that drives real processes. Signatures are passed on as they are: no local
engine checks them. Counted is every request that arrives, failed on purpose or not, repeats of the SDK included.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import aiohttp
from aiohttp import web

NOT_PASSED_ON = {"connection", "content-length", "transfer-encoding", "keep-alive", "expect", "x-amz-crc32"}
JSON = {"Content-Type": "application/x-amz-json-1.0"}


@dataclass(frozen=True, slots=True)
class ProxiedCall:
    """A request, as far as it tells whose it is. `service` is the name that signs it: dynamodb, sqs, ec2, sts."""

    service: str
    operation: str
    body: bytes


@dataclass(frozen=True, slots=True)
class ProxiedAnswer:
    status: int
    headers: dict[str, str]
    body: bytes


Forward = Callable[[bytes], Awaitable[ProxiedAnswer]]


@dataclass(frozen=True, slots=True)
class Refuse:
    """The connection is closed before anything happened."""

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        return None


@dataclass(frozen=True, slots=True)
class Drop:
    """The engine does what it is asked; the connection is closed before its answer."""

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        await forward(call.body)
        return None


@dataclass(frozen=True, slots=True)
class Failure:
    """Nothing happens; the answer is an error, spelt as the service spells its own."""

    code: str
    status: int = 400
    message: str = "injected"

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        error = f"<Error><Code>{escape(self.code)}</Code><Message>{escape(self.message)}</Message></Error>"
        match call.service:
            case "dynamodb" | "sqs":
                fault = "Sender" if self.status < 500 else "Receiver"
                headers = {**JSON, "x-amzn-query-error": f"{self.code};{fault}"} if call.service == "sqs" else JSON
                fields = {"__type": f"com.amazonaws.{call.service}#{self.code.split('.')[-1]}", "message": self.message}
                return ProxiedAnswer(self.status, headers, json.dumps(fields).encode())
            case "ec2":
                text = f"<Response><Errors>{error}</Errors></Response>"
            case _:
                text = f"<ErrorResponse>{error}</ErrorResponse>"
        return ProxiedAnswer(self.status, {"Content-Type": "text/xml"}, text.encode())


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """The last `count` parts of a batch are not done, and the answer says so: the `UnprocessedKeys` of BatchGetItem, or
    the `Failed` entries of a batch of SQS, with this code."""

    count: int
    code: str = "InternalError"
    senders_fault: bool = False

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        asked = json.loads(call.body)
        parts = self._parts(asked)
        kept, left = parts[: -self.count], parts[-self.count :]
        found: dict[str, Any] = {}
        headers = JSON
        if kept:
            self._parts(asked)[:] = kept
            answer = await forward(json.dumps(asked).encode())
            if answer.status != 200:
                return answer
            found, headers = json.loads(answer.body), answer.headers
        if "RequestItems" in asked:
            self._parts(asked)[:] = left
            found = {"Responses": {}, **found, "UnprocessedKeys": asked["RequestItems"]}
        else:
            error = {"Code": self.code, "Message": "injected", "SenderFault": self.senders_fault}
            failed = [*found.get("Failed", ()), *({"Id": entry["Id"], **error} for entry in left)]
            found = {"Successful": [], **found, "Failed": failed}
        return ProxiedAnswer(200, headers, json.dumps(found).encode())

    @staticmethod
    def _parts(asked: dict[str, Any]) -> list[Any]:
        if "RequestItems" in asked:
            (keys,) = (table["Keys"] for table in asked["RequestItems"].values())  # all our things are in one table
            return keys  # type: ignore[no-any-return]
        return asked["Entries"]  # type: ignore[no-any-return]


Fault = Callable[[ProxiedCall, Forward], Awaitable[ProxiedAnswer | None]]


@dataclass(slots=True)
class _Rule:
    operation: str
    fault: Fault
    after: int
    times: int | None

    def strikes(self, operation: str) -> bool:
        if not fnmatchcase(operation, self.operation) or self.times == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Proxy:
    """In front of `target`, on a port of its own of 127.0.0.1. Each request takes `latency` seconds longer."""

    def __init__(self, target: str, latency: float = 0.0) -> None:
        self.target = target
        self.latency = latency
        self.url = ""
        self.counts: Counter[str] = Counter()
        self._rules: list[_Rule] = []

    def fail(self, operation: str, fault: Fault, *, after: int = 0, times: int | None = 1) -> None:
        """Let requests of this operation, or pattern of operations, fail: `after` that many, `times` of them or all
        (None)."""
        self._rules.append(_Rule(operation, fault, after, times))

    def heal(self) -> None:
        """Nothing fails any more."""
        self._rules.clear()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = _call(request, await request.read())
        self.counts[call.operation] += 1
        if self.latency:
            await asyncio.sleep(self.latency)

        async def forward(body: bytes) -> ProxiedAnswer:
            headers = {name: text for name, text in request.headers.items() if name.lower() not in NOT_PASSED_ON}
            url = f"{self.target}{request.raw_path}"
            async with self._session.request(request.method, url, headers=headers, data=body) as answer:
                kept = {name: text for name, text in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
                return ProxiedAnswer(answer.status, kept, await answer.read())

        struck = [rule.fault for rule in self._rules if rule.strikes(call.operation)]
        try:
            answered = await (struck[0](call, forward) if struck else forward(call.body))
        except aiohttp.ClientError:  # the engine is gone: so are we
            answered = None
        if answered is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        return web.Response(status=answered.status, headers=answered.headers, body=answered.body)


@contextmanager
def proxy_in_thread(target: str, latency: float = 0.0) -> Iterator[Proxy]:
    """A proxy that works while the caller waits for real processes."""
    proxy, ready = Proxy(target, latency), Future[asyncio.AbstractEventLoop]()
    stop = asyncio.Event()

    async def serve() -> None:
        async with proxy:
            ready.set_result(asyncio.get_running_loop())
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    loop = ready.result(timeout=120)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _call(request: web.BaseRequest, body: bytes) -> ProxiedCall:
    """Whose request it is: the service is named by the signature, the operation by a header or by the form."""
    target = request.headers.get("X-Amz-Target", "")
    scope = request.headers.get("Authorization", "").partition("Credential=")[2].partition(",")[0].split("/")
    service = (
        scope[-2] if len(scope) >= 2 else {"DynamoDB": "dynamodb", "AmazonSQS": "sqs"}.get(target.split("_")[0], "")
    )
    if target:
        return ProxiedCall(service, target.partition(".")[2], body)
    return ProxiedCall(service, "".join(parse_qs(body.decode(errors="replace")).get("Action", [request.path])), body)
