"""The results of a benchmark: rows of name, value, unit, target and whether the target is met."""

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "≤": operator.le,
    "<": operator.lt,
    "≥": operator.ge,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. A value that could not be measured is a text that says why; without a target, ok means
    that it was measured."""

    name: str
    value: float | str
    unit: str
    target: str
    ok: bool


def row(name: str, value: float, unit: str, target: str = "") -> Row:
    """A measured row; `target` is a sign and a bound (`"≤ 125"`), or empty where a row only shows how things grow."""
    shown = value if isinstance(value, int) else float(f"{value:.4g}")
    if not target:
        return Row(name, shown, unit, "", ok=True)
    sign, bound = target.split(" ")
    return Row(name, shown, unit, target, ok=_HOLDS[sign](value, float(bound)))


def skipped(name: str, why: str) -> Row:
    """A row that could not be measured. It is not ok: an unmeasured budget is not met."""
    return Row(name, f"skipped: {why}", "", "", ok=False)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Something to measure on its own, one row or more. `--only` looks at its name."""

    name: str
    measure: Callable[[], Iterable[Row]]


def render(rows: Sequence[Row]) -> Iterator[str]:
    """The table as lines, columns aligned."""
    cells = [("name", "value", "unit", "target", "ok")]
    cells += [(one.name, _shown(one.value), one.unit, one.target, "yes" if one.ok else "NO") for one in rows]
    # A long reason would push every column aside: it may stick out of its own.
    numbers = [cell for cell, one in zip(cells[1:], rows, strict=True) if not isinstance(one.value, str)]
    widths = [max(len(cell[at]) for cell in (cells[0], *numbers, *([] if at == 1 else cells))) for at in range(5)]
    for name, value, unit, target, ok in cells:
        line = (name.ljust(widths[0]), value.rjust(widths[1]), unit.ljust(widths[2]), target.ljust(widths[3]), ok)
        yield "  ".join(line).rstrip()


def to_json(rows: Sequence[Row]) -> str:
    return json.dumps([asdict(one) for one in rows], indent=2, ensure_ascii=False) + "\n"


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def from_json(text: str) -> list[Row]:
    return [Row(**one) for one in json.loads(text)]


def merged(before: Sequence[Row], measured: Sequence[Row]) -> list[Row]:
    """The rows of before, with those of the same names replaced where they stand; new ones come last."""
    new = {one.name: one for one in measured}
    kept = [new.pop(one.name, one) for one in before]
    return [*kept, *new.values()]
