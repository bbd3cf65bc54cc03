"""Explanations in simulated histories: every wait is asked about while it lasts, and its cause compared with the truth.

The truth is derived here from the tables of the simulation, by rules of its own: what was launched and what was not,
which instances exist, which agents hang, and what an operator has paused. Planted bugs show that a wrong cause is
noticed.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec
import pytest

from bullpen import jobs
from bullpen.config import Limits, ResourceClass, Settings
from bullpen.engines.memory import Rates
from bullpen.errors import BullpenError
from bullpen.explain import candidates, pool_view, provision_waits
from bullpen.explain.job_waits import explain_job, situation_of
from bullpen.explain.pool_view import PoolView
from bullpen.explain.provision_waits import explain_provision
from bullpen.jobs.request import JobRequest
from bullpen.model import ticket
from bullpen.model.instance import CLAIMED, CREATED, IDLE, RUNNING, Instance
from bullpen.model.job import QUEUED, Job
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.provision import ABORTED, OPEN, Provision
from bullpen.model.ticket import RefusalRule, UsageClass
from bullpen.model.wait import ExplainedWait, WaitCause
from bullpen.operate.pauses import pause, resume
from bullpen.ports import Ports
from bullpen.sim.agent import Temper
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from histories import SETTINGS, Actor, Main, provisions, releases

pytestmark = pytest.mark.slow

ASKED_EVERY = 0.5  # seconds
LASTS = 150.0
SEEDS = range(1, 25)
CAPPED = Settings(
    timings=SETTINGS.timings,
    limits=Limits(max_instances=4),
    classes={"small": ResourceClass(cpu=1, mem=1024, idle_target=1, attempts=4)},
)
UNKNOWN_SHARE = 0.01
SILENCE = 2 * CAPPED.timings.lease
"""Seconds after which a runner that hangs must be called silent."""
REACHED = {*WaitCause} - {
    WaitCause.UNKNOWN,
    # of GitHub, see tests/explain/test_github_jobs.py
    *(WaitCause.RUNNER_GROUP_CLOSED, WaitCause.GITHUB_LIMIT, WaitCause.GITHUB_OUTAGE),
}


@dataclass
class Truth:
    """What the simulation knows and no record says: which launches fell short."""

    world: World
    short: dict[str, bool] = field(default_factory=dict)
    muted: dict[str, float] = field(default_factory=dict)
    """Since when an agent hangs, by the virtual clock."""

    def __post_init__(self) -> None:
        yard = self.world.memory.yard
        launch = yard.launch

        def watched(plan: Any, count: int, clock: Any) -> Any:
            launched = launch(plan, count, clock)
            self.short[plan.provision_id] = len({machine.id for machine in launched.machines}) < plan.count
            return launched

        yard.launch = watched  # type: ignore[method-assign]

    def of(self, one: Provision) -> set[WaitCause]:
        """The causes that an explanation of this open provision may give at this moment."""
        tables, now = self.world.memory.tables, self.world.clock.now()
        if one.deadline <= now or (one.place is not None and one.place.until <= now):
            return {WaitCause.NO_SERVER}
        steps = [line.step for line in tables.stories[one.id]]
        held = [each for each in tables.instances.values() if each.provision_id == one.id]
        getting_ready = [each for each in held if each.state in (CREATED, CLAIMED)]
        if one.place is not None and steps[-1] == "wait":
            return self._at_a_cap(one)
        short = self.short.get(one.id, False) and "answer_fleet" in steps
        if short and len(getting_ready) < one.want:
            return {WaitCause.NO_CAPACITY, *self._refused(one, one.want - len(getting_ready))}
        if getting_ready or any(fleet.state == "planned" for fleet in one.fleets):
            return {WaitCause.BOOTING}
        rivals = [each for each in tables.provisions.values() if each.run_id == one.run_id and each.state is OPEN]
        if len(rivals) > 1:
            return {WaitCause.QUEUED_BEHIND}
        if self._is_paused():
            return {WaitCause.PAUSED}
        return {WaitCause.BOOTING} if self._has_room(one) else {WaitCause.CAP}

    def _at_a_cap(self, one: Provision) -> set[WaitCause]:
        if self._is_paused():
            return {WaitCause.PAUSED}
        now = self.world.clock.now()
        assert one.place is not None
        for other in self.world.memory.tables.provisions.values():
            if other.place is None or other.state is not OPEN or other.place.until <= now or other.id == one.id:
                continue
            # The place of one that waited for a resume is in no queue of a cap.
            if other.place.cap.endswith("max-instances") and (other.place.since, other.id) < (one.place.since, one.id):
                return {WaitCause.CAP}
        if self._has_room(one):
            return {WaitCause.BOOTING}
        return self._refused(one, one.want) or {WaitCause.CAP}

    def _refused(self, one: Provision, missing: int) -> set[WaitCause]:
        """Why enough instances of the pool cannot serve it now, if there are enough: what refuses the most of them."""
        offered = [each for each in self._of_class() if each.is_claimable and each.threshold > self.world.clock.now()]
        cleaned = [each for each in self._of_class() if each.state is IDLE and not each.attested]
        usable = sum(self._fits(each, one) for each in offered)
        coming = sum(self._fits(each, one) for each in cleaned)
        if coming and usable + coming >= missing:
            return {WaitCause.CLEANING}
        strange = Counter(cause for each in offered if (cause := self._unfit(each, one)) is not None)
        if strange and usable + coming + strange.total() >= missing:
            return {cause for cause, count in strange.items() if count == max(strange.values())}
        return set()

    def _fits(self, each: Instance, one: Provision) -> bool:
        return self._unfit(each, one) is None

    def _unfit(self, each: Instance, one: Provision) -> WaitCause | None:
        if each.image_generation != one.needs.image_generation:
            return WaitCause.IMAGE_RETIRED
        if each.usage_class is not one.needs.usage_class:
            return WaitCause.REQUIREMENTS
        return None if each.trust_domain in ("", one.needs.trust_domain) else WaitCause.TRUST_DOMAIN

    def _of_class(self) -> list[Instance]:
        return list(self.world.memory.tables.instances.values())

    def _is_paused(self) -> bool:
        return any(each.is_on for each in self.world.memory.tables.pauses.values())

    def _has_room(self, one: Provision) -> bool:
        """Whether it would be served if it began now: idle ones beyond the target make room, if that suffices."""
        live = [each for each in self._of_class() if each.state in (CREATED, IDLE, CLAIMED, RUNNING)]
        now = self.world.clock.now()
        fitting = [each for each in live if each.is_claimable and each.threshold > now and self._fits(each, one)]
        planned = sum(
            fleet.count
            for each in self.world.memory.tables.provisions.values()
            if each.state is OPEN
            for fleet in each.fleets
            if fleet.state == "planned"
        )
        launches = max(one.want - len(fitting), 0)
        over = len(live) + planned + launches - CAPPED.limits.max_instances
        taken = {each.id for each in fitting[: one.want]}
        idle = [each for each in live if each.is_claimable and each.id not in taken and each.threshold > now]
        expired = [each for each in live if each.is_claimable and each.id not in taken and each.threshold <= now]
        return not launches or over <= max(len(idle) - 1, 0) + len(expired)

    def of_job(self, job: Job) -> set[WaitCause] | None:
        """None where several causes are right."""
        tables = self.world.memory.tables
        runners = [each for each in self._of_class() if each.run_id == job.run_id]
        if job.not_before is not None and job.not_before > self.world.clock.now():
            return None
        if any(each.state is not RUNNING for each in runners):
            return None
        silent = [each for each in runners if each.id in self.muted]
        if runners and len(silent) == len(runners):
            at = self.world.clock.now().timestamp()
            return {WaitCause.RUNNER_LOST} if all(at - self.muted[each.id] > SILENCE for each in silent) else None
        at_work = {each.instance_id for each in tables.jobs.values() if each.state is JOB_RUNNING}
        if runners and all(each.id in at_work for each in runners):
            return {WaitCause.QUEUED_BEHIND}
        if runners:
            return {WaitCause.BOOTING, WaitCause.QUEUED_BEHIND}
        of_run = [each for each in tables.provisions.values() if each.run_id == job.run_id]
        if not of_run:
            return {WaitCause.NO_MATCH}
        if any(each.state is OPEN for each in of_run):
            return None
        return {WaitCause.RUN_OVER} if of_run[-1].state is not ABORTED else self._failed(of_run[-1])

    def _failed(self, one: Provision) -> set[WaitCause]:
        """Why a provision may have failed."""
        tables = self.world.memory.tables
        held = [each for each in self._of_class() if each.provision_id == one.id]
        if any(self.world.tempers[each.id].boot_failure for each in held):
            return {WaitCause.BOOTING}
        refused = {WaitCause.TRUST_DOMAIN, WaitCause.IMAGE_RETIRED, WaitCause.REQUIREMENTS, WaitCause.CLEANING}
        steps = [line.step for line in tables.stories[one.id]]
        if self.short.get(one.id, False) and "wait" not in steps[steps.index("answer_fleet") :]:
            return {WaitCause.NO_CAPACITY, *refused}
        lost = {WaitCause.BOOTING} if self.muted else set()
        return {WaitCause.CAP, WaitCause.PAUSED, *refused, *lost}


@dataclass
class Findings:
    """How many waits were explained with each cause, and what was wrong."""

    causes: Counter[WaitCause] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def unknown_share(self) -> float:
        return self.causes[WaitCause.UNKNOWN] / max(self.causes.total(), 1)


async def ask(world: World, ports: Ports, truth: Truth, found: Findings, id: str) -> list[str]:
    """Ask why a provision waits; returns what is wrong with the answer."""
    one = world.memory.tables.provisions[id]
    if one.state is not OPEN:
        return []
    before = truth.of(one)
    answer = await explain_provision(PoolView(ports, world.settings), one)
    now = world.memory.tables.provisions[id]
    allowed = before | (truth.of(now) if now.state is OPEN else set())
    found.causes[answer.cause] += 1
    if answer.cause in allowed:
        return []
    return [f"{one.run_id}: {answer.cause} is not in {allowed}: {answer.because}"]


async def watch(world: World, truth: Truth, found: Findings) -> None:
    """Ask about everything that waits, again and again."""
    ports = world.ports(rates=Rates())
    until = world.clock.now().timestamp() + LASTS
    while world.clock.now().timestamp() < until:
        await asyncio.sleep(ASKED_EVERY)
        for id in [each.id for each in world.memory.tables.provisions.values() if each.state is OPEN]:
            wrong = await ask(world, ports, truth, found, id)
            if wrong:  # the pool may have changed twice while it was asked
                await asyncio.sleep(0.01)
                found.wrong += await ask(world, ports, truth, found, id)
        for job in [each for each in world.memory.tables.jobs.values() if each.state is QUEUED]:
            view, expected = PoolView(ports, world.settings), truth.of_job(job)
            answer = await explain_job(view, job, await situation_of(view, job.run_id))
            found.causes[answer.cause] += 1
            if expected is not None and answer.cause not in expected:
                found.wrong.append(f"{job.id}: {answer.cause} is not in {expected}: {answer.because}")


def serves(run_id: str, random: Random) -> Main:
    """Provisions, perhaps submits jobs, works for a while, and releases."""
    count, lasts = random.randint(1, 3), random.uniform(1.0, 25.0)
    asked: dict[str, Any] = {
        "trust_domain": random.choice(["a", "a", "b"]),
        "usage_class": random.choice([UsageClass.ON_DEMAND] * 4 + [UsageClass.SPOT]),
        "wait": random.choice([0.0, 60.0, 60.0, 60.0]),
    }
    submits, is_doubled, is_late = random.randint(0, 4), random.random() < 0.2, random.random() < 0.3

    async def main(world: World, ports: Ports) -> object:
        twice = asyncio.get_running_loop().create_task(doubled(world, ports)) if is_doubled else None
        outcome = await provisions(world, ports, run_id, count, **asked)
        if submits:
            wanted = [JobRequest(run_id, ("sleep", "6"), index=at) for at in range(submits)]
            await jobs.submit(ports, wanted, by="a test")
        await asyncio.sleep(lasts)
        if twice is not None:
            await twice
        if outcome.succeeded:
            await releases(world, ports, run_id)
        if is_late:
            late = [JobRequest(run_id, ("true",)), JobRequest(f"{run_id}-misspelt", ("true",))]
            await jobs.submit(ports, late, by="a test")
        return outcome

    async def doubled(world: World, ports: Ports) -> object:
        await asyncio.sleep(0.5)
        return await provisions(world, ports, run_id, count + 1, **asked)

    return main


async def operator(world: World, ports: Ports) -> None:
    """Pauses the pool for a while, after a new image came."""
    await asyncio.sleep(30)
    kind = msgspec.structs.replace(CAPPED.classes["small"], image_generation=2)
    world.settings = msgspec.structs.replace(CAPPED, classes={"small": kind})
    await asyncio.sleep(10)
    await pause(ports, world.settings, "", "a new image", operator="ana")
    await asyncio.sleep(20)
    await resume(ports, world.settings, "", operator="ana")


async def plague(world: World, truth: Truth, random: Random) -> None:
    """The agents of a run hang now and then, and never answer again; a job of the run is submitted after that."""
    for _ in range(2):
        await asyncio.sleep(random.uniform(15, 45))
        running = sorted({each.run_id for each in world.memory.tables.instances.values() if each.state is RUNNING})
        if not running:
            continue
        run_id = random.choice(running)
        for each in sorted(world.memory.tables.instances.values(), key=lambda one: one.id):
            if each.run_id == run_id and each.state is RUNNING and each.id not in truth.muted:
                world.agents[each.id].pause()
                truth.muted[each.id] = world.clock.now().timestamp()
        await jobs.submit(world.ports(rates=Rates()), [JobRequest(run_id, ("true",))], by="a test")


def history(seed: int) -> Findings:
    async def main() -> Findings:
        random = Random(seed)
        boots, cleans = [random.uniform(1.0, 9.0) for _ in range(300)], [random.uniform(0.1, 6.0) for _ in range(300)]
        world = World(
            CAPPED,
            seed,
            capacity=random.choice([2, 3, 4, 10]),
            temper=lambda n: Temper(
                boots_in=boots[n],
                cleans_in=cleans[n],
                registers_in=random.uniform(0.1, 3.0),
                boot_failure="no disk" if random.random() < 0.1 else "",
            ),
        )
        truth, found = Truth(world), Findings()
        actors = [Actor(f"run-{n}", serves(f"run-{n}", random), begins_at=random.uniform(0, 90)) for n in range(9)]
        actors[0].die_at = random.choice([None, random.randint(40, 160)])
        playing = [asyncio.get_running_loop().create_task(actor.play(world)) for actor in actors]
        order = asyncio.get_running_loop().create_task(operator(world, world.ports(rates=Rates())))
        ills = asyncio.get_running_loop().create_task(plague(world, truth, random))
        await watch(world, truth, found)
        for task in (*playing, order, ills):
            task.cancel()
        await asyncio.gather(*playing, order, ills, return_exceptions=True)
        return found

    return virtual_run(main(), seed=seed, allow_left_behind=True)


def explored() -> Findings:
    total = Findings()
    for seed in SEEDS:
        found = history(seed)
        total.causes += found.causes
        total.wrong += [f"seed {seed}: {one}" for one in found.wrong]
    return total


def test_waits_of_simulated_histories_have_their_true_cause() -> None:
    found = explored()
    assert "\n".join(found.wrong) == ""
    assert found.unknown_share <= UNKNOWN_SHARE
    assert found.causes.total() > 1000, found.causes
    assert {*found.causes} >= REACHED, found.causes


# ---- planted bugs


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def domains_do_not_matter() -> AbstractContextManager[None]:
    judged = ticket.refused_by

    def blind(*args: Any) -> RefusalRule:
        rule = judged(*args)
        return RefusalRule.FITS if rule is RefusalRule.TRUST_DOMAIN else rule

    return replaced(candidates, "refused_by", blind)


def cleaning_does_not_count() -> AbstractContextManager[None]:
    having = candidates.Candidates.having

    def blind(self: candidates.Candidates, rule: RefusalRule) -> list[Instance]:
        return [] if rule is RefusalRule.CLEANING else having(self, rule)

    return replaced(candidates.Candidates, "having", blind)


async def never(self: PoolView, resource_class: str) -> None:
    return None


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a judge that overlooks the trust domain": domains_do_not_matter,
    "a short fleet that is overlooked": lambda: replaced(provision_waits, "_fell_short", lambda provision: False),
    "cleaning instances that do not count": cleaning_does_not_count,
    "a pause that is overlooked": lambda: replaced(pool_view.PoolView, "pause_of", never),
    "a dead process that is overlooked": lambda: replaced(provision_waits, "_abandoned", lambda view, provision: None),
}


@pytest.mark.parametrize("cause", sorted(REACHED))
def test_another_cause_in_the_place_of_a_true_one_is_caught(cause: WaitCause, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = WaitCause.BOOTING if cause is WaitCause.NO_MATCH else WaitCause.NO_MATCH

    def mistaken(explain: Callable[..., Awaitable[ExplainedWait]]) -> Callable[..., Awaitable[ExplainedWait]]:
        async def explained(*args: Any) -> ExplainedWait:
            answer = await explain(*args)
            return replace(answer, cause=wrong) if answer.cause is cause else answer

        return explained

    for explain in (explain_provision, explain_job):
        monkeypatch.setitem(globals(), explain.__name__, mistaken(explain))
    assert any(history(seed).wrong for seed in SEEDS)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_cause_is_caught(name: str) -> None:
    with PLANTED[name]():
        try:
            wrong = next((found.wrong for seed in SEEDS if (found := history(seed)).wrong), [])
        except BullpenError as error:
            wrong = [repr(error)]
    assert wrong, f"not noticed: {name}"
