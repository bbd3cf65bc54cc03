"""The table of measurements in the README, from `bench/results.json`: `python tests/measured_table.py` draws it anew.

Every row that has a target is shown, the missed ones too; rows without one only show how things grow.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "README.md", ROOT / "bench/results.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def published() -> str:
    """The table that the page shows."""
    return PAGE.read_text().partition(BEGIN + "\n")[2].partition(END)[0]


def publish() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN + "\n")
    rows = "".join(f"| {' | '.join(row)} |\n" for row in _rows())
    table = f"| what | measured | target | met |\n|---|---|---|---|\n{rows}"
    PAGE.write_text(f"{before}{BEGIN}\n{table}{END}{rest.partition(END)[2]}")


def with_target() -> list[dict[str, Any]]:
    """The rows that promise something, and those that could not be measured."""
    return [row for row in json.loads(RESULTS.read_text()) if row["target"] or not row["ok"]]


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for row in with_target():
        yield (
            row["name"],
            f"{_shown(row['value'])} {row['unit']}".strip(),
            row["target"],
            "yes" if row["ok"] else "**no**",
        )


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    publish()
