"""Every page of the dashboard, with a run in the pool and without anything in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.stage import NARROW, PLACES, begun, serving, viewed, widest

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=1</script>&amp;"
EMPTY = {
    "pools": ("No runner has been asked for", "bullpen provision --run-id 4711 --count 3"),
    "queue": ("Nothing waits", "bullpen why 4711"),
    "instances": ("No instances", "bullpen provision --run-id 4711 --count 3"),
    "runs": ("No runs", "bullpen run --count 3 -- echo hello"),
    "workers": ("No workers", "bullpen provision --run-id 4711 --count 3"),
    "sets": ("No scale sets", "bullpen doctor"),
    "control": ("Nothing is owed.", "loops turn."),
    "cost": ("No data in this range", "bullpen cost --since 24h"),
}
"""What each page of an empty pool says, and the command that changes it; Control is never empty, and Activity has the
queues that `serve` makes in a new pool."""


def test_every_page_of_an_empty_pool_says_what_would_appear_there(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        assert [*EMPTY, "activity"] == PLACES
        for place, (what, command) in EMPTY.items():
            view.go(place)
            view.see(what)
            view.see(command)
        view.go("activity")
        view.see("make queue")


def test_no_page_scrolls_sideways_in_a_narrow_window(chromium: Browser, home: Path) -> None:
    run = ["run", "--run-id", "n-1", "--count", "2", "--no-sync", "--", "sleep", "600"]
    with serving(home) as server, begun(home, *run), viewed(chromium, server, NARROW, "dark") as view:
        view.go("instances")
        expect(view.row("Running")).to_have_count(2)
        id = view.row("Running").first.locator("a.id").first.inner_text()
        for place in [*PLACES, f"instances/{id}", "runs/n-1"]:
            view.go(place)
            assert widest(view.page) == [], place


def test_hostile_names_and_log_lines_are_text(chromium: Browser, home: Path) -> None:
    run = HOSTILE.replace(" ", "-")
    jobs = [
        "run",
        "--run-id",
        run,
        "--count",
        "1",
        "--name",
        HOSTILE,
        "--no-sync",
        "--",
        "sh",
        "-c",
        f"echo '{HOSTILE}'; sleep 600",
    ]
    with serving(home) as server, begun(home, *jobs), viewed(chromium, server) as view:
        view.go("runs")
        expect(view.row(run)).to_have_count(1)
        view.row(run).click()
        view.see("Run " + run)
        view.see(HOSTILE)
        view.page.locator("main a.id[href*=subject]").first.click()
        expect(view.page.locator("pre.log")).to_contain_text(HOSTILE)
        view.go("instances")
        expect(view.row(run)).to_have_count(1)
        assert view.page.evaluate("window.hit") is None
        assert view.page.locator("main img, main script").count() == 0


def test_an_unknown_id_says_how_long_records_are_kept(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        for place, kind in (
            ("instances/i-0123456789abcdef", "instance"),
            ("runs/4711", "run"),
            ("subject/j-1", "record"),
        ):
            view.go(place)
            view.see(f"No {kind} {place.partition('/')[2]} is known")
            view.see("timings.purge")
