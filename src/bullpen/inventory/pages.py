"""Lists by id, in pages: `next` is where the next page begins, and is empty at the end.

Each page looks at a bounded number of records. Where many must be passed over because they do not fit, a page may hold
fewer than its limit, even none, and still have a next one.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from bullpen.jobs.queries import submission_order
from bullpen.lazy_dataclass import dataclass
from bullpen.model import job as jobs
from bullpen.model.instance import Instance, State
from bullpen.model.job import Job
from bullpen.ports import Ports

LOOKED_AT = 1000  # records that one page reads to find those that fit

R = TypeVar("R", Instance, Job)


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    records: tuple[R, ...]
    next: str = ""


async def instance_page(
    ports: Ports,
    limit: int,
    after: str = "",
    *,
    state: State | None = None,
    resource_class: str = "",
    run_id: str = "",
) -> Page[Instance]:
    """Instances that live or whose end is owed; of a run, those that live."""

    def fits(one: Instance) -> bool:
        return (state is None or one.state is state) and (not resource_class or one.resource_class == resource_class)

    if run_id:  # as many as a run may have: they are read at once
        read = [one for one in await ports.records.run_instances(run_id) if one.id > after]
        return _page(read, len(read) + 1, limit, fits)
    size = max(limit, LOOKED_AT) if state or resource_class else limit
    return _page(await ports.records.live(size, after), size, limit, fits)


async def job_page(
    ports: Ports, run_id: str, limit: int, after: str = "", *, state: jobs.State | None = None
) -> Page[Job]:
    """Jobs of a run. A page is in the order in which its jobs were submitted; the pages follow the ids."""
    size = max(limit, LOOKED_AT) if state else limit
    read = ports.jobs.unfinished if state in (jobs.QUEUED, jobs.RUNNING) else ports.jobs.of_run
    found = _page(await read(run_id, size, after), size, limit, lambda job: state is None or job.state is state)
    return Page(tuple(sorted(found.records, key=submission_order)), found.next)


def _page(read: Sequence[R], size: int, limit: int, fits: Callable[[R], bool]) -> Page[R]:
    """Those of `read` that fit, at most `limit`. `read` is all there is, unless it has `size` records."""
    fitting = [one for one in read if fits(one)]
    found = fitting[:limit]
    last = found[-1] if len(fitting) > limit else read[-1] if len(read) == size else None
    return Page(tuple(found), last.id if last else "")
