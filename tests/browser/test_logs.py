"""The log of a job: its end, which grows while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from browser import made_answers
from browser.made_pool import MadePool
from browser.made_server import Answer, MadeServer, made_server
from browser.stage import DashboardView, viewed
from bullpen.schema.job import JobAnswer

pytestmark = pytest.mark.slow
PIECE = 65536  # bytes that the server sends at once


class PrintedLog:
    """What a job has printed, as a made server sends it."""

    def __init__(self, job: JobAnswer, answers: dict[str, Answer]) -> None:
        self._path = f"/v1/jobs/{job.id}/logs"
        self._fence = job.fence
        self._answers = answers
        answers[self._path] = ""

    def prints(self, text: bytes) -> None:
        for offset in (*range(0, len(text), PIECE), *self._cuts(len(text))):
            self._answers[f"{self._path}?fence={self._fence}&offset={offset}"] = text[offset : offset + PIECE]

    def _cuts(self, size: int) -> Iterator[int]:
        """A page goes on where the log ended when it was read last."""
        yield from range(max(0, size - 200), size)


@contextmanager
def a_job(browser: Browser) -> Iterator[tuple[DashboardView, JobAnswer, PrintedLog]]:
    pool = MadePool()
    answers = dict(made_answers.answers(pool))
    job = next(one for one in made_answers.made_jobs(pool)[0] if one.state == "running")
    answers[f"/v1/jobs/{job.id}"] = job
    log = PrintedLog(job, answers)
    beginning = [*pool.beginning, ("job", msgspec.to_builtins(job))]
    with made_server(MadeServer(answers, beginning)) as server, viewed(browser, server) as view:
        yield view, job, log


@pytest.mark.parametrize("lines", [3, 5000, 25_000])
def test_the_end_of_a_log_is_shown_and_what_is_printed_later(chromium: Browser, lines: int) -> None:
    text = b"".join(b"line %d of the build\n" % number for number in range(lines))
    with a_job(chromium) as (view, job, log):
        log.prints(text)
        view.go(f"subject/{job.id}")
        shown = view.page.locator("pre.log")
        expect(shown).to_contain_text(f"line {lines - 1} of the build\n")
        assert len(shown.inner_text()) <= PIECE
        assert ("line 0 of" in shown.inner_text()) is (len(text) <= PIECE)
        log.prints(text + b"and it goes on\n")
        expect(shown).to_contain_text("and it goes on")


def test_the_page_of_an_instance_has_the_log_of_its_job_and_offers_the_others(chromium: Browser) -> None:
    with a_job(chromium) as (view, job, log):
        log.prints(b"compiling\n")
        view.go(f"instances/{job.instance_id}")
        expect(view.page.locator("pre.log")).to_have_text("compiling\n")
        download = view.page.get_by_role("link", name="Download")
        expect(download).to_have_attribute("href", f"/v1/evidence/{job.instance_id}")
