"""The rules and the dashboard of `deploy/` use series that a real `serve` has, and `promtool` finds nothing wrong."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from fakes.prometheus import program
from free_ports import a_free_port
from server.metrics.scraped import Scraped, read
from server.served import PATIENCE, ServeProcess, a_server, command, environment
from walkthroughs import ROOT

DEPLOY = ROOT / "deploy/prometheus"
RULES, TESTS, CONFIG = DEPLOY / "bullpen.rules.yml", DEPLOY / "bullpen.rules.test.yml", DEPLOY / "prometheus.yml"
DASHBOARD = ROOT / "deploy/grafana/bullpen.json"
SERIES = re.compile(r"\b((?:bullpen|gha|process)_[a-z0-9_]+)\b")
RECORDED = re.compile(r"\bbullpen:[a-z0-9_:]+")
NOT_YET = (
    *("gha_", "bullpen_github_", "bullpen_scale_sets"),
    *(
        "bullpen_provision_duration_",
        "bullpen_provision_stage_",
        "bullpen_provisions_failed_",
        "bullpen_runners_discard",
    ),
)
"""Series that have no value before there is a GitHub, or a first provision."""

LINTED = re.compile(r"gha_\w+|bullpen_build_info")
"""What `promtool check metrics` may criticise: the names of another program, which dashboards know."""


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def asked_by_the_dashboard() -> Iterator[str]:
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (one["definition"] for one in board["templating"]["list"] if "definition" in one)


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    with a_server(tmp_path_factory.mktemp("scraped") / "home") as found:
        yield found


def scrape(serve: ServeProcess) -> Scraped:
    with urlopen(f"{serve.url}/metrics", timeout=PATIENCE) as answer:
        return read(answer.read().decode())


def promtool(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *arguments], cwd=DEPLOY, input=text, capture_output=True, text=True, timeout=PATIENCE
    )


# ---- a real serve


@pytest.mark.slow
def test_every_series_of_rules_and_dashboard_is_in_the_scrape_of_a_real_serve(serve: ServeProcess) -> None:
    found = scrape(serve)
    announced = set(re.findall(r"^# TYPE (\S+) ", found.text, re.MULTILINE))
    announced |= {f"{name}{end}" for name in announced for end in ("_bucket", "_sum", "_count")}
    with_values = {sample.name for family in found.families.values() for sample in family.samples}
    asked = {name for text in (RULES.read_text(), *asked_by_the_dashboard()) for name in SERIES.findall(text)}
    assert len(asked) > 50
    assert asked - announced == set()
    assert {name for name in asked - with_values if not name.startswith(NOT_YET)} == set()
    assert found.value("bullpen_store_up") == 1
    assert found.value("bullpen_instances", resource_class="small", state="idle") == 0


def test_every_recorded_series_that_is_used_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    used = {name for text in (RULES.read_text(), *asked_by_the_dashboard()) for name in RECORDED.findall(text)}
    assert used == recorded


@pytest.mark.slow
@pytest.mark.engines
def test_promtool_finds_nothing_wrong_with_the_series(serve: ServeProcess) -> None:
    with urlopen(f"{serve.url}/metrics", timeout=PATIENCE) as answer:
        ran = promtool("check", "metrics", text=answer.read().decode())
    said = [line for line in (ran.stdout + ran.stderr).splitlines() if not LINTED.match(line)]
    assert said == []


# ---- rules


@pytest.mark.engines
def test_promtool_accepts_rules_and_configuration(tmp_path: Path) -> None:
    for arguments in (("check", "rules", RULES), ("check", "config", "--syntax-only", CONFIG)):
        ran = promtool(*arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.engines
def test_each_alert_fires_for_what_it_is_about_and_not_for_what_is_usual() -> None:
    ran = promtool("test", "rules", TESTS)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    names = [one["name"] for one in yaml.safe_load(TESTS.read_text())["tests"]]
    wanted = {f"{one['alert']} {how}" for one in alerts() for how in ("fires", "does not fire")}
    assert wanted - set(names) == set()


@pytest.mark.slow
@pytest.mark.engines
def test_an_alert_that_never_fires_or_always_does_fails_its_test(tmp_path: Path) -> None:
    shutil.copy(TESTS, tmp_path)
    for expression in ("vector(0) == 1", "vector(1) == 1"):
        found = yaml.safe_load(RULES.read_text())
        changed = [rule for group in found["groups"] for rule in group["rules"] if "alert" in rule]
        for rule in changed:
            rule["expr"], rule["for"] = expression, "0m"
        (tmp_path / RULES.name).write_text(yaml.safe_dump(found))
        ran = promtool("test", "rules", tmp_path / TESTS.name)
        failed = (ran.stdout + ran.stderr).count("expr:")
        assert failed >= len(changed), (failed, ran.stderr)


def test_each_alert_says_how_bad_it_is_and_leads_to_its_runbook() -> None:
    page = (ROOT / "docs/runbooks.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert [*sections] == [one["alert"] for one in alerts()]
    for one in alerts():
        name, annotations = one["alert"], one["annotations"]
        assert one["labels"]["severity"] in ("critical", "warning", "info")
        assert annotations["runbook_url"].endswith(f"docs/runbooks.md#{name.lower()}")
        assert {"summary", "description"} < set(annotations)
        assert all(part in sections[name] for part in ("\nLook:\n", "\nDo:\n")), name
        assert f"| [{name}](#{name.lower()}) | {one['labels']['severity']} |" in page


# ---- the dashboard


def test_each_panel_has_a_title_a_description_a_place_and_a_question_to_the_chosen_source() -> None:
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len(places)
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        if panel["type"] == "row":
            assert panel["title"].endswith("?"), panel["title"]
            continue
        assert panel["description"].endswith("."), panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"]), panel["title"]


@pytest.mark.slow
@pytest.mark.engines
def test_a_real_prometheus_scrapes_a_serve_with_a_token_and_answers_every_question_of_the_dashboard(
    tmp_path: Path,
) -> None:
    home = tmp_path / "pool/home"
    home.parent.mkdir()
    words = command(home, "token", "create", "--scope", "read", "--name", "prometheus", "--json")
    made = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=True)
    (tmp_path / "bullpen.token").write_text(json.loads(made.stdout)["token"])
    with a_server(home) as serve:
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{serve.url}/metrics", timeout=PATIENCE)
        _answers_the_dashboard(serve, tmp_path)


def _answers_the_dashboard(serve: ServeProcess, tmp_path: Path) -> None:
    """With the configuration of `deploy/`: only the paths, the target and the pace differ."""
    host, port = serve.address
    config = yaml.safe_load(CONFIG.read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (scraped,) = config["scrape_configs"]
    scraped["authorization"]["credentials_file"] = str(tmp_path / "bullpen.token")
    scraped["static_configs"] = [{"targets": [f"{host}:{port}"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(RULES, tmp_path)
    own = f"127.0.0.1:{a_free_port()}"
    started = [str(program("prometheus")), f"--config.file={tmp_path}/prometheus.yml", f"--web.listen-address={own}"]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen([*started, f"--storage.tsdb.path={tmp_path}/data"], stderr=log, stdout=log)
    try:
        until = time.monotonic() + PATIENCE
        while not (found := _asked(own, "bullpen_store_up")):
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.2)
        assert found[0]["value"][1] == "1"
        for text in asked_by_the_dashboard():
            if not text.startswith("label_values"):
                _asked(own, re.sub(r"\$\w+", ".*", text), must_answer=True)
        loaded = json.load(urlopen(f"http://{own}/api/v1/rules", timeout=PATIENCE))["data"]["groups"]
        assert [rule["lastError"] for group in loaded for rule in group["rules"] if rule.get("lastError")] == []
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _asked(address: str, expression: str, *, must_answer: bool = False) -> list[Any]:
    """What Prometheus answers; a question that it does not understand is an error."""
    not_yet = () if must_answer else (URLError, ConnectionError)
    url = f"http://{address}/api/v1/query?query={quote(expression)}"
    with suppress(*not_yet), urlopen(url, timeout=PATIENCE) as answer:  # it may not listen yet
        found: list[Any] = json.load(answer)["data"]["result"]
        return found
    return []
