"""What happened to a record: its last steps, and those of everything that a run, a scale set or a worker has."""

from datetime import datetime

from bullpen.config import Settings
from bullpen.errors import ConfigError, NotFound, Refused
from bullpen.inventory.instance_views import activities, leaving_at
from bullpen.lazy_dataclass import dataclass
from bullpen.model import pause as pauses
from bullpen.model import rotation, scale_set, set_session
from bullpen.model.activity import Activity
from bullpen.model.instance import TERMINATED, Instance
from bullpen.model.job import Job
from bullpen.model.limits import SUBJECT_LENGTH
from bullpen.model.pause import Pause
from bullpen.model.provision import Provision
from bullpen.model.repository import ID_PREFIX, Repository
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.transition import StoryLine
from bullpen.model.worker import Worker
from bullpen.ports import Ports
from bullpen.settings.redaction import shortened

JOBS = 500  # of a run: the first ones
PROVISIONS = 20  # of a run: the newest

AnyRecord = Instance | Provision | Worker | Job | Repository | ScaleSet | SetSession | Pause | Rotation


@dataclass(frozen=True, slots=True)
class Story:
    """What is left of a record (None once purged) and its last steps, oldest first.

    Of an instance or a worker, `leaving` is when its machine is to be interrupted, if that was reported; of a living
    instance `activity` is the job that a CI with jobs of its own runs there.
    """

    id: str
    record: AnyRecord | None
    lines: tuple[StoryLine, ...]
    leaving: datetime | None = None
    activity: Activity | None = None


async def stories(ports: Ports, settings: Settings, subject: str) -> list[Story]:
    """The story of an instance, provision, job or worker by id, of a repository, or of a scale set and its session, by
    name, or of all that a run has.

    Raise NotFound, and ConfigError for what no id can be.
    """
    if not 0 < len(subject) <= SUBJECT_LENGTH or not subject.isprintable():  # DynamoDB refuses such a key
        allowed = f"1 to {SUBJECT_LENGTH} printable characters"
        raise ConfigError(
            f"subject {shortened(subject)!r}: must be {allowed}", field="subject", value=subject[:40], allowed=allowed
        )
    records = await _records(ports, subject)
    live = [id for id, one in records.items() if isinstance(one, Instance) and one.state is not TERMINATED]
    jobs = activities(ports, settings, await ports.signals.read(live)) if settings.on_github and live else {}
    lines = await ports.records.stories([*records])
    leaving = await leaving_at(ports) if any(isinstance(one, Instance) for one in records.values()) else {}
    found = [
        Story(
            id,
            record,
            tuple(lines.get(id, ())),
            record.leaving if isinstance(record, Worker) else leaving.get(id),
            jobs.get(id),
        )
        for id, record in records.items()
    ]
    found = [story for story in found if story.record or story.lines]
    if not found and await ports.records.known([subject]):
        raise Refused(
            f"{subject}: there is a record, and this program cannot read it",
            remedy="A newer Bullpen or another program wrote it: use that one, or repair or delete the item.",
        )
    if not found:
        raise NotFound(
            f"{subject}: no such instance, provision, job, worker, scale set, run, repository, pause or rotation",
            remedy="Run `bullpen status` to list what there is; ended records are forgotten after timings.purge.",
        )
    return found


async def _records(ports: Ports, subject: str) -> dict[str, AnyRecord | None]:
    if subject.startswith("i-") and (instance := (await ports.records.instances([subject])).get(subject)):
        return {subject: instance}
    if subject.startswith("p-") and (provision := await ports.records.provision(subject)):
        return {subject: provision}
    if subject.startswith("j-") and (job := (await ports.jobs.jobs([subject])).get(subject)):
        return {subject: job}
    if subject.startswith((pauses.ID_PREFIX, rotation.ID_PREFIX)):
        return await _of_operators(ports, subject)
    # Workers of other programs have keys of any form: one may be called as a run is.
    worker = (await ports.workers.workers([subject])).get(subject)
    if worker is not None and "/" in subject:
        return {subject: worker}
    if "/" in subject and (seen := await ports.records.repositories([subject.removeprefix(ID_PREFIX)])):
        return {one.id: one for one in seen.values()}
    of_run: list[AnyRecord] = [
        *([worker] if worker is not None else []),
        *await _of_set(ports, subject),
        *await ports.records.told_provisions(subject, PROVISIONS),
        *await ports.records.run_instances(subject),
        *await ports.jobs.of_run(subject, JOBS),
    ]
    return {record.id: record for record in of_run} or {subject: None}


async def _of_operators(ports: Ports, subject: str) -> dict[str, AnyRecord | None]:
    """The pause or the rotation with this id."""
    found: list[AnyRecord] = [*await ports.records.pauses(), *(await ports.records.rotations()).values()]
    return {subject: next((one for one in found if one.id == subject), None)}


async def _of_set(ports: Ports, subject: str) -> list[ScaleSet | SetSession]:
    """The records of a set, by its name or by the id of one of them."""
    name = subject.removeprefix(scale_set.ID_PREFIX).removeprefix(set_session.ID_PREFIX)
    found = (await ports.records.scale_sets()).get(name), (await ports.records.set_sessions()).get(name)
    return [one for one in found if one is not None]
