"""Logs every change of a record that this process lands, once each, wherever it is made.

Most steps are of interest only to a reader who follows one record: debug. What ends a provision or an instance is info.
A lost lease and a lost job are warnings.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from bullpen.errors import Conflict
from bullpen.model import instance, job, provision, repository, rotation, worker
from bullpen.model import pause as pauses
from bullpen.model.transition import Change, Check, StoryLine
from bullpen.ports.store import Records
from bullpen.structured_log import get_logger

log = get_logger("bullpen.records")

LEVELS: dict[tuple[type[Any], str], tuple[int, str]] = {
    (provision.Provision, provision.open_.step): (logging.INFO, "provision opened"),
    (provision.Provision, provision.commit.step): (logging.INFO, "provision committed"),
    (provision.Provision, provision.abort.step): (logging.INFO, "provision aborted"),
    (provision.Provision, provision.revoke.step): (logging.WARNING, "provision revoked"),
    (instance.Instance, instance.expire.step): (logging.INFO, "instance discarded"),
    (instance.Instance, instance.drain.step): (logging.INFO, "instance drained"),
    (pauses.Pause, pauses.pause.step): (logging.INFO, "paused"),
    (pauses.Pause, pauses.resume.step): (logging.INFO, "resumed"),
    (rotation.Rotation, rotation.rotate.step): (logging.INFO, "rotation began"),
    (rotation.Rotation, rotation.finish.step): (logging.INFO, "rotation is over"),
    (worker.Worker, worker.lose_lease.step): (logging.WARNING, "lease lost"),
    (job.Job, job.reschedule.step): (logging.WARNING, "job rescheduled"),
    (repository.Repository, repository.see.step): (logging.INFO, "repository seen for the first time"),
    (repository.Repository, repository.meet.step): (logging.WARNING, "repository was created again"),
    (job.Job, job.give_up.step): (logging.INFO, "job given up"),
}
"""By kind of record and step: the level, and the event of the line. All others are debug: "state changed"."""


def with_change_log(records: Records) -> Records:
    """The same records, whose landed changes are logged."""
    return cast(Records, _LoggedRecords(records))


class _LoggedRecords:
    def __init__(self, records: Records) -> None:
        self._records = records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        landed = await self._records.apply(*changes, checks=checks)
        _report(changes)
        return landed

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        landed = await self._records.apply_each(changes)
        _report(change for change, one in zip(changes, landed, strict=True) if not isinstance(one, Conflict))
        return landed


def _report(changes: Iterable[Change[Any]]) -> None:
    with suppress(Exception):  # the changes have landed: a log that cannot be written must not make them look failed
        for change in changes:
            level, event = LEVELS.get((type(change.after), change.step), (logging.DEBUG, "state changed"))
            # A step without a line, as a heartbeat, is so frequent that the record's story leaves it out too.
            if change.line is not None and log.isEnabledFor(level):
                log.log(level, event, **_fields(change, change.line))


def _fields(change: Change[Any], line: StoryLine) -> dict[str, Any]:
    return {
        type(change.after).__name__.lower(): change.after.id,
        "run": getattr(change.after, "run_id", "") or getattr(change.before, "run_id", "") or None,
        "step": change.step.rstrip("_"),
        "state": f"{change.before.state}->{change.after.state}" if change.before.version else str(change.after.state),
        "by": line.by,
        "reason": line.why or None,
    }
