"""The dashboard in a real browser: a busy pool, and how long the browser is busy with it.

Another process changes 200 instances a second and lets every worker beat; the page is loaded, scrolled and filtered
meanwhile. A task of more than 50 ms is long: the browser itself reports them.
"""

import shutil
import statistics
from collections.abc import Iterator
from typing import Any

from bench.heartbeats import serving
from bench.homes import a_home
from bench.table import Measurement, Row, row, skipped
from bench.watching import CHANGES, INSTANCES, changing, fill_pool

LOADS = 5  # of which the median counts
WATCHED = 12_000  # milliseconds for each page
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
OBSERVER = """
    window.longTasks = [];
    new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longTasks.push(one.duration); })
        .observe({ type: "longtask", buffered: true });
"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
PAGES = ("instances", "pools", "runs", "workers", "activity")


def seen(size: int = INSTANCES, changes: int = CHANGES) -> Iterator[Row]:
    subject = f"dashboard at {size:,} instances and {changes} changes a second"
    program = shutil.which("chromium")
    if program is None:
        yield skipped(f"{subject}: first paint", "no chromium on the PATH")
        return
    with a_home() as home:
        fill_pool(home, size)
        with serving(home) as serve, changing(home, changes, size // 5):
            paints, whole, tasks, elements = _looked_at(program, f"http://127.0.0.1:{serve.port}", size)
    budgeted = size == INSTANCES
    yield row(f"{subject}: first paint", statistics.median(paints), "ms", "< 1000" if budgeted else "")
    yield row(f"{subject}: every instance is shown", statistics.median(whole), "ms")
    yield row(f"{subject}: longest task while it loads", tasks["load"], "ms", "< 100" if budgeted else "")
    for page in PAGES:
        yield row(f"{subject}: longest task of {page}", tasks[page], "ms", "< 100" if budgeted else "")
    yield row(f"{subject}: elements of the list", elements, "elements")


def _looked_at(program: str, url: str, size: int) -> tuple[list[float], list[float], dict[str, float], int]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        paints, whole, tasks = list[float](), list[float](), {"load": 0.0}
        for _ in range(LOADS):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(OBSERVER)
            page.goto(f"{url}/#/instances")
            page.wait_for_selector(f"[role=grid][aria-rowcount='{size + 1}']")
            whole.append(float(page.evaluate("performance.now()")))
            paints.append(float(page.evaluate(PAINTED)))
            tasks["load"] = max(tasks["load"], _longest(page))
            page.close()
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(OBSERVER)
        page.goto(f"{url}/#/instances")
        page.wait_for_selector(f"[role=grid][aria-rowcount='{size + 1}']")
        elements = int(page.evaluate("document.querySelectorAll('*').length"))
        for name in PAGES:
            page.evaluate(f"location.hash = '#/{name}'")
            page.wait_for_timeout(2000)
            page.evaluate("longTasks.length = 0")
            page.mouse.move(720, 600)
            for step in range(WATCHED // 200):
                page.mouse.wheel(0, 900 if step % 20 < 15 else -3000)
                page.wait_for_timeout(200)
            tasks[name] = _longest(page)
        browser.close()
    return paints, whole, tasks, elements


def _longest(page: Any) -> float:
    return float(page.evaluate("Math.max(0, ...longTasks)"))


MEASUREMENTS = (Measurement("dashboard: in a browser", seen),)
