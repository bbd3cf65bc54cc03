"""Who may look, and what they may do: tokens, sessions and their ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browser.stage import PLACES, DashboardView, cli, serving, viewed
from bullpen.auth.tokens import Scope
from made_tokens import make_token

pytestmark = pytest.mark.slow


def log_in(view: DashboardView, token: str) -> None:
    view.page.goto(view.server.url)
    view.page.get_by_label("Token", exact=True).fill(token)
    view.page.get_by_role("button", name="Sign in").click()
    expect(view.page.locator("#sign")).to_have_text("Live")


def test_a_token_is_exchanged_for_a_session_that_no_script_can_read(chromium: Browser, home: Path) -> None:
    token = cli(home, "token", "create", "--scope", "operate", "--name", "desk")["token"]
    with serving(home) as server, viewed(chromium, server) as view:
        log_in(view, token)
        expect(view.page.locator("#foot")).to_contain_text("operate")
        (cookie,) = view.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert view.page.evaluate("document.cookie") == ""
        assert token not in view.page.content()
        view.page.reload()
        expect(view.page.locator("#sign")).to_have_text("Live")

        view.page.get_by_role("button", name="Sign out").click()
        expect(view.page.get_by_role("heading", name="Sign in to Bullpen")).to_be_visible()
        assert view.page.context.cookies() == []


def test_a_wrong_token_is_refused_in_words(chromium: Browser, home: Path) -> None:
    cli(home, "token", "create", "--scope", "read", "--name", "other")
    with serving(home) as server, viewed(chromium, server) as view:
        view.page.goto(server.url)
        for kind, why in (("bpo", "The token is wrong, expired or revoked."), ("bpa", "This is an agent's token")):
            view.page.get_by_label("Token", exact=True).fill(kind + "_0123456789abcdef_" + 64 * "0")
            view.page.get_by_role("button", name="Sign in").click()
            expect(view.page.locator("#token-error")).to_contain_text(why)
            expect(view.page.locator("#token-error")).to_contain_text("Create one with `bullpen token create`")


def test_a_token_that_only_reads_shows_no_button_of_an_action(chromium: Browser, home: Path) -> None:
    token = cli(home, "token", "create", "--scope", "read", "--name", "wall")["token"]
    with serving(home) as server, viewed(chromium, server) as view:
        log_in(view, token)
        for place in PLACES:
            view.go(place)
            expect(view.page.locator("main .question").first).to_be_visible()
            assert view.page.locator("main button", has_text="…").count() == 0, place


def test_a_revoked_token_ends_the_session_of_an_open_page(chromium: Browser, home: Path) -> None:
    token = cli(home, "token", "create", "--scope", "read", "--name", "short")["token"]
    cli(home, "token", "create", "--scope", "admin", "--name", "keeps-the-server-closed")
    with serving(home) as server, viewed(chromium, server) as view:
        log_in(view, token)
        cli(home, "token", "revoke", "short")
        expect(view.page.locator("#banner")).to_contain_text("Your session has ended")
        expect(view.page.locator("#sign")).to_have_text("Signed out")
        view.page.get_by_role("button", name="Sign in").click()
        expect(view.page.get_by_role("heading", name="Sign in to Bullpen")).to_be_visible()


def test_an_expired_token_ends_the_session_of_an_open_page(chromium: Browser, home: Path) -> None:
    cli(home, "token", "create", "--scope", "admin", "--name", "keeps-the-server-closed")
    with serving(home) as server, viewed(chromium, server) as view:
        with ThreadPoolExecutor(1) as beside:  # the browser's loop runs in this thread
            token = beside.submit(make_token, home, Scope.READ, timedelta(seconds=20)).result()
        log_in(view, token)
        expect(view.page.locator("#banner")).to_contain_text("Your session has ended")
        expect(view.page.locator("#sign")).to_have_text("Signed out")
        view.page.get_by_role("button", name="Sign in").click()
        expect(view.page.get_by_role("heading", name="Sign in to Bullpen")).to_be_visible()


def test_a_log_out_ends_the_other_pages_of_the_browser_too(chromium: Browser, home: Path) -> None:
    token = cli(home, "token", "create", "--scope", "operate", "--name", "desk")["token"]
    with serving(home) as server, viewed(chromium, server) as view:
        log_in(view, token)
        other = view.page.context.new_page()
        other.goto(f"{server.url}/#/instances")
        expect(other.locator("#sign")).to_have_text("Live")
        view.page.get_by_role("button", name="Sign out").click()
        expect(other.locator("#sign")).to_have_text("Signed out")
        expect(other.locator("#banner")).to_contain_text("Your session has ended")
