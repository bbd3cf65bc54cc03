"""The world outside of the control plane, for the rows on the AWS engines: DynamoDB Local, ElasticMQ and a simulator of
EC2, each as a process on loopback, and the proxy in front of all three that counts requests and makes them slow."""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import botocore.session

from bullpen.config import Aws
from fakes.ec2.control import Control
from fakes.ec2.running import running as cloud_running
from fakes.java_engines import Engines
from fakes.java_engines import running as engines_running

ROOT = Path(__file__).parents[1]

# An invalid account: no row may use a real one, even if the environment has credentials.
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass(frozen=True, slots=True)
class Count:
    """What the control plane asked for: by service and operation, DynamoDB's units, indexes included, and the length of
    the longest chain of requests of which each began after the one before had been answered."""

    requests: dict[str, int]
    units: dict[str, float]
    hops: int

    @property
    def total(self) -> int:
        return sum(self.requests.values())

    def of(self, service: str) -> int:
        return sum(count for name, count in self.requests.items() if name.startswith(f"{service} "))


class World:
    """`direct` leads to the engines themselves, for whatever is not to be counted; `counted` through the proxy."""

    def __init__(self, engines: Engines, cloud: Control, proxy: "subprocess.Popen[str]") -> None:
        assert proxy.stdin
        assert proxy.stdout
        self._ask, self._answers = proxy.stdin, proxy.stdout
        common = cloud.settings()
        own = {"dynamodb": engines.dynamodb, "sqs": engines.sqs}
        self.direct = Aws(**common | {"endpoints": common["endpoints"] | own})
        self.counted = Aws(**common | {"endpoints": common["endpoints"] | json.loads(self._answers.readline())})

    def count(self, latency: float = 0.0, *, metered: bool = False) -> Count:
        """What was counted since the last call. From now on each request takes `latency` seconds longer; `metered`:
        its units are counted too, which takes the proxy a little time."""
        print(json.dumps({"latency": latency, "metered": metered}), file=self._ask, flush=True)
        return Count(**json.loads(self._answers.readline()))


@contextmanager
def running(engines: Engines | None = None) -> Iterator[World]:
    """The whole world, or the rest of it beside engines that run already. Raise ToolsMissing without Java."""
    with ExitStack() as stack:
        stack.enter_context(_account())
        if engines is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bullpen-bench-"))
            engines = stack.enter_context(engines_running(Path(folder)))
        cloud = stack.enter_context(cloud_running())
        command = [sys.executable, "-m", "bench.aws_proxy", engines.dynamodb, engines.sqs, cloud.url]
        pipe = subprocess.PIPE
        proxy = stack.enter_context(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
        yield World(engines, cloud, proxy)


@functools.cache
def shared() -> World:
    """One world for all measurements of this process, for a JVM just started answers three times slower. Everything in
    it ends when its standard input closes, which happens whenever this process ends."""
    stack = ExitStack()
    world = stack.enter_context(running())
    atexit.register(stack.close)
    return world


@contextmanager
def _account() -> Iterator[None]:
    before = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in before:
        del os.environ[name]
    os.environ.update(ACCOUNT)
    # AWS's service descriptions are megabytes of JSON, and every session would read them again.
    create_loader = botocore.session.create_loader
    botocore.session.create_loader = functools.cache(create_loader)
    try:
        yield
    finally:
        botocore.session.create_loader = create_loader
        for name in ACCOUNT:
            del os.environ[name]
        os.environ.update(before)
