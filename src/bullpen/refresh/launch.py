"""Launch: machines for nobody in particular, and not more than are missing, however many refresh at once.

Whoever wants to launch opens a provision first, for all to see, and then looks who else has one open. A launch goes
ahead only if it fits beside everything that is open. Where two have seen each other, the larger id gives up, and the
smaller one waits for that; one that has planned its fleet had decided before the other came, and keeps its share.

    opened ──▶ fits beside all others ─────────────────────────▶ launched
       ▲ │
       │ ├──▶ does not fit beside smaller ids and planned fleets ──▶ aborted, and asked again for what is then missing
       │ └──▶ does not fit beside larger ids: they are giving up ─┐
       └────────────────── a moment later ◀──────────────────────┘
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from bullpen.config import Settings
from bullpen.errors import BullpenError, InsufficientCapacity, LimitReached, Throttled
from bullpen.inventory import every_live
from bullpen.model import provision as provisions
from bullpen.model.provision import FleetState, Provision
from bullpen.pool import lifecycle
from bullpen.ports import Ports
from bullpen.provision.creation import Creation
from bullpen.provision.eviction import Room
from bullpen.provision.holdings import Holdings
from bullpen.provision.record import Book
from bullpen.refresh.action import Action, Report

BY = "refresh"
PASSING = (InsufficientCapacity, LimitReached, Throttled)
"""Why a launch may fall short for now: the next refresh tries again. Anything else somebody has to mend."""
TRIES = 3  # shares asked for by one refresh: who finds them all taken leaves the rest to the next


async def under_way(ports: Ports, resource_class: str) -> int:
    """Machines that open launches have yet to register."""
    return _to_come(await _launches(ports, resource_class))


async def launch(ports: Ports, settings: Settings, resource_class: str, count: int) -> Report:
    """Launch up to `count` machines; reports how many, and what refused the rest. They are adopted once they have
    booted, by the first process that looks."""
    missing = count
    for _ in range(TRIES):
        book = await _opened(ports, settings, resource_class, missing)
        if await _has_place(ports, settings, book.record):
            created, refusal = await _create(ports, settings, book)
            actions = _actions(settings, resource_class, created, missing - created if refusal else 0, refusal)
            return Report(actions, None if isinstance(refusal, PASSING) else refusal)
        await _abort(ports, settings, book, "others fill the pool")
        missing = await _room(ports, settings, resource_class, await _launches(ports, resource_class))
        if missing <= 0:
            break
    return Report()


async def foresee(
    ports: Ports, settings: Settings, resource_class: str, count: int, foreseen: Counter[str]
) -> tuple[Action, ...]:
    """What a launch would create within the caps, and what not. `foreseen` is by how much there are more of each class
    by then, or fewer: what is created here is added."""
    room = Room(ports, settings, evicts=False, by=BY)
    short = await room.shortage(resource_class, count, foreseen)
    over = min(short.over, count) if short else 0
    foreseen[resource_class] += count - over
    return _actions(settings, resource_class, count - over, over, short.error if short else None)


def _actions(
    settings: Settings, name: str, created: int, refused: int, refusal: BullpenError | None
) -> tuple[Action, ...]:
    target = f"the idle target is {settings.resource_class(name).idle_target}"
    told = [Action("create", f"{created} × {name}", target)] if created else []
    return (*told, Action("cannot create", f"{refused} × {name}", str(refusal))) if refused else tuple(told)


async def _opened(ports: Ports, settings: Settings, resource_class: str, count: int) -> Book:
    now = ports.clock.now()
    deadline = lifecycle.later(now, settings.timings.provision)
    needs = settings.requirements(resource_class)
    asked = provisions.absent(f"p-{ports.chance.token()}", "", count, needs, deadline, 0.0)
    (record,) = await ports.records.apply(provisions.open_(asked, provisions.Opened(at=now, by=BY, why="warm")))
    return Book(ports, record)


async def _has_place(ports: Ports, settings: Settings, own: Provision) -> bool:
    """Whether an open launch, that others can see by now, may go ahead."""
    name = own.needs.resource_class
    loop = asyncio.get_running_loop()
    patience = loop.time() + settings.timings.takeover  # one that was killed never gives up: its deadline ends it
    while True:
        others = [one for one in await _launches(ports, name) if one.id != own.id]
        if await _room(ports, settings, name, others) >= own.want:
            return True
        firm = [one for one in others if one.fleets or one.id < own.id]
        if await _room(ports, settings, name, firm) < own.want or loop.time() >= patience:
            return False
        await asyncio.sleep(settings.timings.tick_first)


async def _room(ports: Ports, settings: Settings, resource_class: str, launches: Iterable[Provision]) -> int:
    """What the idle target has room for beside these, which were listed before: what they register meanwhile counts
    twice, and never not at all."""
    standing = sum(
        one.resource_class == resource_class and (one.is_claimable or one.is_pending) for one in await every_live(ports)
    )
    return settings.resource_class(resource_class).idle_target - standing - _to_come(launches)


async def _launches(ports: Ports, resource_class: str) -> list[Provision]:
    return [one for one in await ports.records.open_provisions(resource_class) if not one.run_id]


def _to_come(launches: Iterable[Provision]) -> int:
    return sum(
        one.want - sum(fleet.count for fleet in one.fleets if fleet.state is FleetState.ANSWERED) for one in launches
    )


async def _create(ports: Ports, settings: Settings, book: Book) -> tuple[int, BullpenError | None]:
    """How many were created, and what refused the rest."""
    now = ports.clock.now()
    holdings = Holdings(ports)
    room = Room(ports, settings, evicts=False, by=BY)
    creation = Creation(ports, settings, book, holdings, room, allow_partial=True, by=BY)
    await asyncio.gather(*(creation.create() for _ in range(book.record.want)))
    if members := tuple(holdings.held):
        due = lifecycle.later(now, settings.timings.takeover)
        await book.write(provisions.commit, provisions.Decided(at=now, by=BY, members=members, settle_due=due))
        await ports.records.apply_each([lifecycle.settling(settings, book.record, now, BY)])
    else:
        await _abort(ports, settings, book, str(creation.refusal))
    return len(members), creation.refusal


async def _abort(ports: Ports, settings: Settings, book: Book, why: str) -> None:
    now = ports.clock.now()
    due = lifecycle.later(now, settings.timings.takeover)
    await book.write(provisions.abort, provisions.Aborted(at=now, by=BY, why=why, settle_due=due))
    await ports.records.apply_each([lifecycle.settling(settings, book.record, now, BY)])
