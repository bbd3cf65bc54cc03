"""Whatever others may write is text on every page: names, labels, notes, reasons, repositories, errors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import MadeServer, made_server
from browser.stage import PLACES, viewed
from bullpen.schema.pause import PauseAnswer, PauseList

pytestmark = pytest.mark.slow
HOSTILE = """"'><img src=x onerror=window.hit=1><script>window.hit=1</script><svg onload=window.hit=1>&amp;"""
SHORT = "<img src=x"  # enough of it: rows cut long texts
WRITTEN_BY_OTHERS = {
    "because",
    "by",
    "command",
    "detail",
    "did",
    "domain",
    "error",
    "file",
    "holder",
    "instanceType",
    "job",
    "next",
    "note",
    "reason",
    "refused",
    "repository",
    "signal",
    "trustDomain",
    "why",
}


def hostile(value: Any, key: str = "") -> Any:
    """The same answer, with more than text in every field that others write."""
    if isinstance(value, dict):
        return {name: hostile(one, name) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [hostile(one, key) for one in value]
    return value + HOSTILE if isinstance(value, str) and value and key in WRITTEN_BY_OTHERS else value


def test_what_others_write_is_text_on_every_page(chromium: Browser) -> None:
    pool = MadePool()
    answers: dict[str, Any] = dict(made_answers.answers(pool))
    answers["/v1/pauses"] = PauseList([PauseAnswer("large", "why", "2026-11-19T05:00:00Z", "ann")])

    def changed(answer: Any) -> Any:
        if callable(answer):
            return lambda path: changed(answer(path))
        if isinstance(answer, tuple):
            return (answer[0], hostile(msgspec.to_builtins(answer[1])))
        return hostile(msgspec.to_builtins(answer))

    beginning = [(kind, hostile(msgspec.to_builtins(data))) for kind, data in pool.beginning]
    instance = next(one.id for one in pool.instances.values() if one.run_id == made_answers.RUN)
    with (
        made_server(MadeServer({path: changed(one) for path, one in answers.items()}, beginning)) as server,
        viewed(chromium, server) as view,
    ):
        seen = set()
        for place in [*PLACES, "queue?open=48231", f"instances/{instance}", f"runs/{made_answers.RUN}"]:
            view.go(place)
            expect(view.page.locator("main .answer").first).to_be_visible()
            view.page.wait_for_timeout(500)  # answers that come later are drawn, too
            if SHORT in view.page.locator("main").inner_text():
                seen.add(place.partition("?")[0].partition("/")[0] + "/" * ("/" in place))
            assert view.page.locator("main img, main script, #banner img, dialog img").count() == 0, place
            assert view.page.locator("main svg[onload]").count() == 0, place
        server.tell("trouble", {"reason": HOSTILE})
        expect(view.page.locator("#banner")).to_contain_text(HOSTILE)
        view.go("runs/" + HOSTILE.replace("/", "%2F"))
        view.see(f"No run {HOSTILE} is known")
        assert view.page.locator("main img, main script, #banner img").count() == 0
        assert view.page.evaluate("window.hit") is None
    assert seen >= {"pools", "queue", "instances", "runs", "control", "activity", "instances/", "runs/"}
