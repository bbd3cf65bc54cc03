"""The measurements that our pages show, from `bench/results.json`: `python tools/measured_table.py` draws them anew.

README.md            every row that has a target, the missed ones too; rows without one only show how things grow
docs/operating.md    what Bullpen's own requests cost on AWS
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, OPERATING, RESULTS = ROOT / "README.md", ROOT / "docs/operating.md", ROOT / "bench/results.json"
COST = "aws cost: "


def published(page: Path, table: str) -> str:
    """The table of this name that a page shows."""
    return page.read_text().partition(f"<!-- {table}: begin -->\n")[2].partition(f"<!-- {table}: end -->")[0]


def publish() -> None:
    with_targets = [
        (row["name"], _measured(row), row["target"], "yes" if row["ok"] else "**no**") for row in with_target()
    ]
    _draw(README, "measured", ("what", "measured", "target", "met"), with_targets)
    _draw(OPERATING, "costs", ("what", "USD"), [(_cost(row), _shown(row["value"])) for row in costs()])


def with_target() -> list[dict[str, Any]]:
    """The rows that promise something, and those that could not be measured."""
    return [row for row in _results() if row["target"] or not row["ok"]]


def costs() -> list[dict[str, Any]]:
    return [row for row in _results() if row["name"].startswith(COST)]


def missing_from(page: Path, table: str) -> list[str]:
    """The measurements that the table should show and does not."""
    names = [_cost(row) for row in costs()] if table == "costs" else [row["name"] for row in with_target()]
    shown = published(page, table)
    return [name for name in names if f"| {name} |" not in shown]


def _results() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text())
    return found


def _draw(page: Path, table: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    begin, end = f"<!-- {table}: begin -->\n", f"<!-- {table}: end -->"
    before, _, rest = page.read_text().partition(begin)
    lines = [f"| {' | '.join(cells)} |\n" for cells in (heads, *rows)]
    drawn = "".join([lines[0], f"|{'---|' * len(heads)}\n", *lines[1:]])
    page.write_text(f"{before}{begin}{drawn}{end}{rest.partition(end)[2]}")


def _cost(row: dict[str, Any]) -> str:
    return str(row["name"]).removeprefix(COST)


def _measured(row: dict[str, Any]) -> str:
    return f"{_shown(row['value'])} {row['unit']}".strip()


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    publish()
