"""Fixtures of the tests that look at the dashboard in a real browser.

    chromium    the browser, one for the tests of a file
    axe         the source of axe-core

Playwright keeps an event loop in the thread that uses it: the tests of these files use no asyncio themselves, and
anything of ours runs in processes of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from fakes import browser_tools
from fakes.api_tools import ApiToolsMissing
from fakes.aws_fixtures import SKIPPED


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = browser_tools.chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=browser_tools.ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    try:
        return browser_tools.axe().read_text()
    except ApiToolsMissing as exc:
        if os.environ.get("BULLPEN_REQUIRE_ENGINES") != "1":
            pytest.skip(f"{SKIPPED}: {exc}")
        raise


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose runners are ended with the test."""
    from server.served import end_pool

    found = tmp_path / "home"
    yield found
    if found.exists():
        end_pool(found)
