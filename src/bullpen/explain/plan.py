"""Plan: a provision as it would be served now. Nothing is claimed, launched, ended or written.

    serve already ─▶ would be claimed ─▶ would be launched, within the caps

Fitting instances, caps and evictions are those of provision itself (`Headroom.outlook`). A moment later the answer may
be another: a plan reserves nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from bullpen.config import Settings
from bullpen.explain.candidates import LONG_AGO, Candidates
from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import Because
from bullpen.history.cost import named
from bullpen.history.prices import price_of
from bullpen.lazy_dataclass import dataclass
from bullpen.model import provision as provisions
from bullpen.model.instance import RUNNING, Instance
from bullpen.model.pause import words_of
from bullpen.model.provision import OPEN, Provision
from bullpen.model.schedule import TargetNow
from bullpen.model.ticket import RefusalRule, Requirements, UsageClass, Verdict, judge, matches
from bullpen.model.times import later
from bullpen.model.trust import bare, inherited, of_repository, repository_names
from bullpen.model.wait import WaitCause
from bullpen.pool import offering
from bullpen.ports import Ports
from bullpen.provision import Request
from bullpen.provision.caps import Cap, caps, in_front
from bullpen.provision.eviction import QUEUE_PAGE, Outlook
from bullpen.provision.existing_members import check_owner

PENDING = 200  # instances that have attested and are not on offer yet


@dataclass(frozen=True, slots=True)
class LaunchWish:
    """The machines that would be asked for. `types` are patterns."""

    count: int
    resource_class: str
    usage_class: UsageClass
    types: tuple[str, ...]
    cpu: int
    mem: int
    image_generation: int


@dataclass(frozen=True, slots=True)
class CapUse:
    """How full a cap is, and would be."""

    cap: Cap
    now: int
    after: int


@dataclass(frozen=True, slots=True)
class TargetUse:
    """How many of the class are on offer, and would be. `target` says how many should be, and by which entry."""

    target: TargetNow
    now: int
    after: int


@dataclass(frozen=True, slots=True)
class PlanPrice:
    """US dollars per hour of all runners of a plan; None if the price of a type is `missing`."""

    per_hour: float | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvisionPlan:
    """What a provision would do. `candidates` are those that would not be claimed, with the rule that refuses each."""

    request: Request
    serving: tuple[Instance, ...]
    claims: tuple[Instance, ...]
    ended: tuple[Instance, ...]
    launch: LaunchWish | None
    candidates: Candidates
    caps: tuple[CapUse, ...]
    target: TargetUse
    obstacle: Because | None
    price: PlanPrice


async def plan(ports: Ports, settings: Settings, request: Request) -> ProvisionPlan:
    """Raise ConfigError if the settings show that nothing can be launched, or if the run is that of another
    repository."""
    ports.infrastructure.check()
    view = PoolView(ports, settings)
    check_owner(request, await view.ports.records.run_provisions(request.run_id))
    needs = await _with_inherited(view, request.needs)
    request = replace(request, needs=needs)
    serving = await _serving(view, request)
    missing = request.count - len(serving)
    deadline = later(view.now, settings.timings.provision)
    own = provisions.absent("", request.run_id, missing, needs, deadline, request.max_runtime)
    outlook = await view.headroom.outlook(own, missing)
    claims = list(outlook.fitting)
    if len(claims) < missing:
        claims += (await _attested(view, needs, request.run_id))[: missing - len(claims)]
        outlook = await view.headroom.outlook(own, missing - len(claims) + len(outlook.fitting))
    launches = missing - len(claims)
    if outlook.shortage is not None and request.allow_partial:
        launches = max(launches - outlook.shortage.over, 0)
    found = await view.candidates(needs, request.run_id)
    got = len(serving) + len(claims) + launches
    others = found.besides({one.id for one in claims})
    return ProvisionPlan(
        request,
        tuple(serving),
        tuple(claims),
        outlook.ended if launches else (),
        _launch(settings, needs, launches) if launches else None,
        others,
        _cap_uses(settings, needs.resource_class, outlook, launches),
        await _target_use(view, needs.resource_class, claims, outlook.ended if launches else ()),
        await _obstacle(view, own, request, outlook, missing - len(claims), got, others) if missing else None,
        await _price(view, needs, [*serving, *claims], launches),
    )


async def _price(view: PoolView, needs: Requirements, known: Sequence[Instance], launches: int) -> PlanPrice:
    """Which type a new machine will have, the compute engine decides: priced is the one that most machines of the class
    have, or the only one that may be asked for."""
    kinds = [(one.instance_type, one.usage_class) for one in known]
    if launches:
        kinds += [(await _likely_type(view, needs), needs.usage_class)] * launches
    prices = {kind: price_of(view.settings, *kind) for kind in dict.fromkeys(kinds)}
    missing = tuple(named(*kind) for kind, price in prices.items() if price is None)
    if missing:
        return PlanPrice(None, missing)
    return PlanPrice(round(float(sum((prices[kind] or Decimal(0) for kind in kinds), Decimal(0))), 6))


async def _likely_type(view: PoolView, needs: Requirements) -> str:
    kind = view.settings.resource_class(needs.resource_class)
    types = kind.allowed_instance_types if "*" in needs.allowed_types else needs.allowed_types
    there = Counter(
        one.instance_type
        for one in await view.live()
        if one.resource_class == needs.resource_class and matches(one.instance_type, types)
    )
    if there:
        return there.most_common(1)[0][0]
    return f"local.{needs.resource_class}" if view.settings.engines.pool == "embedded" else " ".join(types)


async def _with_inherited(view: PoolView, needs: Requirements) -> Requirements:
    """As `pool.repositories.with_inherited` completes it, without noting that the repository was seen."""
    rules = view.settings.trust.inherits
    own_rules = (named for key, named in rules.items() if bare(key) == bare(needs.trust_domain))
    names = repository_names([needs.trust_domain, *needs.inherits, *(one for named in own_rules for one in named)])
    if not names:
        return needs
    first_ids = {name: one.ci_id for name, one in (await view.ports.records.repositories(names)).items()}
    own = of_repository(needs.trust_domain)
    if own is not None and own.id:
        first_ids.setdefault(own.name.casefold(), own.id)
    return replace(needs, inherits=inherited(needs.trust_domain, rules, first_ids, also=needs.inherits))


async def _serving(view: PoolView, request: Request) -> list[Instance]:
    """The runners that the run has, that fit, and whose agents are heard."""
    needs, kind = request.needs, view.settings.resource_class(request.needs.resource_class)
    over = {one.id for one in await view.ports.records.run_provisions(request.run_id) if one.is_over}
    running = [
        one
        for one in await view.ports.records.run_instances(request.run_id)
        if one.state is RUNNING and one.provision_id and one.provision_id not in over
        if judge(one.ticket(), needs, kind.cpu, kind.mem, LONG_AGO) is Verdict.TAKE
    ]
    pulses = await view.pulses(one.id for one in running)
    heard = [one for one in running if view.is_heard(pulses.get(one.id)) and not pulses[one.id].departure]
    return heard[: request.count]


async def _attested(view: PoolView, needs: Requirements, run_id: str) -> list[Instance]:
    """Those that have attested and that no process has put on offer yet: the last look of a pickup does."""
    found = await view.candidates(needs, run_id)
    waiting = [*found.having(RefusalRule.CLEANING), *found.having(RefusalRule.BOOTING)][:PENDING]
    pulses = await view.pulses(one.id for one in waiting)
    return [
        one
        for one in waiting
        if offering.is_proven(one, pulses[one.id]) and view.is_heard(pulses[one.id]) and not pulses[one.id].departure
    ]


def _launch(settings: Settings, needs: Requirements, count: int) -> LaunchWish:
    kind = settings.resource_class(needs.resource_class)
    types = kind.allowed_instance_types if "*" in needs.allowed_types else needs.allowed_types
    cpu, mem = max(needs.cpu, kind.cpu), max(needs.mem, kind.mem)
    return LaunchWish(count, needs.resource_class, needs.usage_class, types, cpu, mem, kind.image_generation)


def _cap_uses(settings: Settings, resource_class: str, outlook: Outlook, launches: int) -> tuple[CapUse, ...]:
    uses = []
    for cap in caps(settings, resource_class):
        now = sum(number for (name, _), number in outlook.live.items() if cap.covers(name))
        now += sum(number for name, number in outlook.planned.items() if cap.covers(name))
        ended = sum(cap.covers(one.resource_class) for one in outlook.ended) if launches else 0
        uses.append(CapUse(cap, now, now + launches - ended))
    return tuple(uses)


async def _target_use(
    view: PoolView, resource_class: str, claims: Sequence[Instance], ended: Sequence[Instance]
) -> TargetUse:
    on_offer = [
        one
        for one in await view.live()
        if one.is_claimable and one.resource_class == resource_class and one.threshold > view.now
    ]
    gone = {one.id for one in (*claims, *ended)}
    target = view.settings.resource_class(resource_class).target_now(view.now)
    return TargetUse(target, len(on_offer), sum(one.id not in gone for one in on_offer))


async def _obstacle(
    view: PoolView, own: Provision, request: Request, outlook: Outlook, lacking: int, got: int, others: Candidates
) -> Because | None:
    """Why it would fail, wait or get fewer. `lacking` are not in the pool, and it would get `got` in the end."""
    rivals = [
        one
        for one in await view.ports.records.run_provisions(request.run_id)
        if one.state is OPEN and one.needs.resource_class == own.needs.resource_class
    ]
    if rivals:
        then = "It would wait until that one is decided, and count then what is still missing."
        return Because(WaitCause.QUEUED_BEHIND, f"{rivals[0].id} provisions the same run", then)
    then = f"It would wait for up to {request.wait:g} s." if request.wait else "It would fail at once."
    if (pause := await view.pause_of(own.needs.resource_class)) is not None:
        return Because(WaitCause.PAUSED, words_of(pause), then)
    narrowest = min(caps(view.settings, own.needs.resource_class), key=lambda cap: cap.limit)
    if request.count > narrowest.limit and not request.allow_partial:
        return Because(WaitCause.CAP, f"{narrowest}: {request.count} will never fit", "It would fail at once.")
    queue = await view.ports.records.waiting_provisions(QUEUE_PAGE)
    front = in_front(queue, own.needs.resource_class, view.now)
    if front and (short := await view.headroom.behind(front, own, own.want)) is not None:
        return Because(WaitCause.CAP, str(short.error), then)
    if outlook.shortage is None or not lacking:
        return None
    if request.allow_partial and got:
        then = f"It would get {got} of {request.count} runners: fewer are acceptable."
    if (unusable := others.cause_of(lacking)) is not None:
        cause, count = unusable
        return Because(cause, f"{count} of the class cannot be claimed; {outlook.shortage.error}", then)
    return Because(WaitCause.CAP, str(outlook.shortage.error), then)
