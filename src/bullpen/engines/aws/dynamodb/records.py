"""Instances, provisions, scale sets and repositories in DynamoDB. Writes are in `writes.py`; here are the queries.

An index is a hint that may lag: it says what to look at. Where it holds only keys, the items are then read (consistent,
a hundred at a time), and the model's own words decide whether they are what was asked for. An
unreadable item is left out, with a warning: it must not stop the pool. `known` distinguishes it from an absent one.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from bullpen.engines.aws.dynamodb.entries import AHEAD, after_run, run_of
from bullpen.engines.aws.dynamodb.forgotten import ForgottenEpoch
from bullpen.engines.aws.dynamodb.items import SHAPES, Item, decode, decode_story, id_of, key_of, moment
from bullpen.engines.aws.dynamodb.table import TableClient, Walk
from bullpen.engines.aws.dynamodb.writes import land_each, land_together
from bullpen.errors import Conflict, Refused
from bullpen.model import pause as pauses
from bullpen.model import repository, rotation, scale_set, set_session
from bullpen.model.instance import LIVE, Instance, State
from bullpen.model.job import Job
from bullpen.model.pause import Pause
from bullpen.model.provision import COMMITTED, OPEN, Provision
from bullpen.model.repository import Repository, repository_key
from bullpen.model.rotation import Rotation
from bullpen.model.scale_set import ScaleSet
from bullpen.model.set_session import SetSession
from bullpen.model.ticket import Requirements, UsageClass, Verdict, judge
from bullpen.model.transition import Change, Check, StoryLine
from bullpen.model.worker import CLEANED_UP, Worker
from bullpen.ports.store import Delta, InstanceGroup
from bullpen.structured_log import get_logger

R = TypeVar("R")
log = get_logger("bullpen.engines.aws")

BY_PREFIX: dict[str, type[Any]] = {
    scale_set.ID_PREFIX: ScaleSet,
    set_session.ID_PREFIX: SetSession,
    repository.ID_PREFIX: Repository,
    pauses.ID_PREFIX: Pause,
    rotation.ID_PREFIX: Rotation,
}
NAMED_ALIKE: tuple[type[Any], ...] = (Instance, Provision, Job, Worker)
"""Kinds of records whose ids do not say of which kind they are. To ask for a key that is absent costs half a read."""

OFFERS_PAGE = 500
"""Offers read at a time: about 200 KB, so that a pool of a few hundred is judged with one request."""


SERVING_PAGE = 500  # keys of instances that serve runs, read at a time

CENSUS_OF = ("state", "usageClass", "instanceType", "resourceClass", "attested")


class DynamoRecords:
    """`ports.Records` on one pool's table."""

    def __init__(self, table: TableClient) -> None:
        self._table = table
        self._forgotten = ForgottenEpoch(table)

    async def apply(self, *changes: Change[Any], checks: Sequence[Check] = ()) -> list[Any]:
        await self._note_epochs(changes)
        return await land_together(self._table, changes, checks)

    async def apply_each(self, changes: Sequence[Change[Any]]) -> list[Any | Conflict]:
        await self._note_epochs(changes)
        return await land_each(self._table, changes)

    async def instances(self, ids: Sequence[str]) -> dict[str, Instance]:
        return {found.id: found for found in await read_many(self._table, Instance, ids)}

    async def known(self, ids: Sequence[str]) -> set[str]:
        items = await self._table.get_many([key_of(Instance, id) for id in ids], only=("version",))
        return {id_of(Instance, item) for item in items}

    async def provision(self, provision_id: str) -> Provision | None:
        item = await self._table.get(key_of(Provision, provision_id))
        return None if item is None else decode(Provision, item)

    async def run_instances(self, run_id: str) -> list[Instance]:
        walk = self._table.walk(("runKey", f"RUN#{run_id}"), index="run")
        found = await read_listed(walk, Instance, lambda i: _serves(i, run_id))
        return sorted(found, key=lambda instance: instance.id)

    async def served_runs(self, limit: int, after: str = "") -> dict[str, list[Instance]]:
        served: dict[str, list[Instance]] = {}
        last, over = after, False
        while len(served) < limit and not over:  # an entry may be stale: then the runs behind it are read, too
            listed, over = await self._listed_as_serving(limit - len(served), last)
            found = await self.instances([id for ids in listed.values() for id in ids])
            for last, ids in listed.items():
                if serving := [found[id] for id in ids if id in found and _serves(found[id], last)]:
                    served[last] = serving
        return served

    async def _listed_as_serving(self, limit: int, after: str) -> tuple[dict[str, list[str]], bool]:
        """The instances of the next runs in the index, and whether there are no others."""
        beyond = ("dueSort", ">", after_run(after)) if after else None
        walk = self._table.walk(("dueKey", "SERVES"), beyond, index="due", page=SERVING_PAGE)
        found: dict[str, list[str]] = {}
        while not walk.over and len(found) <= limit:  # the last one may go on behind a page
            for item in await walk.page():
                found.setdefault(run_of(item["dueSort"]["S"]), []).append(id_of(Instance, item))
        return dict(islice(found.items(), limit)), len(found) <= limit

    async def run_provisions(self, run_id: str) -> list[Provision]:
        walk = self._table.walk(("todoKey", f"OPENRUN#{run_id}"), index="todo")
        return await read_listed(walk, Provision, lambda p: not p.is_closed)

    async def told_provisions(self, run_id: str, limit: int, *, committed: bool = False) -> list[Provision]:
        def is_told(one: Provision) -> bool:
            return one.run_id == run_id and (one.state is COMMITTED or not committed)

        walk = self._table.walk(("runKey", f"TOLD#{run_id}"), index="run", newest_first=True, page=limit)
        return await read_listed(walk, Provision, is_told, limit)

    async def claimable(self, needs: Requirements, now: datetime, limit: int, start: str = "") -> list[Instance]:
        # One walk for all usage classes; it is over once there are enough of the requested one.
        fitting: dict[UsageClass, list[Instance]] = {one: [] for one in needs.acceptable_usage_classes}
        requested = fitting[needs.usage_class]
        offers = ("poolKey", f"CLAIMABLE#{needs.resource_class}")
        for side in (">=", "<") if start else (">=",):  # from `start` and around
            walk = self._table.walk(offers, ("SK", side, f"ID#{start}"), index="pool", page=OFFERS_PAGE)
            while not walk.over and len(requested) < limit:
                for offer in decode_listed(Instance, await walk.page()):
                    if judge(offer.ticket(), needs, 0, 0, now) is Verdict.TAKE:
                        fitting[offer.usage_class].append(offer)
        return [offer for of_class in fitting.values() for offer in of_class][:limit]

    async def pending(self, resource_class: str, limit: int, after: str = "") -> list[Instance]:
        pending = ("poolKey", f"PENDING#{resource_class}")
        walk = self._table.walk(pending, ("SK", ">", f"ID#{after}"), index="pool", page=limit)
        return decode_listed(Instance, await walk.first(limit))

    async def owing_instances(self, now: datetime, limit: int) -> list[Instance]:
        walk = self._table.walk(("todoKey", "OWES#Instance"), ("todoSort", "<=", moment(now)), index="todo", page=limit)
        return await read_listed(walk, Instance, lambda i: i.owes is not None and i.owes.due_at <= now, limit)

    async def due_provisions(self, now: datetime, limit: int) -> list[Provision]:
        walk = self._table.walk(("dueKey", "DUE#Provision"), ("dueSort", "<=", moment(now)), index="due", page=limit)
        return await read_listed(walk, Provision, lambda p: p.due_at is not None and p.due_at <= now, limit)

    async def open_provisions(self, resource_class: str) -> list[Provision]:
        walk = self._table.walk(("poolKey", f"OPEN#{resource_class}"), index="pool")
        return await read_listed(walk, Provision, lambda p: p.state is OPEN)

    async def waiting_provisions(self, limit: int) -> list[Provision]:
        waiting, _ = await self.ahead(limit)
        return waiting

    async def ahead(self, limit: int) -> tuple[list[Provision], list[Pause]]:
        listed = await self._table.walk(("liveKey", AHEAD), index="live").all()
        items = await self._table.get_many([{name: item[name] for name in ("PK", "SK")} for item in listed])
        of_pauses = key_of(Pause, "")["PK"]
        pauses = decode_listed(Pause, [item for item in items if item["PK"] == of_pauses])
        waiting = decode_listed(Provision, [item for item in items if item["PK"] != of_pauses])
        queue = sorted(
            (one for one in waiting if one.is_waiting),
            key=lambda p: (p.place.since, p.id) if p.place else (p.deadline, p.id),
        )
        return queue[:limit], sorted((one for one in pauses if one.is_on), key=lambda one: one.id)

    async def live(self, limit: int, after: str = "") -> list[Instance]:
        walk = self._table.walk(("liveKey", "LIVE#Instance"), ("SK", ">", f"ID#{after}"), index="live", page=limit)
        return decode_listed(Instance, await walk.first(limit))

    async def live_since(self, known: Mapping[str, int]) -> Delta[Instance]:
        walk = self._table.walk(("liveKey", "LIVE#Instance"), index="live")
        items = {id_of(Instance, item): item for item in await walk.all()}
        changed = [item for id, item in items.items() if item.get("version", {}).get("N") != str(known.get(id))]
        return Delta(decode_listed(Instance, changed), [id for id in known if id not in items])

    async def count(self) -> dict[tuple[str, State], int]:
        counted: Counter[tuple[str, State]] = Counter()
        live = {state.value: state for state in LIVE}
        walk = self._table.walk(("liveKey", "LIVE#Instance"), index="live", only=("state", "resourceClass"))
        for item in await walk.all():
            if state := live.get(item.get("state", {}).get("S", "")):
                counted[item.get("resourceClass", {}).get("S", ""), state] += 1
        return dict(counted)

    async def census(self) -> dict[InstanceGroup, int]:
        # Not decoded, and no more than is counted: a scrape asks this every few seconds, of a pool of any size.
        states = {state.value: state for state in State}
        usages = {usage.value: usage for usage in UsageClass}
        counted: Counter[InstanceGroup] = Counter()
        for item in await self._table.walk(("liveKey", "LIVE#Instance"), index="live", only=CENSUS_OF).all():
            said = {name: value.get("S", "") for name, value in item.items()}
            state, usage = states.get(said.get("state", "")), usages.get(said.get("usageClass", ""))
            if state is not None and usage is not None:
                on_offer = bool(item.get("attested", {}).get("BOOL"))
                kind = said.get("instanceType", "")
                counted[InstanceGroup(said.get("resourceClass", ""), state, on_offer, kind, usage)] += 1
        return dict(counted)

    async def scale_sets(self) -> dict[str, ScaleSet]:
        return {one.name: one for one in await self._every(ScaleSet)}

    async def set_sessions(self) -> dict[str, SetSession]:
        return {one.set_name: one for one in await self._every(SetSession)}

    async def repositories(self, names: Sequence[str]) -> dict[str, Repository]:
        keys = {repository_key(name): name.casefold() for name in names}
        return {keys[one.id]: one for one in await read_many(self._table, Repository, [*keys])}

    async def pauses(self) -> list[Pause]:
        return await self._every(Pause)

    async def rotations(self) -> dict[str, Rotation]:
        return {one.resource_class: one for one in await self._every(Rotation)}

    async def stories(self, ids: Sequence[str], kind: type[Any] | None = None) -> dict[str, list[StoryLine]]:
        kinds = {f"TYPE#{SHAPES[each].kind}": each for each in SHAPES}
        keys = [key_of(each, id) for id in ids for each in ((kind,) if kind else _kinds_of(id))]
        items = await self._table.get_many(keys, only=("story",))
        return {id_of(kinds[item["PK"]["S"]], item): decode_story(item) for item in items}

    async def purge(self, now: datetime, limit: int) -> int:
        """Nothing: every record that may go carries its time to live, and DynamoDB removes it."""
        return 0

    async def _every(self, kind: type[R]) -> list[R]:
        """All records of a kind of which there are few. Consistent."""
        return decode_listed(kind, await self._table.walk(("PK", f"TYPE#{SHAPES[kind].kind}")).all())

    async def _note_epochs(self, changes: Sequence[Change[Any]]) -> None:
        """Before workers become tombstones. Killed in between, the process has noted an epoch that still stands."""
        afters = [change.after for change in changes]
        epochs = [one.epoch for one in afters if isinstance(one, Worker) and one.state is CLEANED_UP]
        await self._forgotten.raise_to(max(epochs, default=0))


def _serves(one: Instance, run_id: str) -> bool:
    return one.run_id == run_id and one.state in LIVE


def _kinds_of(id: str) -> tuple[type[Any], ...]:
    """Of which kinds a record with this id may be."""
    return next(((kind,) for prefix, kind in BY_PREFIX.items() if id.startswith(prefix)), NAMED_ALIKE)


async def read_listed(walk: Walk, kind: type[R], wanted: Callable[[R], bool], limit: int | None = None) -> list[R]:
    """Follow a query of keys: the records as they are now, in its order, that still are what was asked for."""
    found: list[R] = []
    while not walk.over and (limit is None or len(found) < limit):
        ids = [id_of(kind, item) for item in await walk.page()]
        found += [record for record in await read_many(walk.table, kind, ids) if wanted(record)]
    return found[:limit]


async def read_many(table: TableClient, kind: type[R], ids: Sequence[str]) -> list[R]:
    """The records with these ids, in their order, as far as they exist and can be read."""
    items = {id_of(kind, item): item for item in await table.get_many([key_of(kind, id) for id in ids])}
    return decode_listed(kind, [items[id] for id in dict.fromkeys(ids) if id in items])


def decode_listed(kind: type[R], items: Sequence[Item]) -> list[R]:
    """What can be read of a list."""
    found = []
    for item in items:
        try:
            found.append(decode(kind, item))
        except Refused as exc:
            log.warning("record ignored", error=exc, remedy=exc.remedy)
    return found
