"""Why a provision waits: from its record, the instances that it holds, and the caps as provision itself counts them.

    has a place in a queue     paused, or what the pool has and may not give, or the cap
    its machines boot          booting
    a fleet fell short         what the pool has and may not give, or no capacity
    holds nothing yet          paused, another provision of the run, or it has only just begun

A provision whose process has died is waited for by nothing but the process that takes it over.
"""

from collections.abc import Sequence
from datetime import datetime

from bullpen.errors import FailureCause
from bullpen.explain.candidates import Candidates, holders
from bullpen.explain.pool_view import PoolView, age
from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import CLAIMED, CREATED, Instance
from bullpen.model.pause import Pause, words_of
from bullpen.model.provision import OPEN, FleetState, Provision
from bullpen.model.signal import Kind
from bullpen.model.transition import StoryLine
from bullpen.model.wait import ExplainedWait, WaitCause, WaitKind
from bullpen.provision.caps import Shortage, in_front
from bullpen.provision.eviction import QUEUE_PAGE
from bullpen.provision.record import process_of
from bullpen.release import OVER

REASONS = {
    FailureCause.CAPACITY: WaitCause.NO_CAPACITY,
    FailureCause.REFUSED: WaitCause.NO_CAPACITY,
    FailureCause.PERMISSION: WaitCause.NO_CAPACITY,
    FailureCause.CONFIGURATION: WaitCause.NO_CAPACITY,
    FailureCause.NOT_MET: WaitCause.BOOTING,  # a machine was late, failed or fell silent
    FailureCause.INTERRUPTED: WaitCause.RUN_OVER,
    FailureCause.LIMIT: WaitCause.CAP,
    FailureCause.PAUSED: WaitCause.PAUSED,
}
"""Of failed provisions, by what their report says."""
AGAIN = "Provision the run again once that is resolved."
MOST_BOOTS = 100  # machines of one provision whose time left is compared


@dataclass(frozen=True, slots=True)
class Because:
    """A cause in words."""

    cause: WaitCause
    because: str
    next: str = ""
    seconds_left: float | None = None


async def explain_provision(view: PoolView, provision: Provision) -> ExplainedWait:
    """Why an open provision is not met yet, with the instances that it cannot use."""
    if provision.id not in view.explained:
        view.explained[provision.id] = await _explained(view, provision)
    return view.explained[provision.id]


async def _explained(view: PoolView, provision: Provision) -> ExplainedWait:
    story = await view.story(provision.id)
    found = await _candidates(view, provision)
    held = await view.held_by(provision.id)
    why = await _because(view, provision, story, held, found)
    return ExplainedWait(
        subject=provision.run_id or provision.id,
        kind=WaitKind.RUN if provision.run_id else WaitKind.INSTANCE,
        cause=why.cause,
        because=why.because,
        next=why.next,
        run_id=provision.run_id,
        repository=provision.needs.repository,
        resource_class=provision.needs.resource_class,
        since=began(story),
        seconds_left=why.seconds_left,
        refusals=found.refusals,
        candidates=found.listed,
    )


async def explain_failed(view: PoolView, provision: Provision) -> Because:
    """Why a provision was not met, which is why the jobs of its run have no runner."""
    report = await view.report(provision.id)
    aborts = [line.by for line in await view.story(provision.id) if line.step == "abort"]
    if provision.reason == OVER:
        cause = WaitCause.RUN_OVER
    elif aborts and aborts[-1] != process_of(provision.id):
        cause = WaitCause.NO_SERVER  # its process had died: another one gave it up
    elif report is not None:
        cause = REASONS.get(report.cause, WaitCause.UNKNOWN)
    else:
        cause = WaitCause.NO_CAPACITY if _fell_short(provision) else WaitCause.UNKNOWN
    if cause in (WaitCause.NO_CAPACITY, WaitCause.CAP):
        found = await _candidates(view, provision)
        if (unusable := found.cause_of(provision.want)) is not None:
            cause, count = unusable
            return Because(cause, f"{_unusable(cause, count)}; its provision failed: {provision.reason}", AGAIN)
    return Because(cause, f"its provision failed: {provision.reason}", AGAIN)


async def _candidates(view: PoolView, provision: Provision) -> Candidates:
    return await view.candidates(provision.needs, provision.run_id)


async def _because(
    view: PoolView, provision: Provision, story: Sequence[StoryLine], held: Sequence[Instance], found: Candidates
) -> Because:
    if (dead := _abandoned(view, provision)) is not None:
        return dead
    if view.resource_class(name := provision.needs.resource_class) is None:
        gone = f"the settings do not have class {name!r} any more"
        return Because(WaitCause.NO_MATCH, gone, "Release the run, and provision it in a class that they have.")
    if provision.is_waiting and story and story[-1].step == "wait":
        return await _at_a_cap(view, provision, story[-1], found)
    getting_ready = [one for one in held if one.state in (CREATED, CLAIMED)]
    missing = max(provision.want - len(getting_ready), 0)
    if _fell_short(provision) and missing:
        return _short_of_machines(provision, story, found, missing)
    if getting_ready:
        return await _booting(view, provision, getting_ready)
    if any(fleet.state is FleetState.PLANNED for fleet in provision.fleets):
        return Because(
            WaitCause.BOOTING,
            f"{_count(sum(_planned(provision)), 'machine')} asked for, and the compute engine has not answered yet",
            "The machines boot and register.",
            await view.boot_seconds(provision.needs.resource_class),
        )
    return await _just_begun(view, provision, found)


def _abandoned(view: PoolView, provision: Provision) -> Because | None:
    """The process that serves it is dead, as far as the record shows that."""
    place, now = provision.place, view.now
    if provision.deadline > now and (place is None or place.until > now):
        return None
    what = "its deadline has passed" if provision.deadline <= now else "its place in the queue has run out"
    return Because(
        WaitCause.NO_SERVER,
        f"the process that served {provision.id} shows no sign of life: {what}",
        "A server, `bullpen refresh` or the next provision gives back what it holds. Then provision the run again.",
    )


async def _at_a_cap(view: PoolView, provision: Provision, line: StoryLine, found: Candidates) -> Because:
    if (pause := await view.pause_of(provision.needs.resource_class)) is not None:
        return Because(WaitCause.PAUSED, words_of(pause), f"{resume_text(pause)} {_gives_up(provision)}")
    front = await _in_front(view, provision)
    least = provision.want
    if front:
        names = ", ".join(f"{one.id} (run {one.run_id})" for one in front[:3])
        more = f" and {len(front) - 3} more" if len(front) > 3 else ""
        short = await view.headroom.behind(front, provision, least)
        cap = str(short.cap) if short is not None else f"{provision.waits_for} is reached"
        return Because(WaitCause.CAP, f"{cap}, and {names}{more} came first", _gives_up(provision))
    short = await view.headroom.foreseen(provision, least)
    if short is None:
        begins = f"it waited for {provision.waits_for}, and begins in a moment"
        return Because(WaitCause.BOOTING, begins, "It claims the runners that fit, and launches the rest.")
    if (unusable := found.cause_of(least)) is not None:
        cause, count = unusable
        return Because(cause, f"{_unusable(cause, count)}; {short.cap}", _gives_up(provision))
    return Because(WaitCause.CAP, await _whose(view, short), _gives_up(provision))


async def _in_front(view: PoolView, provision: Provision) -> list[Provision]:
    queue = await view.ports.records.waiting_provisions(QUEUE_PAGE)
    since = provision.place.since if provision.place is not None else None
    return in_front(queue, provision.needs.resource_class, view.now, provision.id, since)


async def _whose(view: PoolView, short: Shortage) -> str:
    """The cap, what counts for it, and which runs hold that."""
    covered = [one for one in await view.live() if short.cap.covers(one.resource_class)]
    who = holders(covered)
    return f"{short.error}" + (f" ({who})" if who else "")


def resume_text(pause: Pause) -> str:
    option = f" --class {pause.resource_class}" if pause.resource_class else ""
    return f"Run `bullpen resume{option}`."


def _gives_up(provision: Provision) -> str:
    return (
        f"It goes on as soon as it can get {_count(provision.want, 'runner')}, and gives up at"
        f" {provision.deadline:%H:%M:%S}Z at the latest."
    )


def _short_of_machines(provision: Provision, story: Sequence[StoryLine], found: Candidates, missing: int) -> Because:
    answers = [line.why for line in story if line.step == "answer_fleet"]
    said = answers[-1] if answers else "the compute engine launched too few machines"
    if (unusable := found.cause_of(missing)) is not None:
        cause, count = unusable
        return Because(cause, f"{_unusable(cause, count)}; {said}", "It asks for machines again, or gives up.")
    return Because(WaitCause.NO_CAPACITY, said, "It asks for machines again, or gives up and says so.")


async def _booting(view: PoolView, provision: Provision, getting_ready: Sequence[Instance]) -> Because:
    """The slowest of them decides."""
    new = [one for one in getting_ready if one.state is CREATED]
    claimed = [one for one in getting_ready if one.state is CLAIMED]
    if not new:
        return Because(
            WaitCause.BOOTING,
            f"{_count(len(claimed), 'runner')} of the pool claimed, and registering",
            f"Each registers within {view.settings.timings.registration:g} s, or another one is taken.",
        )
    waits = [await boot_wait(view, one) for one in new[:MOST_BOOTS]]
    left = [one.seconds_left for one in waits if one.seconds_left is not None]
    others = f"; {_count(len(claimed), 'runner')} of the pool registering" if claimed else ""
    return Because(
        WaitCause.BOOTING,
        f"{_count(len(new), 'new machine')} booting or registering{others}",
        waits[0].next,
        max(left, default=None),
    )


async def boot_wait(view: PoolView, one: Instance) -> Because:
    """Of a machine that is not ready yet: how long that takes, by those before."""
    pulse = (await view.pulses([one.id])).get(one.id)
    signal = pulse.signal if pulse is not None else None
    has_booted = signal is not None and signal.proves(Kind.OK, one.round)
    does = "has booted, and its runner registers" if has_booted else "boots"
    launched = [line.at for line in await view.story(one.id) if line.step == "register"]
    usual, left = await view.boot_seconds(one.resource_class), None
    says = f"{one.id} {does}"
    if launched:
        says += f", launched {age(view.now, launched[-1]):.0f} s ago"
    if usual is not None and launched:
        remaining = usual - age(view.now, launched[-1])
        left = max(remaining, 0.0)
        says += f"; 9 of 10 machines of class {one.resource_class} are ready within {usual:.0f} s"
    limit = view.settings.timings.validation
    return Because(
        WaitCause.BOOTING, says, f"A machine that is not ready within {limit:g} s fails its provision.", left
    )


async def _just_begun(view: PoolView, provision: Provision, found: Candidates) -> Because:
    """It holds nothing and has asked for nothing."""
    rivals = [
        one
        for one in await view.ports.records.run_provisions(provision.run_id)
        if provision.run_id
        and one.state is OPEN
        and one.id != provision.id
        and one.needs.resource_class == provision.needs.resource_class
    ]
    if rivals:
        return Because(
            WaitCause.QUEUED_BEHIND,
            f"{rivals[0].id} provisions the same run",
            "It goes on once the other one is decided, and counts then what is still missing.",
        )
    if (pause := await view.pause_of(provision.needs.resource_class)) is not None:
        return Because(WaitCause.PAUSED, words_of(pause), resume_text(pause))
    if (short := await view.headroom.foreseen(provision, provision.want)) is not None:
        return Because(WaitCause.CAP, await _whose(view, short), "It fails at once: it may not wait (--wait).")
    return Because(
        WaitCause.BOOTING, "it has only just begun, and picks runners of the pool", "It claims or launches them."
    )


def _fell_short(provision: Provision) -> bool:
    """Whether the last fleet that was answered has fewer machines than it asked for."""
    answered = [fleet for fleet in provision.fleets if fleet.state is FleetState.ANSWERED]
    return bool(answered) and answered[-1].lacking > 0


def _planned(provision: Provision) -> list[int]:
    return [fleet.count for fleet in provision.fleets if fleet.state is FleetState.PLANNED]


def _unusable(cause: WaitCause, count: int) -> str:
    what = _count(count, "instance")
    match cause:
        case WaitCause.CLEANING:
            return f"{what} of the class being cleaned"
        case WaitCause.TRUST_DOMAIN:
            return f"{what} of the class on offer, used by another trust domain"
        case WaitCause.IMAGE_RETIRED:
            return f"{what} of the class on offer, of another image generation"
        case _:
            return f"{what} of the class on offer without what the run asks for"


def began(story: Sequence[StoryLine]) -> datetime | None:
    """When a provision was asked for, or when it began to wait at a cap, whichever is known."""
    opened = [line.at for line in story if line.step == "open_"]
    return opened[-1] if opened else story[0].at if story else None


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
