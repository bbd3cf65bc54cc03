"""What an operator does from a page: each action shows first what would happen, and exists for those alone who may."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import Answer, MadeServer, made_server
from browser.stage import PLACES, DashboardView, cli, serving, viewed
from bullpen.model.ticket import UsageClass
from bullpen.schema.pause import OperateAnswer, OperatorAction, PauseAnswer, PauseList
from bullpen.schema.plan import PlannedClaim
from server.served import PATIENCE, until

pytestmark = pytest.mark.slow


@contextmanager
def shown(
    browser: Browser, changed: dict[str, Answer] | None = None
) -> Iterator[tuple[DashboardView, MadeServer, MadePool]]:
    pool = MadePool()
    answers = {**made_answers.answers(pool), **(changed or {})}
    with made_server(MadeServer(answers, pool.beginning)) as server, viewed(browser, server) as view:
        yield view, server, pool


def dialog_of(view: DashboardView, button: str) -> Locator:
    view.page.get_by_role("button", name=button).click()
    return view.page.get_by_role("dialog")


@pytest.mark.parametrize("scope", ["read", "operate", "admin"])
def test_only_who_may_operate_has_the_actions(chromium: Browser, scope: str) -> None:
    pause = PauseAnswer("large", "the image breaks npm", "2026-11-19T05:00:00Z", "ann")
    held = PauseList([pause])
    control: Any = made_answers.made_control(MadePool())["/v1/control"]
    changed: dict[str, Answer] = {
        "/v1/session": {**made_answers.SESSION, "scope": scope},
        "/v1/pauses": held,
        "/v1/control": msgspec.structs.replace(control, pauses=[pause]),
    }
    with shown(chromium, changed) as (view, _, pool):
        instance = next(one.id for one in pool.instances.values() if one.run_id == made_answers.RUN)
        found = {}
        for place in [*PLACES, f"instances/{instance}", f"runs/{made_answers.RUN}"]:
            view.go(place)
            expect(view.page.locator("main .answer").first).to_be_visible()
            if place.startswith("instances/"):
                view.see("In one file with its record and its story.")
            acts = view.page.locator("main button", has_text="…").or_(view.page.locator("main a[download]"))
            found[place.partition("/")[0] + "/" * ("/" in place)] = acts.all_inner_texts()
    allowed = {
        "pools": ["Provision…"],
        "control": ["Pause…", "Resume…"],
        "instances/": ["Drain…", "Download"],
        "runs/": ["Release…"],
    }
    assert {place: texts for place, texts in found.items() if texts} == ({} if scope == "read" else allowed)


def test_an_instance_is_drained_and_a_class_paused_and_resumed_from_the_page(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        cli(home, "provision", "--run-id", "busy", "--count", "1")
        id = cli(home, "status")["instances"][0]["id"]
        view.go(f"instances/{id}")
        with view.page.expect_download() as begun:
            view.page.get_by_role("link", name="Download").click()
        with zipfile.ZipFile(begun.value.path()) as archive:
            assert f"instances/{id}/agent.log" in archive.namelist()
        dialog = dialog_of(view, "Drain…")
        expect(dialog).to_contain_text("drain " + id)
        assert not is_drained(home), "the preview changed something"
        dialog.get_by_role("button", name="Drain", exact=True).click()
        expect(view.page.locator("#toasts")).to_contain_text(f"{id} is drained.")
        view.see("none: it is drained, and takes no new run")
        assert is_drained(home)

        view.go("control")
        dialog = dialog_of(view, "Pause…")
        view.page.get_by_role("textbox", name="Note").fill("the image breaks npm")
        view.page.get_by_label("What", exact=True).select_option("small")
        expect(dialog).to_contain_text("pause class small")
        assert cli(home, "status")["pauses"] == []
        dialog.get_by_role("button", name="Pause", exact=True).click()
        view.see("Class small is paused: the image breaks npm.")
        assert [one["resourceClass"] for one in cli(home, "status")["pauses"]] == ["small"]
        dialog = dialog_of(view, "Resume…")
        expect(dialog).to_contain_text("class small")
        dialog.get_by_role("button", name="Resume", exact=True).click()
        expect(view.page.get_by_role("button", name="Resume…")).to_have_count(0)
        assert cli(home, "status")["pauses"] == []


def is_drained(home: Path) -> bool:
    return bool(cli(home, "status")["instances"][0]["imageGeneration"] == 0)


def test_a_provision_with_the_keyboard_alone(chromium: Browser, home: Path) -> None:
    with serving(home) as server, viewed(chromium, server) as view:
        view.go("pools")
        button = view.page.get_by_role("button", name="Provision…")
        for _ in range(40):
            view.press("Tab")
            if button.evaluate("one => one === document.activeElement"):
                break
        view.press("Enter")
        expect(view.page.get_by_label("Run", exact=True)).to_be_focused()
        view.press("Control+a")
        view.page.keyboard.type("typed")
        expect(view.page.get_by_role("button", name="Provision", exact=True)).to_be_enabled()
        view.press("Escape")
        expect(button).to_be_focused()  # nothing was sent, and the place is kept
        assert cli(home, "status")["runs"] == []
        view.press("Enter", "Control+a")
        view.page.keyboard.type("typed")
        send = view.page.get_by_role("button", name="Provision", exact=True)
        expect(send).to_be_enabled()
        for _ in range(10):
            view.press("Tab")
            if send.evaluate("one => one === document.activeElement"):
                break
        view.press("Enter")
        view.see("Run typed")
        view.see("Its runner was ready in")


@pytest.mark.parametrize("action", ["provision", "pause"])
def test_an_answer_to_what_was_asked_before_enables_nothing(chromium: Browser, action: str) -> None:
    """The form changes while the preview of what it held before is on its way."""
    form_has_changed = threading.Event()

    def late(answer: Any) -> Answer:
        first = [answer]

        def found(_: str) -> Any:
            if not first:
                return 409, {"code": "conflict", "error": "not so many"}
            assert form_has_changed.wait(PATIENCE)
            return first.pop()

        return found

    claims = [PlannedClaim("i-1", "small", "c7i.large", UsageClass.SPOT)] * 41
    stale = OperateAnswer(True, [OperatorAction("pause", "what was asked before", "")])
    changed: dict[str, Answer] = {
        "/v1/plan": late(msgspec.structs.replace(made_answers.PLAN, would_claim=claims)),
        "/v1/pause": late(stale),
    }
    path = "/v1/plan" if action == "provision" else "/v1/pause"
    with shown(chromium, changed) as (view, server, _):
        view.page.clock.install()
        view.go("pools" if action == "provision" else "control")
        dialog = dialog_of(view, "Provision…" if action == "provision" else "Pause…")
        name = "Runners" if action == "provision" else "Note"
        field = dialog.get_by_role("spinbutton" if action == "provision" else "textbox", name=name)
        field.fill("7")
        until(lambda: path in [asked for _, asked, _ in server.asked])
        view.page.clock.pause_at(view.page.evaluate("Date.now() / 1000 + 0.05"))  # it asks nothing new for now
        field.fill("99")
        with view.page.expect_response("**" + path):
            form_has_changed.set()
        view.page.wait_for_timeout(300)
        send = dialog.get_by_role("button", name="Provision" if action == "provision" else "Pause", exact=True)
        expect(send).to_be_disabled()
        expect(dialog.get_by_role("status")).to_have_text("What would happenAsking the server.")
        view.page.clock.resume()
        expect(dialog).to_contain_text("not so many")
        expect(send).to_be_disabled()
