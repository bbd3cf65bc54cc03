"""Connections that end, that are cut in silence, and servers that refuse: the page never looks live when it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import MadeServer, made_server
from browser.stage import DashboardView, viewed
from server.served import until

pytestmark = pytest.mark.slow
REFUSED = (503, {"code": "unavailable", "error": "the server cannot read its tokens; see its log"})


@pytest.fixture
def server() -> Iterator[MadeServer]:
    pool = MadePool()
    with made_server(MadeServer(dict(made_answers.answers(pool)), pool.beginning)) as found:
        yield found


def test_a_browser_that_loses_its_network_says_so_and_finds_it_again(chromium: Browser, server: MadeServer) -> None:
    with viewed(chromium, server) as view:
        view.go("pools")
        view.page.context.set_offline(True)
        expect(view.page.locator("#sign")).to_have_text("Not live")
        expect(view.page.locator("#banner")).to_contain_text("Connection lost")
        expect(view.page.locator("body")).to_have_class("stale")
        view.page.context.set_offline(False)
        expect(view.page.locator("#sign")).to_have_text("Live")
        expect(view.page.locator("body")).not_to_have_class("stale")
        expect(view.page.locator("#banner")).to_be_empty()


def test_a_connection_that_was_cut_in_silence_is_noticed(chromium: Browser, server: MadeServer) -> None:
    with viewed(chromium, server) as view:
        view.page.clock.install()
        view.go("instances")
        for _ in range(5):  # a quiet pool: the server still sends comments, of which some may be late
            view.page.clock.fast_forward(12_000)
            view.page.wait_for_timeout(1000)
        assert server.streams == 1
        server.is_mute = True
        view.page.clock.fast_forward(60_000)
        expect(view.page.locator("#sign")).to_have_text("Not live")
        server.is_mute = False
        view.page.clock.fast_forward(20_000)
        expect(view.page.locator("#sign")).to_have_text("Live")
        assert server.streams == 2


def test_what_a_server_says_when_it_refuses_a_page_is_shown(chromium: Browser, server: MadeServer) -> None:
    answers = dict(server.answers)
    server.answers = {**answers, "/v1/session": REFUSED}
    with viewed(chromium, server) as view:
        view.page.goto(server.url)
        expect(view.page.locator("#sign")).to_have_text("Not live")
        expect(view.page.locator("#banner")).to_contain_text("The server cannot read its tokens; see its log.")
        server.answers = answers
        expect(view.page.locator("#sign")).to_have_text("Live")
        expect(view.page.locator("#banner")).to_be_empty()


@pytest.mark.parametrize("place", ["nowhere", "nowhere/i-1", "pools/%E0%A4%A"])
def test_an_address_that_leads_nowhere_is_said(chromium: Browser, server: MadeServer, place: str) -> None:
    with viewed(chromium, server) as view:
        view.go(place)
        view.see(
            "There is no such page." if place.startswith("nowhere") else "Is a warm runner ready for the next run?"
        )


def test_a_log_out_that_the_server_cannot_note_is_no_silent_success(chromium: Browser, server: MadeServer) -> None:
    answers = dict(server.answers)
    with viewed(chromium, server) as view:
        view.go("pools")
        refused = {
            "code": "unavailable",
            "error": "the session has ended at this server; the store could not note it for others",
            "remedy": "Revoke the token if others could have the session: `bullpen token revoke`.",
        }
        server.answers = {**answers, "/v1/session": (503, refused)}
        view.page.get_by_role("button", name="Sign out").click()
        dialog = view.page.get_by_role("dialog", name="You are signed out of this browser only")
        expect(dialog).to_contain_text("Revoke the token")
        dialog.get_by_role("button", name="Close").last.click()
        expect(dialog).to_be_hidden()


def test_a_page_out_of_sight_gives_its_connection_back(chromium: Browser, server: MadeServer) -> None:
    def turn(view: DashboardView, hidden: str) -> None:
        view.page.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden == "hidden",
        )

    with viewed(chromium, server) as view:
        view.page.clock.install()
        view.go("instances")
        turn(view, "hidden")
        view.page.clock.fast_forward(5_000)
        turn(view, "seen")  # a glance at another page
        view.page.clock.fast_forward(5_000)
        assert server.streams == 1
        turn(view, "hidden")
        view.page.clock.fast_forward(25_000)
        until(lambda: not server.watching())
        turn(view, "seen")
        expect(view.page.locator("#sign")).to_have_text("Live")
        assert (server.streams, server.watching()) == (2, 1)
