"""Ids of the repositories that scale sets name: from the records, or else from the CI, which is asked once.

    recorded ─▶ the id that Bullpen saw first under this name, whichever repository has the name now
    unknown  ─▶ the CI says which repository has the name now: that is the first sight of it, and it is recorded

So the rules of a set have ids before the set gets its first runner, without a webhook. A repository that the CI does
not show is known by its name until it does: it may be misspelt, or the credentials may not see it.
"""

import asyncio
from collections.abc import Sequence

from bullpen.errors import BullpenError, Outdated, Unavailable
from bullpen.model.scale_set import SetRepository
from bullpen.pool import repositories
from bullpen.ports import Ports
from bullpen.structured_log import get_logger

ASKED_AGAIN = 600.0  # seconds after an answer that shows no repository: an operator changes that, seldom
RETRIED = 60.0  # seconds after no answer
REMEDY = "Correct `repositories` of the set, let the credentials see it, or write its id there: OWNER/NAME/ID."

log = get_logger("bullpen.scale_sets")


class RepositoryIds:
    """A process keeps one of these, so that it asks for a repository that the CI does not show only now and then."""

    def __init__(self, ports: Ports, by: str) -> None:
        self._ports = ports
        self._by = by
        self._ask_at: dict[str, float] = {}
        self._silent_until = 0.0
        self._failures: dict[str, str] = {}

    async def known(self, names: Sequence[str], *, notes: bool = True) -> list[SetRepository]:
        """Those of these repositories whose id is known. With `notes`, what the CI answers is recorded. Raise as the
        store does; an error of the CI is logged, and its repositories are left out."""
        recorded = await self._ports.records.repositories(names) if names else {}
        found = {name: recorded[key].ci_id for name in names if (key := name.casefold()) in recorded}
        for name in [name for name in names if name not in found]:
            if not self._may_ask(name):
                continue
            try:
                seen = await self._ports.workflows.repository_id(name)
            except Outdated:
                raise
            except BullpenError as failure:
                self._fail(name, failure)
                continue
            found[name] = (await repositories.see(self._ports, name, seen, self._by)).ci_id if notes else seen
        return [SetRepository(name, id) for name, id in found.items()]

    def _may_ask(self, name: str) -> bool:
        return asyncio.get_running_loop().time() >= max(self._silent_until, self._ask_at.get(name.casefold(), 0.0))

    def _fail(self, name: str, failure: BullpenError) -> None:
        key, why, time = name.casefold(), str(failure), asyncio.get_running_loop().time()
        if isinstance(failure, Unavailable):  # it does not answer for the others either
            self._silent_until = time + RETRIED
        else:
            self._ask_at[key] = time + ASKED_AGAIN
        if self._failures.get(key) != why:
            log.warning("scale sets know a repository by its name", repository=name, error=why, remedy=REMEDY)
        self._failures[key] = why
