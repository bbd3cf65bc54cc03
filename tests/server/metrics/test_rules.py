"""The rules and the dashboard against a scrape: their labels are those of the series, no alert fires for a new pool,
and the runbooks name what exists."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from bullpen.model.instance import State as InstanceState
from bullpen.model.provision import Origin
from bullpen.model.report import ReportOutcome
from bullpen.ports import RequestResult
from bullpen.server.metrics.catalogue import FAMILIES, SeriesKind
from server.metrics.scraped import read
from server.metrics.test_prometheus import DASHBOARD, RULES, TESTS, asked_by_the_dashboard, promtool
from server.served import PATIENCE, a_server
from walkthroughs import ROOT

SELECTOR = re.compile(r"\b((?:bullpen|gha|process)_[a-z0-9_]+)\{([^{}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
OF_PROMETHEUS = {"instance", "job", "le"}
VALUES = {
    ("bullpen_instances", "state"): {one.value for one in InstanceState},
    ("bullpen_workers", "state"): {"active", "inactive"},
    ("bullpen_scale_sets", "state"): {"held", "unheld"},
    ("bullpen_provisions_total", "outcome"): {one.value for one in ReportOutcome},
    ("bullpen_provision_duration_seconds", "outcome"): {one.value for one in ReportOutcome},
    ("bullpen_provision_runners_total", "origin"): {one.value for one in Origin},
    ("bullpen_engine_requests_total", "result"): {one.value for one in RequestResult},
    ("bullpen_heartbeats_total", "result"): {"accepted", "rejected", "refused"},
}
"""Words of the program. A rule that asks for another one never has a value, and so never fires."""

QUIET_FOR = 360  # minutes for which nothing changes: longer than every alert waits


def families() -> dict[str, set[str]]:
    """The labels of every series, by its name."""
    found = {"process_cpu_seconds_total": set[str](), "process_resident_memory_bytes": set[str]()}
    for one in FAMILIES:
        ends = ("_bucket", "_sum", "_count") if one.kind is SeriesKind.HISTOGRAM else ("",)
        found |= {f"{one.name}{end}": set(one.labels) for end in ends}
    return found


def selected() -> Iterator[tuple[str, str, str]]:
    """Series, label and value of every selector."""
    series = [one["series"] for test in yaml.safe_load(TESTS.read_text())["tests"] for one in test["input_series"]]
    for text in (RULES.read_text(), *asked_by_the_dashboard(), *series):
        for name, matchers in SELECTOR.findall(text):
            for label, _, value in MATCHER.findall(matchers):
                yield name, label, value


def test_every_selector_asks_for_labels_and_words_that_the_series_have() -> None:
    known = families()
    found = set(selected())
    assert len(found) > 40
    for name, label, value in found:
        assert label in known[name] | OF_PROMETHEUS, (name, label)
        words = VALUES.get((re.sub(r"_(bucket|sum|count)$", "", name), label))
        if words is not None and "$" not in value:
            assert set(value.split("|")) <= words, (name, label, value)


@pytest.mark.slow
@pytest.mark.engines
def test_no_alert_fires_for_a_new_pool_that_does_nothing(tmp_path: Path) -> None:
    """Every series of a real scrape stays as it is for hours. With the store down in the same scrape, one fires."""
    with a_server(tmp_path / "pool/home") as serve, urlopen(f"{serve.url}/metrics", timeout=PATIENCE) as answer:
        scraped = read(answer.read().decode())
    place = 'instance="a:8420",job="bullpen"'
    series: dict[str, float] = {f"up{{{place}}}": 1}
    for family in scraped.families.values():
        for sample in family.samples:
            labels = "".join(f',{name}="{value}"' for name, value in sample.labels.items())
            series[f"{sample.name}{{{place}{labels}}}"] = sample.value
    assert len(series) > 100
    shutil.copy(RULES, tmp_path)
    assert _fires(tmp_path, series) == ""
    down = {name: 0.0 if name.startswith("bullpen_store_up") else value for name, value in series.items()}
    assert 'alertname="BullpenStoreDown"' in _fires(tmp_path, down)


def _fires(folder: Path, series: dict[str, float]) -> str:
    """What promtool says if any alert fires within the hours; empty if none does."""
    asked: list[dict[str, Any]] = [
        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": []}
        for minute in range(5, QUIET_FOR, 5)
    ]
    inputs = [{"series": name, "values": f"{value}x{QUIET_FOR}"} for name, value in series.items()]
    test = {"name": "a new pool", "interval": "1m", "input_series": inputs, "promql_expr_test": asked}
    document = {"rule_files": [RULES.name], "evaluation_interval": "1m", "tests": [test]}
    (folder / "new.test.yml").write_text(yaml.safe_dump(document))
    ran = promtool("test", "rules", folder / "new.test.yml")
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


# ---- runbooks


def test_a_runbook_names_panels_settings_options_and_log_lines_that_exist() -> None:
    page = (ROOT / "docs/runbooks.md").read_text()
    panels = {panel["title"] for panel in json.loads(DASHBOARD.read_text())["panels"]}
    named = set(re.findall(r"\*([A-Z][^*]+)\*", page))
    assert len(named) > 4
    assert named - panels == set()
    table = (ROOT / "docs/operating.md").read_text()
    settings = set(re.findall(r"`([a-z]+\.[A-Za-z.-]+)`", page))
    assert len(settings) > 8
    assert [one for one in settings if f"`{one}`" not in table] == []
    source = "".join(one.read_text() for one in (ROOT / "src/bullpen").rglob("*.py"))
    for said in ("metrics without the store", "controller keeps failing"):
        assert said in page
        assert said in source
