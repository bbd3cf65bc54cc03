"""What an operator watches in the dashboard, on a real pool: runs that begin, runners that die, a server that goes."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from browser.stage import a_free_port, begun, cli, serving, viewed

pytestmark = pytest.mark.slow
LONG = ["--no-sync", "--", "sleep", "600"]
SOON = [
    *("--set", "timings.heartbeat=2", "--set", "timings.lease=6", "--set", "timings.alive=6"),
    *("--set", "liveness.confirm=4", "--set", "liveness.grace-gap=7"),
]


def test_a_provision_from_the_command_line_is_watched_until_it_runs(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        view.go("runs")
        view.see("There are no runs.")
        with begun(home, "run", "--run-id", "build-1", "--count", "2", *LONG):
            expect(view.row("build-1")).to_contain_text("Running")
            expect(view.row("build-1")).to_contain_text("2 of 2 small")
            view.row("build-1").click()
            view.see("Run build-1")
            expect(view.page.locator(".lane .job")).to_have_count(2)
            view.go("instances")
            expect(view.row("build-1")).to_have_count(2)
            expect(view.row("build-1").first).to_contain_text("Running")
        view.go("runs")
        expect(view.row("build-1").filter(has_text="Running")).to_have_count(0)


def test_a_provision_from_the_page_shows_its_plan_first(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        view.go("pools")
        view.page.get_by_role("button", name="Provision…").click()
        dialog = view.page.get_by_role("dialog")
        view.page.get_by_label("Run", exact=True).fill("by-hand")
        view.page.get_by_label("Runners", exact=True).fill("2")
        expect(dialog.get_by_role("status")).to_contain_text("2 launched")
        assert cli(home, "status")["runs"] == [], "the plan changed something"
        dialog.get_by_role("button", name="Provision", exact=True).click()
        view.see("Run by-hand")
        expect(view.page.locator("main .pill", has_text="Running").first).to_be_visible()
        view.see("All 2 were ready in")
        assert [(run["id"], run["held"]) for run in cli(home, "status")["runs"]] == [("by-hand", 2)]

        view.page.get_by_role("button", name="Release…").click()
        expect(dialog).to_contain_text("2 runners of run by-hand")
        dialog.get_by_role("button", name="Release", exact=True).click()
        view.go("instances")
        expect(view.row("On offer")).to_have_count(2)


def test_a_killed_runner_turns_red_and_its_job_moves(chromium: Browser, home: Path) -> None:
    with serving(home, *SOON) as server, viewed(chromium, server) as view:
        cli(home, "provision", "--run-id", "lossy", "--count", "3", *SOON)
        job = cli(home, "job", "submit", "--run-id", "lossy", "--name", "moves", "--json", "--", "sleep", "600")["id"]
        view.go(f"subject/{job}")
        runner = view.page.locator("main dd a[href*='instances/']")
        expect(runner).to_be_visible()
        taken = (runner.get_attribute("title") or "").strip()
        victim = next(one for one in cli(home, "status")["instances"] if one["id"] == taken)

        view.go("instances")
        view.row(taken).first.wait_for()
        os.kill(victim["pid"], signal.SIGKILL)
        trouble = view.row(taken).locator(".mark.lost")
        expect(trouble).to_contain_text("Lost")
        assert is_red(trouble)

        view.go(f"subject/{job}")
        expect(runner).not_to_have_attribute("title", taken)
        expect(runner).to_be_visible()
        view.go("runs/lossy")
        view.see("Lost and rescued")
        expect(view.page.locator(".lane .fill-bad")).to_have_count(1)
        expect(view.page.locator(".lane .fill-now")).to_have_count(1)


def test_a_lost_connection_says_so_and_comes_back_without_a_reload(chromium: Browser, home: Path) -> None:
    port = str(a_free_port())
    with serving(home, "--port", port) as server, viewed(chromium, server) as view:
        view.go("runs")
        view.page.evaluate("window.kept = 'kept'")
        server.end()
        expect(view.page.locator("#sign")).to_have_text("Not live")
        expect(view.page.locator("#banner")).to_contain_text("Connection lost")
        expect(view.page.get_by_role("button", name="Try now")).to_be_visible()
        with begun(home, "run", "--run-id", "meanwhile", "--count", "1", *LONG), serving(home, "--port", port):
            expect(view.page.locator("#sign")).to_have_text("Live")
            expect(view.page.locator("#banner")).to_be_empty()
            expect(view.row("meanwhile")).to_contain_text("Running")
            assert view.page.evaluate("window.kept") == "kept"


def is_red(mark: Locator) -> bool:
    """Whether its text and its drawing have much more red than green and blue, as they are shown."""
    colours = mark.evaluate("one => [one, one.querySelector('svg')].map(part => getComputedStyle(part).color)")
    parts = [[float(number) for number in re.findall(r"[\d.]+", colour)[:3]] for colour in colours]
    return all(red > 2 * max(green, blue) for red, green, blue in parts)
