"""The tables of series in docs/metrics.md, generated from the catalogue by `python tools/metrics_table.py`."""

from pathlib import Path

from bullpen.server.metrics.catalogue import FAMILIES, Family, SeriesSource

PAGE = Path(__file__).parents[1] / "docs/metrics.md"
HEAD = "| series | type | labels | meaning |\n|---|---|---|---|\n"


def render(source: SeriesSource) -> str:
    return HEAD + "".join(_row(one) for one in FAMILIES if one.source is source)


def published(source: SeriesSource) -> str:
    """The table that the page shows."""
    begin, end = _marks(source)
    return PAGE.read_text().partition(begin + "\n")[2].partition(end)[0]


def publish() -> None:
    text = PAGE.read_text()
    for source in SeriesSource:
        begin, end = _marks(source)
        before, _, rest = text.partition(begin + "\n")
        text = f"{before}{begin}\n{render(source)}{end}{rest.partition(end)[2]}"
    PAGE.write_text(text)


def _marks(source: SeriesSource) -> tuple[str, str]:
    return f"<!-- {source.value} series: begin -->", f"<!-- {source.value} series: end -->"


def _row(one: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
    return f"| `{one.name}` | {one.kind.value} | {labels} | {one.text} |\n"


if __name__ == "__main__":
    publish()
