"""docs/metrics.md has every series of a scrape, with its labels."""

import re
from pathlib import Path

import pytest

from bullpen.cli.overview import COMMANDS
from bullpen.server.metrics.catalogue import FAMILIES, SeriesKind, SeriesSource
from metrics_table import published, render
from server.fixtures import a_house
from server.metrics.scraped import scraped
from walkthroughs import ROOT

OF_THE_LIBRARY = "process_"


@pytest.mark.parametrize("source", SeriesSource)
def test_the_published_series_are_those_of_the_catalogue(source: SeriesSource) -> None:
    assert published(source) == render(source), "stale: run `python tools/metrics_table.py`"


async def test_a_scrape_has_the_series_of_the_catalogue_and_no_others(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        found = await scraped(house)
    shown = {name: one for name, one in found.families.items() if not name.startswith(OF_THE_LIBRARY)}
    listed = {one.name.removesuffix("_total"): one for one in FAMILIES}
    assert shown.keys() == listed.keys()
    for name, one in listed.items():
        assert (shown[name].type, shown[name].documentation) == (one.kind.value, one.text)
        beside = {"le"} if one.kind is SeriesKind.HISTOGRAM else set()
        assert all(set(sample.labels) - beside == set(one.labels) for sample in shown[name].samples), name


def test_the_page_explains_every_label() -> None:
    page = (ROOT / "docs/metrics.md").read_text().partition("## Labels")[2].partition("## The pool")[0]
    own = {label for one in FAMILIES if one.source is not SeriesSource.HOLDER for label in one.labels}
    assert {label for label in own - {"version"} if f"`{label}`" not in page} == set()


def test_every_command_that_a_runbook_names_exists() -> None:
    page = (ROOT / "docs/runbooks.md").read_text()
    named = set(re.findall(r"`bullpen ([a-z-]+)", page))
    known = {name for commands in COMMANDS.values() for name in commands}
    assert {"why", "status"} < named
    assert named - known == set()
