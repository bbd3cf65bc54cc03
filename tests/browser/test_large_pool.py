"""Five thousand instances in a real store, in a real server, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bench.watching import INSTANCES, fill_pool
from playwright.sync_api import Browser, expect

from browser.stage import serving, viewed

pytestmark = pytest.mark.slow


def aside(work: Callable[[], object]) -> None:
    """In a thread of its own: Playwright's event loop runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_five_thousand_instances_are_one_list_that_scrolls_and_filters(chromium: Browser, tmp_path: Path) -> None:
    home = tmp_path / "home"  # of records alone: no process has to be ended
    home.mkdir(0o700)
    aside(lambda: fill_pool(home, INSTANCES))
    with serving(home) as server, viewed(chromium, server) as view:
        view.go("instances")
        grid = view.page.get_by_role("grid", name="Instances")
        expect(grid).to_have_attribute("aria-rowcount", "5001")
        expect(view.page.locator("main .answer")).to_contain_text("5,000 instances")
        assert view.page.locator(".grid-row").count() < 80
        assert view.page.locator("*").count() < 3000

        view.page.locator(".grid-rows").evaluate("one => one.scrollTop = one.scrollHeight")
        expect(view.row(f"i-{4999:016x}")).to_be_visible()
        view.press("f")
        view.page.keyboard.type(f"{2048:016x}")
        expect(grid).to_have_attribute("aria-rowcount", "2")
        expect(view.row(f"i-{2048:016x}")).to_be_visible()
        view.go("pools")
        expect(view.page.locator("main table .figure")).to_contain_text(["5,000"])
