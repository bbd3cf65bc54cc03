"""What every route works with, and how it finds the caller of a request."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from litestar import Request
from litestar.di import NamedDependency

from bullpen.auth.tokens import Keys, Operator, RunIdentity, Scope, Speaker
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.model import limits
from bullpen.model.instance import Instance
from bullpen.pool.live_instances import every_live
from bullpen.ports import Ports
from bullpen.ports.callers import Verifiers
from bullpen.refresh.action import Action
from bullpen.schema.operation import Operation, OperationState, ReleaseOperation
from bullpen.server.authentication import Doorkeeper, must_be_agent, must_be_operator, must_serve_run, unauthorized
from bullpen.server.events import Events
from bullpen.server.head import Head, head_of
from bullpen.server.load_limits import Admission
from bullpen.server.login_limits import LoginLimits
from bullpen.server.long_poll import LongPoll
from bullpen.server.metrics.exposition import Metrics
from bullpen.server.operations import Operations
from bullpen.server.problems import Problem
from bullpen.server.readiness import Readiness
from bullpen.server.runner_versions import RunnerVersions
from bullpen.server.shared_answers import is_of_page
from bullpen.settings.reloading import Reloader

REMEMBERED = 1000  # deliveries, and repositories

Asking: TypeAlias = Request[Any, Any, Any]


@dataclass(slots=True)
class Context:
    """One process's service, as its routes see it."""

    home: Path
    ports: Ports
    settings: Settings
    service: Service
    keys: Keys
    verifiers: Verifiers = field(default_factory=Verifiers)
    reloader: Reloader | None = None  # where the settings have a file that may change
    admission: Admission = field(default_factory=Admission)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    deliveries: deque[str] = field(default_factory=lambda: deque(maxlen=REMEMBERED))  # ids of GitHub's last webhooks
    repositories: deque[tuple[str, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED)
    )  # that webhooks named
    doorkeeper: Doorkeeper = field(init=False)
    operations: Operations = field(init=False)
    long_poll: LongPoll = field(init=False)
    events: Events = field(init=False)
    readiness: Readiness = field(init=False)
    runner_versions: RunnerVersions = field(init=False)
    logins: LoginLimits = field(default_factory=LoginLimits)
    metrics: Metrics = field(init=False)  # set by the application, which has what they count

    def __post_init__(self) -> None:
        self.doorkeeper = Doorkeeper(self.keys, self.ports.clock)
        self.operations = Operations(self.home, self.ports.clock, self.ports.chance, self._note_operation)
        self.long_poll = LongPoll(self.ports)
        self.events = Events(self.ports, self.operations)
        self.readiness = Readiness(self.ports)
        self.runner_versions = RunnerVersions(self.ports)

    def _note_operation(self, ended: Operation) -> None:
        """What was asked for over HTTP is part of the activity, as what the loops do."""
        verb = "release" if isinstance(ended, ReleaseOperation) else "provision"
        reason = ended.reason or f"requested over HTTP, {ended.state}"
        action = Action(verb, ended.run_id, reason, is_done=ended.state is OperationState.SUCCEEDED)
        self.service.activity.note("operations", [action])

    def speaker(self, request: Asking) -> Speaker:
        """The caller that `gate` admitted. Raise a 401 where an endpoint is open and the caller has no token."""
        speaker: Speaker | None = request.scope["state"]["speaker"]
        if speaker is None:
            raise unauthorized("a token is needed")
        return speaker

    def operator(self, request: Asking, scope: Scope) -> Operator:
        return must_be_operator(self.speaker(request), scope)

    @contextmanager
    def serving(self, request: Asking, scope: Scope) -> Iterator[Operator]:
        """Work for an operator whose scope includes this one. Raise a 403 for another caller, a 429 under load."""
        operator = self.operator(request, scope)
        with self.admission.work():
            yield operator

    def of_run(self, request: Asking, run_id: str, scope: Scope) -> Operator | RunIdentity:
        """Such an operator, or the workflow run of this label. Raise ConfigError for what no run id can be."""
        speaker = must_serve_run(self.speaker(request), run_id, scope)
        if not limits.is_run_id(run_id):
            allowed = limits.run_id_allowed()
            raise ConfigError(f"runId {run_id[:40]!r}: must be {allowed}", field="runId", value=run_id, allowed=allowed)
        return speaker

    @contextmanager
    def serving_run(self, request: Asking, run_id: str, scope: Scope) -> Iterator[Operator | RunIdentity]:
        """Work for one of these."""
        speaker = self.of_run(request, run_id, scope)
        with self.admission.work():
            yield speaker

    @contextmanager
    def serving_agent(self, request: Asking, instance_id: str, worker: str | None = None) -> Iterator[None]:
        """Work for the agent of this instance, and a worker of that if one is named."""
        must_be_agent(self.speaker(request), instance_id, worker)
        with self.admission.work():
            yield

    def check_agent(self, request: Asking, instance_id: str) -> None:
        must_be_agent(self.speaker(request), instance_id)

    def may_still(self, request: Asking, scope: Scope) -> bool:
        """Whether the operator of a request that is being answered would be admitted again now."""
        try:
            speaker = self.doorkeeper.identify(self.head(request))
            must_be_operator(speaker, scope)
        except Problem:
            return False
        return True

    async def live(self, request: Asking) -> list[Instance]:
        """Every live instance. A page of the dashboard, which shows the event stream, gets what that shows: then the
        pool is not read again for it."""
        shown = self.events.live() if is_of_page(request.scope) else None
        return await every_live(self.ports) if shown is None else shown

    def head(self, request: Asking) -> Head:
        """The headers by which the request was admitted."""
        head = head_of(request.scope["headers"])
        head.method = request.method
        return head

    async def close(self) -> None:
        """End what waits and what runs: long polls and streams at once, operations as a signal would."""
        self.stop.set()
        await self.long_poll.close()
        await self.events.close()
        await self.operations.close()


Ctx: TypeAlias = NamedDependency[Context]
"""The context as a route asks for it."""
