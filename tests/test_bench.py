"""The benchmark's table and file. No test asserts a time: cheap measurements run at tiny sizes, for their form only."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from msgspec import structs

from fakes.java_engines import Engines

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # `bench` is a package of the repository, not of the wheel

from bench import (  # noqa: E402
    aws,
    aws_costs,
    aws_stage,
    crashes,
    judging,
    noticing,
    races,
    refreshing,
    releasing,
    scale_sets,
    scraping,
    set_stage,
    warm,
)
from bench.__main__ import main  # noqa: E402
from bench.aws_proxy import sequential  # noqa: E402
from bench.aws_world import World, running  # noqa: E402
from bench.table import Measurement, Row, from_json, merged, render, row, skipped, to_json  # noqa: E402

pytestmark = pytest.mark.slow

FIELDS = ["name", "value", "unit", "target", "ok"]


@pytest.mark.parametrize(
    ("value", "target", "ok"),
    [
        (125, "≤ 125", True),
        (126, "≤ 125", False),
        (0.6, "< 0.6", False),
        (2, "≥ 2", True),
        (0, "= 0", True),
        (9, "", True),
    ],
)
def test_a_row_is_ok_when_its_target_is_met(value: float, target: str, ok: bool) -> None:
    assert row("requests", value, "requests", target) == Row("requests", value, "requests", target, ok)


def test_what_was_not_measured_is_not_ok_and_says_why() -> None:
    assert skipped("claims", "no engine") == Row("claims", "skipped: no engine", "", "", ok=False)


def test_the_table_has_a_line_for_each_row_under_aligned_columns() -> None:
    rows = [
        row("one", 1234.5, "requests", "≤ 2000"),
        row("another one", 0.25, "s"),
        skipped("third", "it is not there"),
    ]
    head, *lines = render(rows)
    assert head.split() == FIELDS
    assert [line.split("  ")[0] for line in lines] == ["one", "another one", "third"]
    assert lines[0].endswith("1,234  requests  ≤ 2000  yes")
    assert lines[2].split()[-1] == "NO"
    assert head.index("target") == lines[0].index("≤")


def test_the_file_is_a_list_of_objects_with_the_columns_of_the_table() -> None:
    rows = [row("one", 1, "requests", "≤ 2"), skipped("other", "it is not there")]
    written = json.loads(to_json(rows))
    assert [list(one) for one in written] == [FIELDS, FIELDS]
    assert written[0] == {"name": "one", "value": 1, "unit": "requests", "target": "≤ 2", "ok": True}


def test_the_rows_of_a_partial_run_replace_those_of_the_same_names_and_no_others() -> None:
    before = [row("one", 1, "s"), row("two", 2, "s", "≤ 2"), row("three", 3, "s")]
    again, new = row("two", 4, "s", "≤ 2"), row("four", 4, "s")
    assert merged(before, [new, again]) == [before[0], again, before[2], new]
    assert from_json(to_json(before)) == before


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: warm.warm(sizes=(2, 3)), id="provision warm"),
        pytest.param(lambda: warm.mute(wants=(5,)), id="mute"),
        pytest.param(lambda: warm.behind(others=(20,)), id="behind others"),
        pytest.param(lambda: warm.surplus(wants=(2,)), id="half of a pool"),
        pytest.param(lambda: releasing.release(sizes=(2,)), id="release"),
        pytest.param(lambda: releasing.release_beside_history(dead=(5,)), id="beside history"),
        pytest.param(lambda: refreshing.idle(sizes=(3,)), id="refresh"),
        pytest.param(lambda: races.cold_launches(pools=(4,), seeds=2), id="cold launches"),
        pytest.param(lambda: crashes.lost_by_kill(pools=(2,), moments=3), id="lost by kill"),
        pytest.param(lambda: judging.judged(sizes=(50,)), id="judged"),
        pytest.param(lambda: noticing.noticed(dead=2, leases=(15,)), id="dead worker noticed"),
    ],
)
def test_every_virtual_measurement_runs_at_a_tiny_size(rows: Callable[[], Iterable[Row]]) -> None:
    found = list(rows())
    assert found
    assert len({one.name for one in found}) == len(found)
    assert all(isinstance(one.value, int | float) and one.unit for one in found)


@pytest.fixture(scope="module")
def world(engines: Engines) -> Iterator[World]:
    with running(engines) as world:
        yield world


@pytest.fixture
def patient(patient_clients: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent is given up because a busy machine lets it wait: what is launched instead would wait for a boot that
    never ends, for longer than a row may take."""
    slow = structs.replace(aws_stage.TIMINGS, registration=300.0, alive=300.0)
    monkeypatch.setattr(aws_stage, "TIMINGS", slow)
    monkeypatch.setattr(aws_stage, "LONGEST", 600.0)
    monkeypatch.setattr(aws_costs, "LONGEST", 120.0)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda on: aws.warm(sizes=(2,), times=1, on=on), id="provision warm"),
        pytest.param(lambda on: aws.slowly_registered(size=2, registers_in=0.2, on=on), id="slow registration"),
        pytest.param(lambda on: aws.behind(others=12, on=on), id="behind others"),
        pytest.param(lambda on: aws.release_beside_history(dead=5, on=on), id="beside history"),
        pytest.param(lambda on: aws.idle(size=3, on=on), id="refresh"),
        pytest.param(lambda on: aws.cold(count=1, waited=0.1, on=on), id="cold"),
        pytest.param(lambda on: aws_costs.costs(idle=20, on=on), id="costs"),
    ],
)
def test_every_measurement_on_the_aws_engines_runs_at_a_tiny_size(
    rows: Callable[[Callable[[], World]], Iterable[Row]], world: World, patient: None
) -> None:
    found = list(rows(lambda: world))
    assert found
    assert len({one.name for one in found}) == len(found)
    assert all(isinstance(one.value, int | float) and one.value > 0 and one.unit for one in found)


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: scale_sets.isolated(jobs=2), id="isolated"),
        pytest.param(lambda: scale_sets.paced(jobs=2, alone=1), id="paced"),
        pytest.param(lambda: scale_sets.burst(sizes=(2,)), id="burst"),
        pytest.param(lambda: scale_sets.idle(seconds=1.0, settled=0.0), id="idle"),
    ],
)
def test_every_measurement_of_scale_sets_runs_at_a_tiny_size(
    rows: Callable[[], Iterable[Row]], github_described: None
) -> None:
    try:
        set_stage.check_user()
    except PermissionError as exc:
        pytest.skip(f"NOT TESTED: {exc}")
    found = list(rows())
    assert found
    assert len({one.name for one in found}) == len(found)
    assert all(isinstance(one.value, int | float) and one.value >= 0 and one.unit for one in found)


def test_what_scrapes_take_is_measured_at_a_tiny_size() -> None:
    found = list(scraping.scraped(sizes=(5,), scrapes=1))
    assert [one.unit for one in found] == ["ms", "series"]
    assert all(isinstance(one.value, int | float) and one.value > 0 for one in found)


def test_hops_are_the_longest_chain_of_requests_that_waited_for_each_other() -> None:
    at_once, overlapping = [(0.0, 1.0), (0.1, 0.9)], [(0.5, 2.8)]
    one_after_the_other = [(1.0, 2.0), (2.5, 3.0)]
    assert sequential([]) == 0
    assert sequential(at_once) == 1
    assert sequential([*overlapping, *one_after_the_other, *at_once]) == 3


def test_a_broken_measurement_is_a_row_that_says_so_and_fails_the_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Iterable[Row]:
        raise RuntimeError("no such engine")

    monkeypatch.setattr(judging, "MEASUREMENTS", (Measurement("tickets judged", broken),))
    out = tmp_path / "rows.json"
    assert main(["--only", "tickets", "--out", str(out)]) == 1
    assert json.loads(out.read_text())[0]["value"] == "skipped: RuntimeError: no such engine"
    assert "SKIPPED tickets judged" in capsys.readouterr().err


@pytest.mark.parametrize("is_measured", [True, False])
def test_an_update_leaves_the_other_rows_and_writes_nothing_if_a_row_was_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_measured: bool
) -> None:
    def measure() -> Iterable[Row]:
        if not is_measured:
            raise RuntimeError("no such engine")
        return [row("tickets", 2, "tickets/s")]

    monkeypatch.setattr(judging, "MEASUREMENTS", (Measurement("tickets judged", measure),))
    out = tmp_path / "rows.json"
    before = [row("tickets", 1, "tickets/s"), row("other", 1, "s")]
    out.write_text(to_json(before))
    assert main(["--only", "tickets", "--update", "--out", str(out)]) == int(not is_measured)
    after = [row("tickets", 2, "tickets/s"), before[1]] if is_measured else before
    assert from_json(out.read_text()) == after


def test_a_pattern_that_fits_nothing_lists_what_there_is() -> None:
    command = [sys.executable, "-m", "bench", "--only", "no such thing"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 2
    assert "provision warm" in answer.stderr
