"""A dashboard in a browser: a real `bullpen serve`, the command line beside it, and a page that reports what it did."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, Page, expect

from browser.made_server import MadeServer
from free_ports import a_free_port
from server.served import PATIENCE, ServeProcess, a_server, command, environment

MILLISECONDS = PATIENCE * 1000
expect.set_options(timeout=MILLISECONDS)

WIDE = (1440, 900)
NARROW = (390, 844)
__all__ = ["a_free_port"]
PLACES = ["pools", "queue", "instances", "runs", "workers", "sets", "control", "cost", "activity"]


def cli(home: Path, *arguments: str) -> dict[str, Any]:
    """The answer of a command of Bullpen, which must succeed."""
    given = [*arguments] if "--json" in arguments else [*arguments, "--json"]
    ran = subprocess.run(command(home, *given), env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@contextmanager
def begun(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of Bullpen that goes on while the block runs."""
    process = subprocess.Popen(
        command(home, *arguments), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(PATIENCE)


@dataclass
class DashboardView:
    """A page of the dashboard. `faults` is what it must not do: errors, and requests to other hosts."""

    page: Page
    server: ServeProcess | MadeServer
    faults: list[str] = field(default_factory=list)

    def go(self, place: str) -> None:
        """Show a page, once its data have arrived."""
        self.page.goto(f"{self.server.url}/#/{place}")
        expect(self.page.locator("#sign")).to_have_text("Live")
        expect(self.page.locator("main .bones")).to_have_count(0)

    def see(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def row(self, text: str) -> Locator:
        """The row of a long list that has this text."""
        return self.page.locator(".grid-row:not([hidden])", has_text=text)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def watch(self) -> None:
        host = urlsplit(self.server.url).netloc

        def on_request(url: str) -> None:
            if urlsplit(url).netloc != host:
                self.faults.append(f"request to {url}")

        def on_message(kind: str, text: str) -> None:
            # The browser itself logs answers that are errors; those of tests that ask for them are no fault of a page.
            if kind == "error" and not text.startswith("Failed to load resource"):
                self.faults.append(f"console: {text}")

        self.page.on("request", lambda request: on_request(request.url))
        self.page.on("console", lambda message: on_message(message.type, message.text))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error.stack or error}"))


@contextmanager
def viewed(
    browser: Browser,
    server: ServeProcess | MadeServer,
    size: tuple[int, int] = WIDE,
    theme: str = "light",
    **options: Any,
) -> Iterator[DashboardView]:
    """A new page; at the end it must have done nothing that it must not do."""
    width, height = size
    scheme: Any = theme
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    try:
        context.set_default_timeout(MILLISECONDS)
        view = DashboardView(context.new_page(), server)
        view.watch()
        yield view
        assert view.faults == []
    finally:
        context.close()


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[ServeProcess]:
    with a_server(home, *arguments) as server:
        yield server


def widest(page: Page) -> Sequence[str]:
    """What makes the page scroll sideways, apart from tables in boxes of their own: empty if nothing does."""
    found: list[str] = page.evaluate(
        """() => {
            const wide = document.documentElement.clientWidth;
            const main = document.querySelector("main");
            if (document.documentElement.scrollWidth <= wide && main.scrollWidth <= main.clientWidth) return [];
            return [...main.querySelectorAll("*")]
                .filter((one) => one.getBoundingClientRect().right > wide + 1 && !one.closest(".scroll-x, .chips, pre"))
                .slice(0, 5).map((one) => one.outerHTML.slice(0, 200)).concat("main is " + main.scrollWidth);
        }"""
    )
    return found
