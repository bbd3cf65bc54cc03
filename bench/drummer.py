"""`python -m bench.drummer PORT WORKERS`: beats for workers over HTTP, as one process that does nothing else.

Reads an order a line, answers each with a line of JSON:

    one CONNECTIONS SECONDS          each connection sends one beat after the other
    batches CONNECTIONS SECONDS      the same, a hundred beats in each request
    paced CONNECTIONS SECONDS RATE   beats at fixed moments, whatever comes back; waits count from those moments

Connections are kept, none has two requests under way. Every worker has been registered with its first beat.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import cast

import uvloop

from bench.workers import key_of, scattered

BATCH = 100
LEASE = 60
TICK = 0.001  # seconds
LATE = 5.0  # seconds that answers may come after the end


class Connection(asyncio.Protocol):
    """One request at a time; `done` hears the status of its answer and its body."""

    def __init__(self) -> None:
        self._received = b""
        self.done: Callable[[bytes, bytes], None] = lambda status, body: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def post(self, path: str, body: bytes) -> None:
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        length = received.index(b"content-length: ") + 16
        if len(received) - end - 4 >= int(received[length : received.index(b"\r", length)]):
            self._received = b""
            self.done(received[9:12], received[end + 4 :])

    def close(self) -> None:
        self._transport.close()


class Drummer:
    """The workers, with the token of each, beating in a scattered order that meets all before it meets one again."""

    def __init__(self, port: int, workers: int) -> None:
        self._port = port
        self._tokens = [1] * workers
        self._order = scattered(workers)
        self._sent = 0
        self._accepted = self._refused = 0

    async def obey(self, order: str) -> dict[str, float]:
        name, connections, *numbers = order.split()
        self._accepted = self._refused = 0
        open_ = [await self._connect() for _ in range(int(connections))]
        try:
            seconds, *rate = map(float, numbers)
            if name == "paced":
                waits = await self._paced(open_, seconds, *rate)
                found = {"p50": _quantile(waits, 0.5), "p99": _quantile(waits, 0.99), "max": max(waits)}
            else:
                found = {"rate": await self._closed_loop(open_, seconds, BATCH if name == "batches" else 1)}
        finally:
            for connection in open_:
                connection.close()
        return found | {"accepted": self._accepted, "refused": self._refused}

    async def _connect(self) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", self._port)
        return connection

    async def _closed_loop(self, connections: list[Connection], seconds: float, size: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self._beat_on(one, began + seconds, size) for one in connections))
        return self._accepted / (time.perf_counter() - began)

    async def _beat_on(self, connection: Connection, end: float, size: int) -> None:
        finished = asyncio.get_running_loop().create_future()

        def go_on() -> None:
            if time.perf_counter() < end:
                self._send(connection, size, go_on)
            else:
                finished.set_result(None)

        go_on()
        async with asyncio.timeout(end - time.perf_counter() + LATE):
            await finished

    async def _paced(self, connections: list[Connection], seconds: float, rate: float) -> list[float]:
        free, due = deque(connections), deque[float]()
        waits: list[float] = []
        began = time.perf_counter()
        wanted, number = int(seconds * rate), 0

        def send_what_is_due() -> None:
            while free and due:
                connection, at = free.popleft(), due.popleft()

                def answered(connection: Connection = connection, at: float = at) -> None:
                    waits.append(time.perf_counter() - at)
                    free.append(connection)
                    send_what_is_due()

                self._send(connection, 1, answered)

        async with asyncio.timeout(seconds + LATE):
            while len(waits) < wanted:
                now = time.perf_counter()
                while number < wanted and (at := began + number / rate) <= now:
                    due.append(at)
                    number += 1
                send_what_is_due()
                await asyncio.sleep(TICK)
        return waits

    def _send(self, connection: Connection, size: int, answered: Callable[[], None]) -> None:
        chosen = [self._order(self._sent + place) for place in range(size)]
        self._sent += size

        def done(status: bytes, body: bytes) -> None:
            refused = size if status != b"200" else body.count(b'"error"')
            self._refused += refused
            self._accepted += size - refused
            for number in chosen:
                self._tokens[number] += 1
            answered()

        connection.done = done
        beats = [self._beat(number) for number in chosen]
        if size == 1:
            connection.post("/v1/heartbeats", beats[0].encode())
        else:
            connection.post("/v1/heartbeats/batch", f'{{"heartbeats":[{",".join(beats)}]}}'.encode())

    def _beat(self, number: int) -> str:
        token = self._tokens[number]
        return (
            f'{{"workerInstanceKey":"{key_of(number)}","token":{token},"leaseSeconds":{LEASE},'
            f'"requestId":"{number * 65536 + token:016x}"}}'
        )


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def main(port: int, workers: int) -> None:
    drummer = Drummer(port, workers)
    while order := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await drummer.obey(order)), flush=True)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
