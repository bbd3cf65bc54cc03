"""Runs: operations provision and release their runners. The server carries them out, and the client awaits them."""

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from bullpen.client.base import PAGE, Methods, drawn_key, part
from bullpen.client.transport import HttpRequest
from bullpen.errors import BullpenError, FailureCause, Interrupted, ProvisionFailed, Unavailable
from bullpen.model.provision import RunState
from bullpen.schema.operation import (
    Operation,
    OperationKind,
    OperationList,
    OperationState,
    ProgressAnswer,
    ProvisionOperation,
    ReleaseOperation,
)
from bullpen.schema.provision import ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.schema.requests import ProvisionRun
from bullpen.schema.run import RunAnswer, RunPage, RunSummary

FIRST_LOOK, LONGEST_LOOK, GROWTH = 0.1, 1.0, 1.3  # seconds between two looks at an operation
ANY_OPERATION: type[Operation] = ProvisionOperation | ReleaseOperation  # type: ignore[assignment]  # as msgspec takes it
Watch: TypeAlias = Callable[[ProgressAnswer], None]
"""Takes what an operation reports of its progress."""


class RunMethods(Methods):
    async def provision(self, run_id: str, wanted: ProvisionRun, *, progress: Watch | None = None) -> ProvisionAnswer:
        """Get runners for a run, all or nothing, and wait for them. If it is not met, everything
        acquired was given back. Raise ProvisionFailed, or Unavailable if a retry may help."""
        ended = await self.wait(await self.begin_provision(run_id, wanted), progress=progress)
        if not isinstance(ended, ProvisionOperation) or ended.result is None or ended.reason:
            raise failure_of(ended)
        return ended.result

    async def begin_provision(self, run_id: str, wanted: ProvisionRun, *, key: str = "") -> Operation:
        """Begin a provision, and do not wait for its end. The same key begins it once; without one, a key is drawn."""
        return await self._post(f"/v1/runs/{part(run_id)}/provision", ANY_OPERATION, wanted, key or drawn_key())

    async def release(self, run_id: str, *, progress: Watch | None = None) -> ReleaseAnswer:
        """Give the runners of a run back, and wait until they are clean and on offer again."""
        ended = await self.wait(await self.begin_release(run_id), progress=progress)
        if not isinstance(ended, ReleaseOperation) or ended.result is None:
            raise failure_of(ended)
        return ended.result

    async def begin_release(self, run_id: str, *, key: str = "") -> Operation:
        """Begin a release, and do not wait for its end. The same key begins it once; without one, a key is drawn."""
        return await self._post(f"/v1/runs/{part(run_id)}/release", ANY_OPERATION, key=key or drawn_key())

    async def run(self, run_id: str) -> RunAnswer:
        """A run's instances and jobs. Raise NotFound."""
        return await self._get(f"/v1/runs/{part(run_id)}", RunAnswer)

    async def runs(self, *, state: RunState | None = None, resource_class: str = "") -> AsyncIterator[RunSummary]:
        """The runs that the pool serves, or is asked to serve, read page by page."""
        after = ""
        while True:
            page = await self.run_page(state=state, resource_class=resource_class, after=after)
            for one in page.runs:
                yield one
            if not (after := page.next):
                return

    async def run_page(
        self, *, state: RunState | None = None, resource_class: str = "", limit: int = PAGE, after: str = ""
    ) -> RunPage:
        """Some of them; `after` is `next` of the page before."""
        asked = {"state": state.value if state else "", "resourceClass": resource_class, "after": after}
        return await self._get("/v1/runs", RunPage, limit=limit, **asked)

    async def operations(
        self, *, state: OperationState | None = None, kind: OperationKind | None = None, run_id: str = ""
    ) -> AsyncIterator[Operation]:
        """Operations, read page by page."""
        after = ""
        while True:
            page = await self.operation_page(state=state, kind=kind, run_id=run_id, after=after)
            for one in page.operations:
                yield one
            if not (after := page.next):
                return

    async def operation_page(
        self,
        *,
        state: OperationState | None = None,
        kind: OperationKind | None = None,
        run_id: str = "",
        limit: int = PAGE,
        after: str = "",
    ) -> OperationList:
        """Some of them; `after` is `next` of the page before."""
        asked = {"state": state.value if state else "", "kind": kind.value if kind else "", "runId": run_id}
        return await self._get("/v1/operations", OperationList, limit=limit, after=after, **asked)

    async def operation(self, operation_id: str) -> Operation:
        """Raise NotFound."""
        return await self._get(f"/v1/operations/{part(operation_id)}", ANY_OPERATION)

    async def wait(self, operation: Operation, *, progress: Watch | None = None) -> Operation:
        """The operation as it ended."""
        pause = FIRST_LOOK
        while operation.state is OperationState.RUNNING:
            if progress is not None and operation.progress is not None:
                progress(operation.progress)
            await self._requester.transport.pause(pause)
            pause = min(LONGEST_LOOK, pause * GROWTH)
            operation = await self.operation(operation.id)
        return operation

    async def stop_operation(self, operation_id: str) -> Operation:
        """Ask an operation to stop and to give back what it holds. It may take a while: `wait` for it."""
        return await self._requester.ask(HttpRequest("DELETE", f"/v1/operations/{part(operation_id)}"), ANY_OPERATION)


def failure_of(ended: Operation) -> BullpenError:
    """Why an operation has no result, or not the one that was asked for."""
    says = f"{ended.run_id}: {ended.reason or f'the operation is {ended.state.value}'}"
    remedy = ended.remedy
    if ended.state is OperationState.LOST:
        return Unavailable(says, remedy="Ask again: what was acquired is used, and nothing is left behind.")
    match ended.cause:
        case FailureCause.UNAVAILABLE:
            return Unavailable(says, remedy=remedy)
        case FailureCause.INTERRUPTED:
            return Interrupted(says, remedy=remedy)
    return ProvisionFailed(says, remedy=remedy)
