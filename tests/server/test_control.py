"""How the pool is kept, and its last minutes, as the dashboard asks for them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from builders import cleaning, on_offer, running, terminated
from bullpen import operate
from bullpen.background_loop import TURNS_KEPT
from bullpen.errors import Unavailable
from bullpen.history.prices import price_of
from bullpen.inventory.offers import EVERY, KEPT, OfferSamples
from bullpen.model.activity_note import ActionNote
from bullpen.model.report import ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass, format_time
from bullpen.server.routes.control import MOST_DEBTS
from conformance.landing import land
from server.fixtures import House, a_house


async def control(house: House) -> dict[str, Any]:
    answer = await house.ask("GET", "/v1/control")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def series(house: House, minutes: int = 30) -> dict[str, Any]:
    answer = await house.ask("GET", f"/v1/series?minutes={minutes}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def a_provision(id: str, ended_at: datetime, waited: float, created: int) -> ProvisionReport:
    """One that got two runners, so many of them new."""
    return ProvisionReport(
        id,
        "run-1",
        "acme/widgets",
        "small",
        UsageClass.ON_DEMAND,
        "default",
        ended_at - timedelta(seconds=waited),
        ended_at,
        ReportOutcome.MET,
        selected=2 - created,
        created=created,
    )


# ---- loops


async def test_every_loop_is_shown_with_its_last_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        before = {one["name"]: one for one in (await control(house))["loops"]}
        assert list(before) == [loop.name for loop in house.context.service.loops]
        assert (before["debts"]["turns"], before["debts"]["lastTurn"], before["debts"]["alive"]) == ([], None, False)
        loop = next(one for one in house.context.service.loops if one.name == "debts")
        works = [True, False]

        async def work() -> None:
            await asyncio.sleep(2)
            if not works.pop(0):
                raise Unavailable("the store is away")

        monkeypatch.setattr(loop, "_work", work)
        began = house.ports.clock.now()
        await loop.run_once()
        await asyncio.sleep(10)
        await loop.run_once()
        await asyncio.sleep(10)
        shown = next(one for one in (await control(house))["loops"] if one["name"] == "debts")
        assert [(turn["seconds"], turn["ok"]) for turn in shown["turns"]] == [(2.0, True), (2.0, False)]
        assert [turn["at"] for turn in shown["turns"]] == [
            format_time(began),
            format_time(began + timedelta(seconds=12)),
        ]
        assert (shown["lastTurn"], shown["lastSeconds"]) == (shown["turns"][-1]["at"], 2.0)
        assert (shown["error"], shown["failing"], shown["alive"]) == ("the store is away", False, True)


async def test_a_loop_keeps_a_bounded_number_of_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        loop = house.context.service.loops[0]

        async def work() -> None:
            await asyncio.sleep(1)

        monkeypatch.setattr(loop, "_work", work)
        for _ in range(TURNS_KEPT + 5):
            await loop.run_once()
        assert len((await control(house))["loops"][0]["turns"]) == TURNS_KEPT


# ---- debts


async def test_debts_are_shown_with_what_they_wait_for_the_longest_overdue_first(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        gone = await land(house.ports.records, terminated("i-1"))
        dirty = await land(house.ports.records, cleaning("i-2"))
        await land(house.ports.records, running("i-3"))
        assert gone.owes is not None
        assert dirty.owes is not None
        shown = (await control(house))["debts"]
        assert sorted(one["subject"] for one in shown) == ["i-1", "i-2"]
        assert [one["dueAt"] for one in shown] == sorted(one["dueAt"] for one in shown)
        of = {one["subject"]: one for one in shown}
        assert (of["i-1"]["kind"], "machine" in of["i-1"]["waitsFor"]) == ("terminate", True)
        assert (of["i-2"]["kind"], "cleans up" in of["i-2"]["waitsFor"]) == ("await-and-offer", True)
        house.context.service._setbacks.note("i-1", Unavailable("EC2 does not answer"))
        of = {one["subject"]: one for one in (await control(house))["debts"]}
        assert of["i-1"]["waitsFor"] == "EC2 does not answer"


async def test_of_a_great_many_debts_some_are_shown(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for number in range(MOST_DEBTS + 1):
            await land(house.ports.records, terminated(f"i-{number}"))
        shown = await control(house)
        assert (len(shown["debts"]), shown["moreDebts"]) == (MOST_DEBTS, True)


# ---- the rest


async def test_the_store_its_servers_and_pauses_are_shown(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await house.context.service._note_health()
        shown = await control(house)
        assert shown["store"] == {"works": True, "kind": "SQLite"}
        assert [one["process"] for one in shown["replicas"]] == [house.context.service.process]
        assert (shown["pauses"], shown["hold"], shown["rateLimits"], shown["runnerVersion"]) == ([], "", [], None)
        await operate.pause(house.ports, house.context.settings, "small", "an upgrade", operator="ann")
        (hold,) = (await control(house))["pauses"]
        assert (hold["resourceClass"], hold["note"]) == ("small", "an upgrade")


@pytest.mark.parametrize("path", ["/v1/control", "/v1/series"])
async def test_only_an_operator_asks(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask("GET", path)).status_code == 401
        assert (await house.ask("GET", path, "i-00000000000000aa")).status_code == 403
        assert (await house.ask("GET", path, "read")).status_code == 200


# ---- series


async def test_each_class_has_every_minute_of_the_range_and_what_is_not_known_is_null(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        shown = await series(house, 10)
        assert shown["dataSince"] is None
        assert [one["resourceClass"] for one in shown["classes"]] == [*house.context.settings.classes]
        points = shown["classes"][0]["points"]
        assert len(points) == 10
        assert {(one["provisions"], one["waitP50"], one["onOffer"]) for one in points} == {(0, None, None)}
        assert points[0]["at"] == shown["since"]


async def test_what_is_on_offer_is_sampled_by_the_loop_that_keeps_it(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        await land(house.ports.records, on_offer("i-1", threshold=house.ports.clock.now() + timedelta(hours=9)))
        loop = next(one for one in house.context.service.loops if one.name == "warm")
        assert await loop.run_once(), loop.error
        shown = await series(house)
        assert shown["dataSince"] is not None
        of = {one["resourceClass"]: one["points"][-1]["onOffer"] for one in shown["classes"]}
        assert of == {name: int(name == "small") for name in house.context.settings.classes}


async def test_samples_are_bounded_and_taken_no_more_often_than_they_are_shown(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        samples, now = OfferSamples(), house.ports.clock.now()
        for second in range(0, 5 * int(KEPT.total_seconds()), 5):
            samples.note(now + timedelta(seconds=second), ["small"], [])
        kept = samples.between(now, now + 9 * KEPT)
        assert len(kept) == KEPT // EVERY
        assert {later.at - sooner.at for sooner, later in pairwise(kept)} == {EVERY}


async def test_provisions_of_the_range_are_counted_by_minute_with_how_long_they_waited(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        now = house.ports.clock.now()
        for number, (waited, created) in enumerate(((1.0, 0), (3.0, 2))):
            await house.ports.history.note_provision(
                a_provision(f"p-{number}", now - timedelta(seconds=61), waited, created)
            )
        shown = next(one for one in (await series(house))["classes"] if one["resourceClass"] == "small")
        assert (shown["provisions"], shown["selected"], shown["created"], shown["coldStarts"]) == (2, 2, 2, 1)
        (point,) = [one for one in shown["points"] if one["provisions"]]
        assert (point["waitP50"], point["waitP95"]) == (1.0, 3.0)


async def test_the_price_of_an_hour_counts_what_has_a_price_and_says_what_has_none(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert ((await series(house))["pricePerHour"], (await series(house))["unpriced"]) == (0, 0)
        await land(house.ports.records, on_offer("i-1", instance_type="unheard.of"))
        assert ((await series(house))["pricePerHour"], (await series(house))["unpriced"]) == (None, 1)
        await land(house.ports.records, on_offer("i-2", instance_type="m7g.large"))
        shown = await series(house)
        assert (shown["pricePerHour"], shown["unpriced"]) == (
            float(price_of(house.context.settings, "m7g.large", UsageClass.ON_DEMAND) or 0),
            1,
        )
        assert shown["pricePerHour"] > 0


async def test_troubles_are_marked_on_the_axis(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        now = house.ports.clock.now() - timedelta(seconds=30)
        notes = [
            ActionNote(now, "serve/reap", "end", "i-1", "no heartbeat", trouble=True),
            ActionNote(now, "serve/warm", "launch", "i-2", "one of three is missing"),
        ]
        await house.ports.history.note_actions(notes)
        (mark,) = (await series(house))["marks"]
        assert (mark["subject"], mark["did"], mark["reason"]) == ("i-1", "end", "no heartbeat")


@pytest.mark.parametrize("minutes", ["0", "4", "181", "x", "-5", "1e3"])
async def test_a_range_that_is_too_short_or_too_long_is_refused(tmp_path: Path, minutes: str) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", f"/v1/series?minutes={minutes}")
        assert (answer.status_code, answer.json()["field"]) == (400, "minutes")
