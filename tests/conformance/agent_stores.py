"""The three ways in which an agent reaches the store, each with its real other side.

    sqlite      the file that the control plane writes too
    http        the server's application on a socket of loopback, with that file behind it
    dynamodb    a table on DynamoDB Local

Tests prepare and look at the store through the control plane's ports, so that what an agent writes counts only if the
control plane reads it so. Agents get their configuration as a launch writes it: from the settings, through agent.json.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import uvicorn

from builders import Walk, open_provision
from bullpen.agent.aws.dynamodb import DynamoDB
from bullpen.agent.config import Config, load
from bullpen.agent.progress import InstanceRecord
from bullpen.agent.store.base import AgentJobs, AgentStore
from bullpen.agent.store.dynamodb import DynamoStore
from bullpen.agent.store.http import HttpStore
from bullpen.agent.store.sqlite import SqliteStore
from bullpen.agent.wakeup import ThreadWakeup
from bullpen.config import Settings
from bullpen.engines.aws.boot import userdata
from bullpen.engines.aws.dynamodb.direct_beats import accept
from bullpen.engines.local import launch
from bullpen.engines.system import SystemClock
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.signal import Signal
from bullpen.model.transition import Change
from bullpen.model.worker import Worker
from bullpen.ports import Ports
from bullpen.server.protocol import connections_for
from conformance import engines
from conformance.engines import Opened
from conformance.leases import lose, submit
from fakes.aws_fixtures import MakeSettings
from free_ports import a_free_port
from server.fixtures import House, a_house

T = TypeVar("T")
PATIENCE = 120.0  # seconds; what is waited for takes far less
KEYS = ("key", "not-a-secret", "")


@dataclass
class Side:
    """A control plane on one store, and what opens an agent's way to it.

    `tell` is what a launch writes into agent.json; `connect` makes the store of such a configuration. `adopt` lets the
    control plane go by other settings, where it has a process of its own.
    """

    ports: Ports
    loop: asyncio.AbstractEventLoop
    directory: Path
    settings: Settings
    tell: Callable[[str, Settings], dict[str, Any]]
    connect: Callable[[Config], AgentStore]
    nowhere: dict[str, Any]  # of a configuration that leads to no store
    adopt: Callable[[Settings], object] = lambda settings: None
    opened: list[AgentStore] = field(default_factory=list)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    # ---------------------------------------------------------------------------------------------------------- agents

    def store(self, instance_id: str = "i-1", **told: Any) -> AgentStore:
        """As an agent of this instance opens it when it starts; `told` is added to its agent.json."""
        place = self.directory / instance_id
        place.mkdir(exist_ok=True)
        content = {**self.tell(instance_id, self.settings), **told}
        (place / "agent.json").write_text(json.dumps(content))
        store = self.connect(load(place / "agent.json"))
        self.opened.append(store)
        return store

    def go_by(self, **liveness: Any) -> None:
        """Other settings from now on, for the control plane and for agents that start later."""
        changed = msgspec.structs.replace(self.settings.liveness, **liveness)
        self.settings = msgspec.structs.replace(self.settings, liveness=changed)
        self.adopt(self.settings)

    def close(self) -> None:
        for store in self.opened:
            store.close()

    # ---------------------------------------------------------------------------------------------------- control plane

    def apply(self, *changes: Change[Any]) -> Any:
        """Write them one after another; returns the last record."""
        landed: Any = None
        for change in changes:
            (landed,) = self.wait_for(self.ports.records.apply(change))
        return landed

    def put(self, walk: Walk) -> Instance:
        """Let an instance come as far as the walk goes."""
        if not self.wait_for(self.ports.records.run_provisions("run-1")):
            self.apply(open_provision())
        landed: Instance = self.apply(*walk)
        return landed

    def submit(self, job_id: str = "j-1", **changed: Any) -> None:
        self.apply(submit(job_id, **changed))

    def job(self, job_id: str = "j-1") -> Job:
        return self.wait_for(self.ports.jobs.jobs([job_id]))[job_id]

    def worker(self, key: str) -> Worker:
        return self.wait_for(self.ports.workers.workers([key]))[key]

    def signal(self, instance_id: str = "i-1") -> Signal | None:
        return self.wait_for(self.ports.signals.read([instance_id]))[instance_id].signal

    def registrations(self) -> list[tuple[str, str]]:
        return [(one.name, one.label) for one in self.wait_for(self.ports.ci.registrations())]

    def lose(self, key: str, **changed: Any) -> None:
        """What a sweeper does to a worker whose lease ran out; it first accepts a beat that no server has accepted."""
        worker = self.worker(key)
        if worker.deadline is None and (change := accept(worker, datetime.now(UTC))) is not None:
            worker = self.apply(change)
        assert worker.deadline is not None
        self.apply(lose(worker, worker.deadline, **changed))


def jobs_of(store: AgentStore) -> AgentJobs:
    assert store.jobs is not None
    return store.jobs


def record_of(instance: Instance) -> InstanceRecord:
    """What an agent is to read of it."""
    owned = (instance.state.value, instance.run_id, instance.round, instance.threshold.timestamp(), instance.attested)
    return InstanceRecord(*owned, instance.trust_domain, repository=instance.repository)  # type: ignore[arg-type]


@contextmanager
def sqlite(directory: Path) -> Iterator[Side]:
    settings = Settings()
    with _on_a_thread(engines.sqlite(directory)) as (opened, loop):
        yield Side(
            opened.ports,
            loop,
            directory,
            settings,
            tell=lambda id, settings: launch._told(directory, id, settings, "", ""),
            connect=SqliteStore,
            nowhere={"home": str(directory / "nowhere")},
        )


@contextmanager
def http(directory: Path) -> Iterator[Side]:
    bells: list[ThreadWakeup] = []
    stores: list[HttpStore] = []

    def connect(config: Config) -> AgentStore:
        bells.append(ThreadWakeup())
        stores.append(HttpStore(config, bells[-1]))
        return stores[-1]

    def tell(instance_id: str, settings: Settings) -> dict[str, Any]:
        told = msgspec.structs.replace(settings, agent=msgspec.structs.replace(settings.agent, serve_url=url))
        return launch._told(directory, instance_id, told, "", house.token(instance_id))

    with _on_a_thread(_served(directory)) as ((house, url), loop):
        yield Side(
            house.ports,
            loop,
            directory,
            Settings(),
            tell,
            connect,
            nowhere={"serve_url": f"http://127.0.0.1:{a_free_port()}"},
            adopt=lambda settings: loop.call_soon_threadsafe(house.app.adopt, settings),
        )
    for store in stores:
        if store._watcher is not None:
            store._watcher.join(PATIENCE)
    for bell in bells:
        bell.close()


@contextmanager
def dynamodb(directory: Path, make_settings: MakeSettings) -> Iterator[Side]:
    settings = make_settings()

    def connect(config: Config) -> AgentStore:
        return DynamoStore(config, DynamoDB("eu-central-1", lambda: KEYS, config.endpoint, PATIENCE), lambda: None)

    def tell(instance_id: str, settings: Settings) -> dict[str, Any]:
        return {**userdata.told(settings), "instance_id": instance_id, "home": str(directory), "imds": False}

    with _on_a_thread(engines.aws(make_settings)) as (opened, loop):
        nowhere = {"endpoint": f"http://127.0.0.1:{a_free_port()}"}
        yield Side(opened.ports, loop, directory, settings, tell, connect, nowhere)


@contextmanager
def _on_a_thread(opening: AbstractAsyncContextManager[T]) -> Iterator[tuple[T, asyncio.AbstractEventLoop]]:
    """Open it on a loop of its own: agents call and wait, and whatever answers them goes on meanwhile."""
    ready: Future[tuple[T, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def live() -> None:
        over = asyncio.Event()
        async with opening as opened:
            ready.set_result((opened, asyncio.get_running_loop(), over))
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as exc:
            if ready.done():
                raise
            ready.set_exception(exc)

    thread = threading.Thread(target=run, name="control plane")
    thread.start()
    opened, loop, over = ready.result(PATIENCE)
    try:
        yield opened, loop
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)


@asynccontextmanager
async def _served(directory: Path) -> AsyncIterator[tuple[House, str]]:
    async with engines.sqlite(directory) as opened, a_house(directory, ports=_with_a_clock(opened)) as house:
        listening = socket.create_server(("127.0.0.1", 0))
        kind = connections_for(house.app.heartbeats, house.app.gate, 100)
        config = uvicorn.Config(house.app, http=kind, ws="none", lifespan="off", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield house, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            with suppress(asyncio.CancelledError):
                await serving
            listening.close()


def _with_a_clock(opened: Opened) -> Ports:
    return replace(opened.ports, clock=SystemClock())
