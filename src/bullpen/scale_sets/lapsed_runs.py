"""The runs of jobs that the CI has taken back: once a run has ended, no job of it waits.

The CI sends no message about a job that no set has. So a user who cancels a run whose job was taken back would see that
job wait for a day.
"""

import asyncio

from bullpen.errors import BullpenError, NotFound, Outdated
from bullpen.ports import Ports
from bullpen.scale_sets.job_board import JobBoard, RunKey
from bullpen.structured_log import get_logger

EVERY = 300.0  # seconds between two looks: the CI takes an assignment back after so many
AT_ONCE = 25  # runs of one look, 300 requests an hour; the next look goes on with the others

log = get_logger("bullpen.scale_sets")


class LapsedRuns:
    def __init__(self, ports: Ports, board: JobBoard) -> None:
        self._ports = ports
        self._board = board
        self._looks: dict[RunKey, int] = {}

    async def run(self) -> None:
        """Look until it is cancelled. Raise Outdated."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look()

    async def look(self) -> None:
        self._looks = {key: self._looks.get(key, 0) for key in self._board.lapsed_runs()}
        for key in sorted(self._looks, key=lambda key: self._looks[key])[:AT_ONCE]:
            self._looks[key] += 1
            try:
                has_ended = (await self._ports.workflows.run(*key)).completed
            except Outdated:
                raise
            except NotFound:  # deleted with its jobs
                has_ended = True
            except BullpenError as exc:
                log.debug("run of a job cannot be asked for", repository=key[0], run=key[1], error=exc)
                continue
            if has_ended:
                self._board.forget_runs([key])
