"""Jobs that wait, by the CI's own list: for what neither a message nor a webhook shows.

GitHub does not announce a re-run of a completed run to a set without a registered runner. So while a set has none, its
holder lists the jobs that wait in the set's repositories, every `github.poll` seconds, and notes their labels as a
webhook would (queued_labels.py). A set for every repository of an organisation has no such list.

All sets of a repository's scope share one list, and without a webhook it also shows the jobs that ask for a label which
no set has. There the holder of one set lists for all of them, whatever runners they have (controller.py).
"""

import asyncio
from collections.abc import Callable, Sequence

from bullpen.errors import BullpenError, Outdated, Throttled, Unavailable
from bullpen.model.scale_set import ScaleSet
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

REPOSITORIES = 2  # of one look; the next one goes on with those that follow
RUNS = 10  # of one repository: with two lists of runs, a look makes at most 24 requests
REFUSED = 600.0  # seconds for which a repository is left out whose runs the credentials may not list
TRIED = 7200.0  # seconds for which a job that waits is noted: one that no runner gets must not keep a runner for ever

log = get_logger("bullpen.scale_sets")


class QueuedRuns:
    """`lists` says whether the CI is asked now. `on_queued` is called with the labels of a job, and its repository."""

    def __init__(
        self,
        ports: Ports,
        current: Callable[[], ScaleSet],
        lists: Callable[[], bool],
        on_queued: Callable[[Sequence[str], str], object],
        every: float,
    ) -> None:
        self._ports = ports
        self._current = current
        self._lists = lists
        self._on_queued = on_queued
        self._every = every
        self._begin = 0  # the repository at which the next look begins
        self._refused: dict[str, float] = {}
        self._since: dict[str, dict[int, float]] = {}  # by repository: since when each job is listed

    async def run(self) -> None:
        """Look until it is cancelled. After a new session a runner waits for such jobs anyway. Raise Outdated."""
        pause = self._every
        while True:
            await asyncio.sleep(pause)
            pause = max(self._every, await self.look())

    async def look(self) -> float:
        """One look; returns for how many seconds the CI asks not to be asked again."""
        if not self._lists():
            return 0.0
        for name in self._chosen():
            try:
                jobs = await self._ports.workflows.waiting_jobs(name, RUNS)
            except Outdated:
                raise
            except Throttled as exc:
                return exc.retry_after
            except Unavailable as exc:
                log.debug("queued jobs cannot be listed", repository=name, error=exc)
                return 0.0
            except BullpenError as exc:
                log.warning("queued jobs cannot be listed", set=self._current().name, repository=name, error=exc)
                self._refused[name] = self._time() + REFUSED
                continue
            self._note(name, {job.id: job.labels for job in jobs})
        return 0.0

    def _chosen(self) -> Sequence[str]:
        """The repositories of this look."""
        names = [*dict.fromkeys(one.name for one in self._current().rules.repositories)]
        names = [name for name in names if self._time() >= self._refused.get(name, 0.0)]
        if not names:
            return ()
        begin = self._begin % len(names)
        self._begin = begin + REPOSITORIES
        return [*names[begin:], *names[:begin]][:REPOSITORIES]

    def _note(self, repository: str, labels: dict[int, tuple[str, ...]]) -> None:
        time, before = self._time(), self._since.get(repository, {})
        self._since[repository] = since = {id: before.get(id, time) for id in labels}
        for asked in dict.fromkeys(asked for id, asked in labels.items() if time - since[id] < TRIED):
            self._on_queued(asked, repository)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()
