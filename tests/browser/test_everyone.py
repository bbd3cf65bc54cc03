"""Everyone can use the dashboard: with the keyboard alone, in a narrow window, in both themes, with assistive programs.

The pool is made, and has a bit of everything: every page shows all that it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import MadeServer, made_server
from browser.stage import NARROW, PLACES, WIDE, viewed, widest

pytestmark = pytest.mark.slow
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.fixture(scope="module")
def pool() -> MadePool:
    return MadePool()


@pytest.fixture
def server(pool: MadePool) -> Iterator[MadeServer]:
    with made_server(MadeServer(made_answers.answers(pool), pool.beginning)) as found:
        yield found


def places(pool: MadePool) -> list[str]:
    one = next(one.id for one in pool.instances.values() if one.run_id == made_answers.RUN)
    return [*PLACES, "queue?open=48231", f"instances/{one}", f"runs/{made_answers.RUN}", "instances/i-0123456789abcdef"]


def findings(page: Any, axe: str) -> list[str]:
    """What axe-core holds against the page, but hints."""
    page.evaluate(axe)
    found = page.evaluate("rules => axe.run(document, rules)", RULES)
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical", "moderate")
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "light"), (NARROW, "dark")])
def test_axe_finds_nothing_on_any_page(
    chromium: Browser, axe: str, server: MadeServer, pool: MadePool, size: tuple[int, int], theme: str
) -> None:
    with viewed(chromium, server, size, theme) as view:
        for place in places(pool):
            view.go(place)
            assert findings(view.page, axe) == [], place


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "dark"), (NARROW, "light")])
def test_axe_finds_nothing_in_dialogs_and_states(
    chromium: Browser, axe: str, server: MadeServer, size: tuple[int, int], theme: str
) -> None:
    with viewed(chromium, server, size, theme) as view:
        view.go("pools")
        view.page.get_by_role("button", name="Provision…").click()
        expect(view.page.get_by_role("dialog")).to_contain_text("2 claimed from the pool")
        assert findings(view.page, axe) == []
        view.press("Escape", "?")
        assert findings(view.page, axe) == []
        view.press("Escape")
        server.tell("trouble", {"reason": "the store does not answer"})
        expect(view.page.locator("#banner")).to_contain_text("The store is in trouble")
        assert findings(view.page, axe) == []


def test_no_page_with_everything_scrolls_sideways_in_a_narrow_window(
    chromium: Browser, server: MadeServer, pool: MadePool
) -> None:
    for width in (NARROW[0], 340):
        with viewed(chromium, server, (width, 700)) as view:
            for place in places(pool):
                view.go(place)
                assert widest(view.page) == [], f"{place} at {width}"


def test_the_keyboard_alone_reaches_everything(chromium: Browser, server: MadeServer, pool: MadePool) -> None:
    with viewed(chromium, server) as view:
        view.go("pools")
        view.press("Tab")
        expect(view.page.locator("#skip")).to_be_focused()
        view.press("Enter")
        expect(view.page.locator("#main")).to_be_focused()

        for letter, name in zip("qirwscoap", [*PLACES[1:], "pools"], strict=True):
            view.press("g", letter)
            expect(view.page.locator("[aria-current=page]").first).to_contain_text(name.capitalize())

        view.press("g", "i")
        view.press("j", "j", "j", "k")
        grid = view.page.get_by_role("grid", name="Instances")
        expect(grid).to_be_focused()
        chosen = view.page.locator(".grid-row.chosen")
        assert grid.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
        id = chosen.locator("a.id").first.inner_text()
        view.press("Enter")
        expect(view.page.locator("main .name")).to_have_text(id)
        view.press("Escape")
        expect(view.page.get_by_role("grid", name="Instances")).to_be_visible()

        view.press("f")
        view.page.keyboard.type("48226")
        expect(view.row("48226")).to_have_count(12)
        view.press("Escape", "/")
        view.page.keyboard.type("48228")
        expect(view.page.get_by_role("option").first).to_contain_text("48228")
        view.press("Enter")
        view.see("Run 48228")

        view.press("t", "t")
        assert view.page.evaluate("document.documentElement.dataset.theme") == "dark"
        view.press("?")
        expect(view.page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
        view.press("Escape")
        expect(view.page.get_by_role("dialog")).to_be_hidden()


def test_an_address_holds_page_id_and_filter_and_back_returns(chromium: Browser, server: MadeServer) -> None:
    with viewed(chromium, server) as view:
        view.go("instances")
        view.page.get_by_role("button", name="Silent").click()
        expect(view.page).to_have_url(f"{server.url}/#/instances?state=silent")
        expect(view.row("running")).to_have_count(14)
        view.row("Suspect").first.locator("a.id").first.click()
        view.see("It has been silent since")
        view.page.go_back()
        expect(view.page).to_have_url(f"{server.url}/#/instances?state=silent")
        expect(view.row("running")).to_have_count(14)
