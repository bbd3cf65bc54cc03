"""Protection: what the numbers of a pass allow, the budget that all sweepers share, and what people see of it."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOW, later
from bullpen.config import Liveness
from bullpen.liveness.protection import (
    EVERYBODY,
    WAITED_ENOUGH,
    Protection,
    Tally,
    fresh_lease_from,
    is_past_due,
    note_ingest,
    protection_state,
    spend,
    tally,
)
from bullpen.model import control as controls
from bullpen.model import worker as workers
from bullpen.model.control import INGEST, Control
from bullpen.model.worker import Worker
from liveness.fixtures import Crew, lost, passes

RULES = Liveness()


def guard(domains: dict[str, tuple[int, int, int]], flooded: bool = False) -> Protection:
    return Protection(RULES, {name: Tally(*counts) for name, counts in domains.items()}, flooded)


def a_worker(beat_at: float = 0, domain: str = "a") -> Worker:
    beat = workers.Beat(at=later(beat_at), by="a test", token=0, lease=15, domain=domain)
    return workers.register(workers.absent("w"), beat).after


@pytest.mark.parametrize(
    ("counts", "braked"),
    [
        ((20, 20, 0), False),  # too few for a percentage
        ((21, 11, 0), False),  # 52 %
        ((21, 12, 0), True),  # 57 %
        ((100, 55, 0), False),  # not more than the fraction
        ((100, 56, 0), True),
        ((50, 10, 50), True),  # those already lost count
        ((0, 0, 30), True),
    ],
)
def test_a_domain_is_braked_above_its_fraction_and_number(counts: tuple[int, int, int], braked: bool) -> None:
    assert guard({"a": counts}).brakes("a") is braked


def test_more_suspects_than_a_pass_looks_at_brake_every_domain_of_some_size() -> None:
    flooded = guard({"a": (100, 1, 0), "b": (10, 1, 0)}, flooded=True)
    assert (flooded.brakes("a"), flooded.brakes("b")) == (True, False)


@pytest.mark.parametrize(
    ("domains", "silent"),
    [
        ({"a": (5, 5, 0)}, False),  # few
        ({"a": (6, 6, 0)}, True),
        ({"a": (6, 6, 0), "b": (1, 0, 0)}, False),  # one is heard
        ({"a": (6, 6, 90)}, True),  # all that are left
    ],
)
def test_all_are_silent_only_if_no_worker_is_heard(domains: dict[str, tuple[int, int, int]], silent: bool) -> None:
    assert guard(domains).all_silent is silent


def held(since: float = 0) -> Control:
    return controls.hold(controls.absent(EVERYBODY), controls.Holding(at=later(since), by="a test")).after


@pytest.mark.parametrize(
    ("counts", "at", "step"),
    [
        ((100, 100, 0), 10, None),
        ((100, 91, 0), 10, None),
        ((100, 90, 0), 10, "lift"),
        ((100, 100, 0), 899, None),
        ((100, 100, 0), 900, "lift"),
        ((0, 0, 0), 10, "lift"),
    ],
)
def test_a_hold_is_lifted_when_a_tenth_is_back_or_it_lasted_long_enough(
    counts: tuple[int, int, int], at: float, step: str | None
) -> None:
    change = guard({"a": counts}).next_hold(held(), [], later(at))
    assert (change.step if change else None) == step


def test_a_hold_that_lasted_long_enough_is_entered_again_only_after_a_worker_was_heard() -> None:
    lifted = controls.lift(held(), controls.Holding(at=later(900), by="a test", why=WAITED_ENOUGH)).after
    silent = guard({"a": (10, 10, 0)})
    assert silent.next_hold(lifted, [a_worker(beat_at=0)], later(1000)) is None
    change = silent.next_hold(lifted, [a_worker(beat_at=0), a_worker(beat_at=950)], later(1000))
    assert change is not None
    assert change.step == "hold"


def test_a_census_that_lags_shows_no_fewer_active_workers_than_silent_ones() -> None:
    assert tally({("a", "active"): 1, ("a", "inactive"): 4}, [a_worker()] * 3) == {"a": Tally(3, 3, 4)}


def test_workers_whose_machine_is_gone_do_not_count() -> None:
    assert tally({("a", "active"): 9}, [a_worker()] * 3, [a_worker()] * 4) == {"a": Tally(5, 3, 0)}


def test_after_a_gap_leases_are_counted_from_the_recovery() -> None:
    worker = a_worker()
    assert is_past_due(worker, None, later(15))
    assert not is_past_due(worker, later(10), later(24))
    assert is_past_due(worker, later(10), later(25))
    assert not is_past_due(replace(worker, deadline=None), None, later(99))


def test_a_recovery_in_the_future_counts_for_nothing() -> None:
    control = replace(controls.absent(INGEST), recovered_at=later(300))
    assert fresh_lease_from({INGEST: control}, NOW) is None
    assert fresh_lease_from({INGEST: control}, later(300)) == later(300)


@pytest.mark.parametrize(("gap", "recovered"), [(4, False), (14, False), (16, True), (180, True)])
async def test_a_gap_between_notes_gives_every_worker_a_fresh_lease(gap: float, recovered: bool) -> None:
    crew = Crew()
    await note_ingest(crew.ports, RULES, {}, crew.ports.clock.now())
    first = crew.memory.tables.controls[INGEST].recovered_at
    await asyncio.sleep(gap)
    await note_ingest(crew.ports, RULES, dict(crew.memory.tables.controls), crew.ports.clock.now())
    assert (crew.memory.tables.controls[INGEST].recovered_at != first) is recovered


async def test_notes_are_written_every_few_seconds_and_not_with_every_pass() -> None:
    crew = Crew()
    await passes(crew.liveness(receives=True), 60)
    assert 10 <= crew.memory.tables.controls[INGEST].version <= 13


async def test_all_sweepers_together_spend_one_budget() -> None:
    crew = Crew()
    ports = [crew.process() for _ in range(4)]
    taken = 0
    for _ in range(100):
        stored = dict(crew.memory.tables.controls)
        now = crew.ports.clock.now()
        taken += sum(await asyncio.gather(*(spend(one, RULES, stored, "a", 50, now) for one in ports)))
        await asyncio.sleep(1)
    assert 9 <= taken <= 11  # one at once, then one in ten seconds


async def test_the_state_shows_domains_the_hold_and_its_reason() -> None:
    crew = Crew()
    liveness = crew.liveness(receives=True)
    for number in range(8):
        await crew.beats(f"w{number}", domain="ab"[number % 2])
    calm = await protection_state(crew.ports)
    assert [(one.name, one.active, one.inactive) for one in calm.domains] == [("a", 4, 0), ("b", 4, 0)]
    assert (calm.held_since, calm.why) == (None, "")
    assert lost(await passes(liveness, 60)) == []
    tense = await protection_state(crew.ports)
    assert tense.held_since is not None
    assert tense.why == "all of 8 workers are silent"
    assert tense.recovered_at == calm_start(crew)


def calm_start(crew: Crew) -> object:
    """The first note of the receiver: no worker had been heard before."""
    return crew.ports.clock.now() - timedelta(seconds=asyncio.get_running_loop().time())
