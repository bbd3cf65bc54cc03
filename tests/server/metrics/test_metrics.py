"""`/metrics`: the values are those of the store and of the process, the names are bounded, and a store that is down is
a value and not an error."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import buried, cleaning, on_offer, open_provision, registered, running, terminated
from bullpen.config import HistorySettings, Limits, ResourceClass, Settings
from bullpen.controllers import Service
from bullpen.engines.memory import Faults, LoopClock, Memory, Rates, SeededChance
from bullpen.errors import FailureCause
from bullpen.model import pause as pauses
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.model.times import later
from bullpen.ports import HistoryPage, NoHistory, Ports, RequestResult
from bullpen.server.load_limits import Admission
from bullpen.server.metrics.catalogue import FAMILIES, SeriesKind, SeriesSource
from bullpen.server.metrics.exposition import STORE_ANSWERS, VALID_FOR
from bullpen.server.metrics.samples import LONGEST_LABEL, MOST_SERIES
from conformance.landing import land
from server.fixtures import House, a_house
from server.metrics.scraped import scraped

SETTINGS = Settings(
    limits=Limits(max_instances=9),
    classes={
        "small": ResourceClass(cpu=1, mem=1, idle_target=3),
        "large": ResourceClass(cpu=4, mem=1, max_instances=2),
    },
)
HOSTILE = '"} 1\nforged_metric{a="b"} 5\n# HELP x\\ \x1b[2J<script>ä💥'


class Reports(NoHistory):
    """The reports of a pool, the newest first, in pages."""

    def __init__(self) -> None:
        self.all: list[ProvisionReport] = []
        self.asked = 0

    async def reports(self, since, until, limit, after=""):  # type: ignore[no-untyped-def]
        self.asked += 1
        found = sorted((one for one in self.all if since <= one.ended_at < until), key=lambda one: one.ended_at)[::-1]
        start = int(after or 0)
        more = str(start + limit) if start + limit < len(found) else ""
        return HistoryPage(tuple(found[start : start + limit]), more)


def a_report(house: House, id: str, ago: float = 0.0, **changed: object) -> ProvisionReport:
    now = house.ports.clock.now()
    report = ProvisionReport(
        id, "run", "acme/web", "small", UsageClass.ON_DEMAND, "default", later(now, -ago - 2), later(now, -ago),
        ReportOutcome.MET, requested=3, selected=2, created=1, collisions=4, taken=5, put_back=6, dropped=7,
        timings={WorkPhase.SELECT: 0.3, WorkPhase.CREATE: 1.5},
    )  # fmt: skip
    return replace(report, **changed)  # type: ignore[arg-type]


def ports_with(history: Reports, memory: Memory) -> Ports:
    return replace(memory.ports(LoopClock(), SeededChance()), history=history)


async def after_a_while() -> None:
    await asyncio.sleep(VALID_FOR)


# ---- values


async def test_the_pool_is_counted_by_class_and_state(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        walks = (on_offer("i-1"), on_offer("i-2"), cleaning("i-3"), running("i-4"), terminated("i-5"))
        for walk in (*walks, registered("i-6", resource_class="large")):
            await land(house.ports.records, walk)
        found = await scraped(house)
        assert found.value("bullpen_store_up") == 1
        assert found.value("bullpen_instances", resource_class="small", state="idle") == 3
        assert found.value("bullpen_instances", resource_class="small", state="running") == 1
        assert found.value("bullpen_instances", resource_class="small", state="terminated") == 1
        assert found.value("bullpen_instances", resource_class="large", state="created") == 1
        assert found.value("bullpen_instances", resource_class="large", state="idle") == 0
        assert found.value("bullpen_instances_claimable", resource_class="small") == 2
        assert found.value("bullpen_instances_idle_target", resource_class="small") == 3
        assert found.value("bullpen_instances_max", resource_class="small") == 9
        assert found.value("bullpen_instances_max", resource_class="large") == 2


async def test_the_price_per_hour_is_that_of_every_machine_there_is_and_says_how_many_have_none(tmp_path: Path) -> None:
    prices = {"m7g.large": 0.08, "m7g.large:spot": 0.03}
    settings = msgspec.structs.replace(SETTINGS, history=HistorySettings(prices=prices))
    async with a_house(tmp_path, settings=settings) as house:
        large: dict[str, Any] = {"resource_class": "large", "instance_type": "m7g.large"}
        walks = (on_offer("i-1", **large), running("i-2", **large), terminated("i-3", **large))
        spot = on_offer("i-4", usage_class=UsageClass.SPOT, **large)
        for walk in (*walks, spot, on_offer("i-5", instance_type="unheard.of"), buried("i-6", **large)):
            await land(house.ports.records, walk)
        found = await scraped(house)
        # One whose end is owed still costs; one that is certainly gone does not.
        assert found.value("bullpen_price_per_hour_dollars", resource_class="large") == pytest.approx(0.27)
        assert found.value("bullpen_instances_unpriced", resource_class="large") == 0
        assert found.value("bullpen_price_per_hour_dollars", resource_class="small") == 0
        assert found.value("bullpen_instances_unpriced", resource_class="small") == 1


async def test_a_pause_of_the_pool_is_one_of_every_class(tmp_path: Path) -> None:
    async with a_house(tmp_path, settings=SETTINGS) as house:
        assert (await scraped(house)).value("bullpen_paused", resource_class="small") == 0
        paused = pauses.PoolPaused(at=house.ports.clock.now(), by="a test", note="", operator="ada")
        await house.ports.records.apply(pauses.pause(pauses.absent("large"), paused))
        await after_a_while()
        found = await scraped(house)
        assert found.value("bullpen_paused", resource_class="large") == 1
        assert found.value("bullpen_paused", resource_class="small") == 0
        await house.ports.records.apply(pauses.pause(pauses.absent(""), paused))
        await after_a_while()
        assert (await scraped(house)).total("bullpen_paused") == len(SETTINGS.classes)


async def test_heartbeats_are_counted_by_result_and_those_of_a_lost_worker_as_resurrected(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        token = (await house.beat()).json()["token"]
        wrong = {"workerInstanceKey": "w-1", "token": token + 5}
        assert (await house.ask("POST", "/v1/heartbeats", json=wrong)).status_code == 409
        assert (await house.beat(key="")).status_code == 400
        found = await scraped(house)
        assert found.value("bullpen_heartbeats_total", result="accepted") == 1
        assert found.value("bullpen_heartbeats_total", result="rejected") == 1
        assert found.value("bullpen_heartbeats_total", result="refused") == 1
        assert found.value("bullpen_leases_resurrected_total") == 0


async def test_turns_and_failures_of_each_loop_are_counted_and_their_age_is_shown(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        service: Service = house.context.service
        sweep = next(loop for loop in service.loops if loop.name == "sweep")
        await sweep.run_once()
        await asyncio.sleep(7)
        found = await scraped(house)
        assert found.value("bullpen_loop_turns_total", loop="sweep") == 1
        assert found.value("bullpen_loop_failures_total", loop="sweep") == 0
        assert found.value("bullpen_loop_last_turn_age_seconds", loop="sweep") == pytest.approx(7)
        assert found.value("bullpen_loop_last_success_age_seconds", loop="warm") is None  # it has not run yet
        assert {one["loop"] for one in found.labels("bullpen_loop_failing")} == {loop.name for loop in service.loops}


async def test_a_loop_that_fails_is_counted_and_then_shown_as_failing(tmp_path: Path) -> None:
    memory, faults = Memory(), Faults()
    async with a_house(tmp_path, ports=memory.ports(LoopClock(), SeededChance(), faults)) as house:
        loop = next(one for one in house.context.service.loops if one.name == "debts")
        faults.rates = Rates(lost_request=1.0)
        for _ in range(5):
            assert not await loop.run_once()
            await asyncio.sleep(10)
        found = await scraped(house)
        assert found.value("bullpen_loop_turns_total", loop="debts") == 5
        assert found.value("bullpen_loop_failures_total", loop="debts") == 5
        assert found.value("bullpen_loop_failing", loop="debts") == 1
        assert found.value("bullpen_loop_last_success_age_seconds", loop="debts") is None


async def test_requests_to_services_are_shown_by_call_and_result(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.ports.traffic.note("ec2", "CreateFleet", RequestResult.THROTTLED)
        found = await scraped(house)
        labels = {"service": "ec2", "call": "CreateFleet", "result": "throttled"}
        assert found.value("bullpen_engine_requests_total", **labels) == 1


# ---- provisions of all processes


async def test_provisions_of_other_processes_are_counted_once_from_their_reports(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    async with a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) as house:
        assert (await scraped(house)).value("bullpen_provisions_total", resource_class="small", outcome="met") == 0
        await asyncio.sleep(100)
        kept = Lane("i-8", Origin.SELECTED, picked=0.1, claimed=0.2, registered=0.3, kept=True)
        lost = Lane("i-9", Origin.SELECTED, picked=0.1, claimed=0.2, reason="no signal", fate="terminating")
        failed = {"outcome": ReportOutcome.FAILED, "cause": FailureCause.CAPACITY, "lanes": (lost, kept)}
        history.all = [a_report(house, "p-1"), a_report(house, "p-2", 50, **failed)]
        for _ in range(2):  # what is within the overlap is read again, and counted once
            await after_a_while()
            await scraped(house)
        await after_a_while()
        found = await scraped(house)
        assert history.asked == 4
        assert found.value("bullpen_provisions_total", resource_class="small", outcome="met") == 1
        assert found.value("bullpen_provisions_total", resource_class="small", outcome="failed") == 1
        assert found.value("bullpen_provisions_failed_total", cause="capacity") == 1
        assert found.value("bullpen_provision_runners_total", resource_class="small", origin="selected") == 4
        assert found.value("bullpen_provision_runners_total", resource_class="small", origin="created") == 2
        assert found.value("bullpen_claim_collisions_total", resource_class="small") == 8
        assert found.value("bullpen_pickup_verdicts_total", resource_class="small", verdict="put-back") == 12
        discarded = {"origin": "selected", "reached": "claimed", "fate": "terminating"}
        assert found.value("bullpen_runners_discarded_total", **discarded) == 1
        assert found.total("bullpen_runners_discarded_total") == 1
        assert found.value("bullpen_provision_duration_seconds_sum", outcome="met") == 2
        assert found.value("bullpen_provision_stage_seconds_count", stage="create") == 2
        await asyncio.sleep(1000)
        assert (await scraped(house)).total("bullpen_provisions_total") == 2


async def test_a_report_that_becomes_visible_late_is_counted(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    async with a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) as house:
        await asyncio.sleep(100)
        await scraped(house)
        await after_a_while()
        history.all = [a_report(house, "p-1", 30)]  # it ended before the last scrape
        assert (await scraped(house)).total("bullpen_provisions_total") == 1


async def test_what_ended_before_this_server_began_is_not_counted(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    async with a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) as house:
        history.all = [a_report(house, "p-1", 30)]
        assert (await scraped(house)).total("bullpen_provisions_total") == 0


async def test_the_series_of_the_pool_are_the_same_at_every_server(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    one, other = (a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) for _ in range(2))
    async with one as first, other as second:
        for walk in (on_offer("i-1"), running("i-2"), cleaning("i-3")):
            await land(first.ports.records, walk)
        await first.ports.records.apply(open_provision("p-9", deadline=later(first.ports.clock.now(), 600)))
        await first.beat()
        await asyncio.sleep(70)
        history.all = [a_report(first, "p-1"), a_report(first, "p-2", 10)]
        shown = [await scraped(house) for house in (first, second)]
        of_pool = {family.name.removesuffix("_total") for family in FAMILIES if family.source is SeriesSource.POOL}
        values = [{name: sorted(map(repr, one.families[name].samples)) for name in of_pool} for one in shown]
        assert values[0] == values[1]
        assert shown[0].total("bullpen_provisions_total") == 2
        accepted = [one.value("bullpen_heartbeats_total", result="accepted") for one in shown]
        assert accepted == [1, 0]  # of the process


# ---- names from outside


async def test_many_and_hostile_names_make_neither_more_series_nor_other_lines(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    async with a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) as house:
        before = (await scraped(house)).size
        for number in range(600):
            await land(house.ports.records, on_offer(f"i-{number}", resource_class=f"class-{number}{HOSTILE}"))
            house.ports.traffic.note("github", f"GET {number}{3 * HOSTILE}", RequestResult.OK)
        lane = Lane("i-1", Origin.CREATED, reason=HOSTILE, fate=HOSTILE)
        history.all = [
            a_report(house, f"p-{n}{HOSTILE}", resource_class=f"r-{n}{HOSTILE}", run_id=HOSTILE, lanes=(lane,))
            for n in range(600)
        ]
        await after_a_while()
        found = await scraped(house)
        assert "forged_metric" not in found.families
        assert "\x1b" not in found.text
        assert found.size - before < 6 * MOST_SERIES
        for family in found.families.values():
            names = {tuple(sorted({**s.labels, "le": ""}.items())) for s in family.samples}
            assert len(names) <= MOST_SERIES, family.name
            assert all(len(label) <= LONGEST_LABEL for s in family.samples for label in s.labels.values())
        # Nothing is lost: what has no name of its own is counted together.
        assert found.value("bullpen_instances", resource_class="other", state="idle") == 550
        assert found.total("bullpen_provisions_total") == 600


def test_every_name_has_its_unit_and_says_what_it_counts() -> None:
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is SeriesKind.COUNTER), family.name
        assert family.name.startswith(("bullpen_", "gha_"))
        assert family.text.endswith(".")
        if family.kind is SeriesKind.HISTOGRAM or " long " in f" {family.text} ":
            assert family.name.endswith("_seconds"), family.name
        assert not {"run", "run_id", "instance", "job_name", "worker"} & set(family.labels), family.name


# ---- the store


async def test_a_store_that_is_down_is_a_value_and_the_series_of_the_process_stay(tmp_path: Path) -> None:
    memory, faults = Memory(), Faults()
    ports = memory.ports(LoopClock(), SeededChance(), faults)
    async with a_house(tmp_path, settings=SETTINGS, ports=ports) as house:
        assert (await scraped(house)).value("bullpen_store_up") == 1
        faults.rates = Rates(lost_request=1.0)
        await after_a_while()
        found = await scraped(house)
        assert found.value("bullpen_store_up") == 0
        assert found.labels("bullpen_instances") == []  # not 0: nothing is known
        assert found.labels("bullpen_provisions_total") == []
        assert found.value("bullpen_heartbeats_total", result="accepted") == 0
        faults.rates = Rates()
        await after_a_while()
        assert (await scraped(house)).value("bullpen_store_up") == 1


async def test_a_store_that_does_not_answer_keeps_no_scrape_waiting(tmp_path: Path) -> None:
    memory, faults = Memory(), Faults(rates=Rates(latency=(60.0, 60.0)))
    ports = memory.ports(LoopClock(), SeededChance(), faults)
    async with a_house(tmp_path, settings=SETTINGS, ports=ports) as house:
        began = asyncio.get_running_loop().time()
        assert (await scraped(house)).value("bullpen_store_up") == 0
        assert asyncio.get_running_loop().time() - began <= STORE_ANSWERS


async def test_scrapes_at_the_same_time_and_within_a_second_share_one_read(tmp_path: Path) -> None:
    memory, faults = Memory(), Faults(rates=Rates(latency=(0.05, 0.1)))
    ports = memory.ports(LoopClock(), SeededChance(), faults)
    async with a_house(tmp_path, settings=SETTINGS, ports=ports) as house:
        await asyncio.gather(*(scraped(house) for _ in range(20)))
        await scraped(house)
        assert faults.requests["records.census"] == 1
        await after_a_while()
        await scraped(house)
        assert faults.requests["records.census"] == 2


async def test_a_server_under_load_still_answers_scrapes(tmp_path: Path) -> None:
    async with a_house(tmp_path, admission=Admission(requests=0)) as house:
        assert (await house.ask("GET", "/v1/status")).status_code == 429
        assert (await scraped(house)).value("bullpen_store_up") == 1


async def test_an_unexpected_error_of_the_store_is_a_store_that_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:

        async def broken() -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(house.ports.workers, "census", broken)
        assert (await scraped(house)).value("bullpen_store_up") == 0


async def test_no_scrape_reads_every_record(tmp_path: Path) -> None:
    memory, faults = Memory(), Faults()
    ports = memory.ports(LoopClock(), SeededChance(), faults)
    async with a_house(tmp_path, settings=SETTINGS, ports=ports) as house:
        await scraped(house)
        asked = set(faults.requests)
        assert not asked & {"records.live", "records.instances", "workers.listed", "signals.read"}, asked
        assert faults.requests.total() <= 10 + 2 * len(SETTINGS.classes), faults.requests


async def test_a_call_that_reports_itself_after_it_was_given_up_for_dead_is_counted_once(tmp_path: Path) -> None:
    history, memory = Reports(), Memory()
    async with a_house(tmp_path, settings=SETTINGS, ports=ports_with(history, memory)) as house:
        await asyncio.sleep(10)
        history.all = [a_report(house, "p-1", 5, outcome=ReportOutcome.FAILED)]
        assert (await scraped(house)).value("bullpen_provisions_total", resource_class="small", outcome="failed") == 1
        await after_a_while()
        history.all.append(a_report(house, "p-1", 0, outcome=ReportOutcome.FAILED))
        assert (await scraped(house)).value("bullpen_provisions_total", resource_class="small", outcome="failed") == 1


# ---- access


async def test_a_token_of_the_scope_read_is_needed_once_there_are_tokens(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/metrics")).status_code == 200
        house.guard()
        refused = await house.ask("GET", "/metrics")
        assert refused.status_code == 401
        assert "bullpen_" not in refused.text
        answer = await house.ask("GET", "/metrics", "read")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert (await house.ask("GET", "/metrics", "i-00000000000000aa")).status_code == 403


async def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/metrics?name=up")).status_code == 400
