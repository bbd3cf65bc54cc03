"""The way to the AWS engines as a process of its own, so that it takes nothing from the control plane that is measured.

    python -m bench.aws_proxy DYNAMODB SQS EC2      prints the three URLs that lead there, as JSON

Each line on its standard input, `{"latency": seconds, "metered": true or false}`, begins a new count; the answer is one
line with the last one: requests by service and operation, units of DynamoDB, as DynamoDB Local says it consumed them,
and sequential hops. It ends when its standard input does.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from aiohttp import web

from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall, Proxy

SERVICES = ("dynamodb", "sqs", "ec2")
READS = ("GetItem", "BatchGetItem", "Query")
WRITES = ("UpdateItem", "PutItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems")


Span = tuple[float, float]
"""When a request arrived, and when it was answered."""


class TimedProxy(Proxy):
    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.spans: list[Span] = []

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await super()._handle(request)
        self.spans.append((began, loop.time()))
        return answer


def sequential(spans: Iterable[Span]) -> int:
    """The most requests of which none overlaps another."""
    hops, free_at = 0, 0.0
    for began, ended in sorted(spans, key=lambda span: span[1]):
        if began >= free_at:
            hops, free_at = hops + 1, ended
    return hops


class Meter:
    """Asks DynamoDB to say what each request consumes, indexes included, and adds it up. Of a transaction DynamoDB
    Local names the units of one action: all actions of a transaction do the same here, so each counts as much."""

    def __init__(self) -> None:
        self.units: Counter[str] = Counter()

    def watch(self, proxy: Proxy) -> None:
        for operation in (*READS, *WRITES):
            proxy.fail(operation, self, times=None)

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        asked = json.loads(call.body) | {"ReturnConsumedCapacity": "INDEXES"}
        answer = await forward(json.dumps(asked).encode())
        consumed = json.loads(answer.body).get("ConsumedCapacity", [])
        tables = consumed if isinstance(consumed, list) else [consumed]
        kind = "read" if call.operation in READS else "write"
        self.units[kind] += sum(table["CapacityUnits"] for table in tables) * len(asked.get("TransactItems", [1]))
        return answer


async def serve(targets: list[str]) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    meter = Meter()
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(TimedProxy(target)) for target in targets]
        _say({service: proxy.url for service, proxy in zip(SERVICES, proxies, strict=True)})
        while line := await lines.readline():
            order = json.loads(line)
            named = zip(SERVICES, proxies, strict=True)
            counts = {f"{name} {what}": count for name, proxy in named for what, count in proxy.counts.items()}
            hops = sequential(span for proxy in proxies for span in proxy.spans)
            _say({"requests": counts, "units": dict(meter.units), "hops": hops})
            meter.units.clear()
            for proxy in proxies:
                proxy.counts.clear()
                proxy.spans.clear()
                proxy.latency = order["latency"]
                proxy.heal()
            if order["metered"]:
                meter.watch(proxies[0])


def _say(words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
