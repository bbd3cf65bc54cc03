"""What operators order: pause, resume, drain and rotate. Each needs the scope operate, and changes nothing with
`dry_run`."""

from collections.abc import Sequence

from bullpen.client.base import Methods
from bullpen.schema.pause import (
    DrainInstances,
    OperateAnswer,
    PauseAnswer,
    PauseList,
    PausePool,
    ResumePool,
    RotatePool,
)


class OperateMethods(Methods):
    async def pauses(self) -> list[PauseAnswer]:
        """The pauses in force; that of the whole pool first."""
        return (await self._get("/v1/pauses", PauseList)).pauses

    async def pause(self, note: str, resource_class: str = "", *, dry_run: bool = False) -> OperateAnswer:
        """Start nothing new in a class, or without one in the whole pool."""
        return await self._post("/v1/pause", OperateAnswer, PausePool(note, resource_class, dry_run))

    async def resume(self, resource_class: str = "", *, dry_run: bool = False) -> OperateAnswer:
        """End the pause of a class, or without one that of the whole pool."""
        return await self._post("/v1/resume", OperateAnswer, ResumePool(resource_class, dry_run))

    async def drain(
        self, instances: Sequence[str] = (), resource_class: str = "", note: str = "", *, dry_run: bool = False
    ) -> OperateAnswer:
        """Let these instances, or all of a class, take no new run, and end them once they are free. Raise NotFound."""
        body = DrainInstances(tuple(instances), resource_class, note, dry_run)
        return await self._post("/v1/drain", OperateAnswer, body)

    async def rotate(self, resource_class: str = "", *, dry_run: bool = False) -> OperateAnswer:
        """Replace every instance of a class, or without one of the whole pool."""
        return await self._post("/v1/rotate", OperateAnswer, RotatePool(resource_class, dry_run))
