"""A trap: all requests of one command pass through it, and at the chosen one it kills the command with SIGKILL.

Either the request never reaches its service, or it does its work there and the answer comes too late. So
every moment between two requests is met exactly, on machines of any speed.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall, proxy_in_thread
from scenario.aws.pool import CloudPool, endpoints
from scenario.commands import Command


@dataclass
class Trap:
    """Counts requests, those of one operation or all; strikes at number `at`, counted from 1. 0 kills no process."""

    at: int
    lands: bool
    only: str = ""
    seen: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    victim: Command | None = None

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        if self.only in ("", call.operation):
            self.seen.append(call.operation)
            self.bodies.append(call.body)
            if len(self.seen) == self.at:
                if self.lands:
                    await forward(call.body)
                while self.victim is None:  # noqa: ASYNC110 (set by another thread, within milliseconds)
                    await asyncio.sleep(0.001)
                os.kill(self.victim.pid, signal.SIGKILL)
                return None
        return await forward(call.body)

    def catch(self, pool: CloudPool, *arguments: str) -> Command:
        """Start a command that goes through the trap."""
        self.victim = pool.start(*arguments, environ=self.environ)
        return self.victim


@contextmanager
def a_trap(pool: CloudPool, at: int = 0, *, lands: bool = False, only: str = "") -> Iterator[Trap]:
    """In front of all services. With `only` the requests of that operation are counted and no others."""
    trap = Trap(at, lands, only)
    with ExitStack() as stack:
        targets = {"dynamodb": pool.engines.dynamodb, "sqs": pool.engines.sqs, "ec2": pool.cloud.url}
        proxies = {name: stack.enter_context(proxy_in_thread(target)) for name, target in targets.items()}
        for proxy in proxies.values():
            proxy.fail("*", trap, times=None)
        trap.environ = endpoints({name: proxy.url for name, proxy in proxies.items()})
        yield trap
