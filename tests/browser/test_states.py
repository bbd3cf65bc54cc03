"""States that a page must say: nothing that fits, an older server, a missing price, no data, a store in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import MISSING, Answer, MadeServer, made_server
from browser.stage import DashboardView, viewed
from bullpen.schema.activity import ActivityList
from bullpen.schema.cost import AmountAnswer

pytestmark = pytest.mark.slow
NEWER = ["queue", "plan", "pauses", "control", "cost", "cost/hours", "activity", "series"]


@contextmanager
def shown(browser: Browser, changed: dict[str, Answer] | None = None) -> Iterator[tuple[DashboardView, MadeServer]]:
    pool = MadePool()
    answers = {**made_answers.answers(pool), **(changed or {})}
    with made_server(MadeServer(answers, pool.beginning)) as server, viewed(browser, server) as view:
        yield view, server


def test_a_filter_that_nothing_fits_can_be_cleared(chromium: Browser) -> None:
    with shown(chromium) as (view, _):
        view.go("instances?q=no-such-thing")
        view.see("No instance fits the filter.")
        view.page.get_by_role("button", name="Clear the filters").click()
        expect(view.row("Lost, running")).to_have_count(3)


def test_an_older_server_is_shown_with_what_it_has(chromium: Browser) -> None:
    absent: dict[str, Answer] = {f"/v1/{name}": MISSING for name in NEWER}
    with shown(chromium, {**absent, "/v1/why/": MISSING, "/v1/session": MISSING}) as (view, _):
        view.go("pools")
        expect(view.page.locator("main table")).to_contain_text("22 of 24")
        view.go("cost")
        view.see("Not available: this server does not report what it costs.")
        view.go("activity")
        view.see("Not available")
        view.go("control")
        view.see("All 7 loops turn.")
        view.go("queue")
        view.see("No provision waits for a cap.")


def test_activity_without_an_action_says_what_would_appear_there(chromium: Browser) -> None:
    with shown(chromium, {"/v1/activity": ActivityList([], "")}) as (view, _):
        view.go("activity")
        view.see("No actions yet")
        view.see("bullpen refresh")


def test_a_store_in_trouble_is_said_and_the_end_of_it(chromium: Browser) -> None:
    with shown(chromium) as (view, server):
        view.go("instances")
        server.tell("trouble", {"reason": "database is locked"})
        expect(view.page.locator("#banner")).to_contain_text("The store is in trouble")
        expect(view.page.locator("#banner")).to_contain_text("database is locked")
        server.tell("ready", {"instances": 1, "jobs": 0})
        expect(view.page.locator("#banner")).to_be_empty()


def test_what_needs_attention_says_how_much_of_it_is_not_shown(chromium: Browser) -> None:
    with shown(chromium) as (view, _):
        view.go("pools")
        view.see("5 of 7, the worst and the newest")
        expect(view.page.locator("main .list-row").first).to_contain_text("3 workers were lost")
        badge = view.page.locator(".place .badge.lost")
        side = view.page.locator(".side")
        expect(badge).to_contain_text("14")
        edges = [box["x"] + box["width"] for one in (badge, side) if (box := one.bounding_box())]
        assert edges[0] < edges[1]  # the count is not cut off at the edge of the side bar


def test_a_missing_price_is_said(chromium: Browser) -> None:
    with shown(chromium) as (view, _):
        view.go("cost")
        view.see("These types have no price, so they are counted as $0: c6i.large.")


def test_a_range_without_data_is_no_zero(chromium: Browser) -> None:
    made: Any = dict(made_answers.made_cost(MadePool()))["/v1/cost"]
    nothing = AmountAnswer(0.0, 0.0)
    empty = msgspec.structs.replace(made, total=nothing, machines=nothing, rows=[], data_since="2026-11-01T00:00:00Z")
    with shown(chromium, {"/v1/cost": empty, "/v1/cost?since=24h&by=class": empty}) as (view, _):
        view.go("cost")
        view.see("There is no data before 2026-11-01 00:00:00.")
        assert view.page.locator("main .hours").count() == 0


def test_a_hundred_thousand_actions_are_read_page_by_page(chromium: Browser) -> None:
    def page(number: int) -> dict[str, object]:
        rows = [
            {
                "at": f"2026-11-19T05:{n % 60:02}:00Z",
                "by": "serve/reap",
                "did": "terminate",
                "subject": f"i-{number:04}{n:012x}",
                "reason": "idle",
                "isDone": True,
                "trouble": False,
            }
            for n in range(200)
        ]
        return {"actions": rows, "next": str(number + 1)}

    pages: dict[str, Answer] = {f"/v1/activity?limit=200&before={n}": page(n) for n in range(1, 500)}
    with shown(chromium, {**pages, "/v1/activity": page(0)}) as (view, _):
        view.go("activity")
        grid = view.page.get_by_role("grid", name="Activity")
        expect(grid).to_have_attribute("aria-rowcount", "201")
        for n in range(2, 5):
            view.page.locator(".grid-rows").evaluate("one => one.scrollTop = one.scrollHeight")
            expect(grid).to_have_attribute("aria-rowcount", str(200 * n + 1))
        assert view.page.locator(".grid-row").count() < 80


def test_an_action_is_done_only_when_it_is_confirmed(chromium: Browser) -> None:
    with shown(chromium) as (view, server):
        view.go("control")
        view.page.get_by_role("button", name="Pause…").click()
        dialog = view.page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
        view.page.get_by_role("textbox", name="Note").fill("the image breaks npm")
        expect(dialog).to_contain_text("no new claims and launches")
        assert all(b'"dryRun":true' in body for _, path, body in server.asked if path == "/v1/pause")
        dialog.get_by_role("button", name="Cancel").click()
        assert all(b'"dryRun":true' in body for _, path, body in server.asked if path == "/v1/pause")
        view.page.get_by_role("button", name="Pause…").click()
        view.page.get_by_role("textbox", name="Note").fill("the image breaks npm")
        dialog.get_by_role("button", name="Pause", exact=True).click()
        expect(view.page.locator("#toasts")).to_contain_text("The pool is paused.")
        assert b'"dryRun":false' in server.asked[-1][2]


def test_a_page_that_stays_open_keeps_the_last_operations_and_every_running_one(chromium: Browser) -> None:
    def operation(number: int, state: str) -> dict[str, object]:
        at = f"2026-11-19T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        return {"id": f"op-{number}", "kind": "release", "runId": f"r-{number}", "state": state, "startedAt": at}

    with shown(chromium) as (view, server):
        view.go("runs")
        server.tell("operation", operation(0, "running"))
        for number in range(1, 800):
            server.tell("operation", operation(number, "succeeded"))
        expect(view.row("r-799")).to_contain_text("Released")
        kept = view.page.evaluate("import('/dashboard/store.js').then(store => [...store.operations.keys()])")
        assert len(kept) == 500
        assert {"op-0", "op-799"} <= {*kept}


def test_minutes_without_provisions_are_gaps_in_the_charts_and_no_zeros(chromium: Browser) -> None:
    pool = MadePool()
    made: Any = dict(made_answers.made_series(pool))["/v1/series"]
    nothing = {"provisions": 0, "selected": 0, "created": 0, "cold_starts": 0, "wait_p50": None, "wait_p95": None}
    classes = [
        msgspec.structs.replace(
            one, points=[msgspec.structs.replace(point, **nothing, on_offer=None) for point in one.points]
        )
        for one in made.classes
    ]
    empty = msgspec.structs.replace(made, classes=classes, data_since=pool.before(60))
    with shown(chromium, {"/v1/series": empty, "/v1/series?minutes=30": empty}) as (view, _):
        view.go("pools")
        charts = view.page.locator(".chart-panel")
        expect(charts).to_have_count(3)
        lines = charts.locator("path.line").evaluate_all("all => all.map(one => one.getAttribute('d'))")
        assert lines
        assert not any(lines)
        expect(charts.nth(1).locator(".legend")).to_contain_text("provisions with a cold start –")
        expect(view.page.locator("main", has_text="No data before")).to_have_count(1)
        assert [text for text in charts.all_inner_texts() if "No data before" in text] == [charts.nth(2).inner_text()]
