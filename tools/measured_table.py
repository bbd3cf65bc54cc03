"""The measurements that the pages show, from `bench/results.json`: `python tools/measured_table.py` writes them again.

README.md             the rows that answer what a user asks first, and how many targets are met
docs/benchmarks.md    every row that has a target, the missed ones too, and on AWS what the control plane itself needs;
                      other rows without a target only show how a cost grows
docs/operating.md     what Bullpen's own requests cost on AWS
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, BENCHMARKS, OPERATING = ROOT / "README.md", ROOT / "docs/benchmarks.md", ROOT / "docs/operating.md"
RESULTS = ROOT / "bench/results.json"
AWS, COST, MACHINE, SETS = "aws: ", "aws cost: ", "machine: ", "scale set: "
LOOKS = ("bullpen why at ", "bullpen plan at ", "/metrics at ", "dashboard at ", "heartbeats of a scraped and watched ")
"""How the names of measurements begin that say what looking at the pool costs."""

OWN = ("processor time of the control plane", "sequential hops")
"""How the names of rows on AWS end that say what a time consists of, apart from the local engines."""

VIRTUAL = (
    "provision warm",
    "mute",
    "10 tickets behind",
    "half of a pool",
    "release",
    "refresh over",
    "cold launches",
    "instances lost by kill",
    "dead worker noticed",
)
"""How the names of measurements in virtual time begin; all others run in real time."""

QUESTIONS = (
    ("embedded: a runner is ready, created", "embedded: one cold instance ready"),
    ("embedded: a runner is ready, reused", "embedded: warm claim to ready"),
    ("embedded: 50 runners at once, reused", "embedded: 50 at once, provision warm"),
    (
        "AWS: 10 runners, created against reused, with a boot of 60 s",
        "aws: 10 runners, boot of 60 s (3 s measured, the rest added): cold/warm, instant registration",
    ),
    (
        "AWS: 50 reused, time beyond their registration, 25 ms added per request",
        "aws: provision warm 50, instant registration, 25 ms added per request: time without registration",
    ),
    (
        "instances lost when provision is killed at 20 moments",
        "instances lost by kill -9 of provision, pool of 20, at 20 moments",
    ),
    ("a dead runner is noticed, longest time", "dead worker noticed, lease of 15 s (Bullpen's agents): longest"),
    ("heartbeats that one `serve` stores", "heartbeats over HTTP, 100,000 workers"),
)
"""The README's rows: what a user would ask, and the name of the measurement that answers it."""

Row = dict[str, Any]


def tables() -> dict[tuple[Path, str], str]:
    """Every generated table by its page and its name, as the results have it."""
    by_name = {row["name"]: row for row in _results()}
    return {
        (README, "measured"): _with_targets((asked, by_name[name]) for asked, name in QUESTIONS) + _met(),
        (BENCHMARKS, "machine"): _of_the_machine(),
        (BENCHMARKS, "virtual"): _with_targets(_named(_is_virtual)),
        (BENCHMARKS, "host"): _with_targets(_named(_is_on_host)),
        (BENCHMARKS, "looks"): _of_looks(),
        (BENCHMARKS, "sets"): _of_sets(),
        (BENCHMARKS, "aws"): _with_targets(_on_aws()),
        (OPERATING, "costs"): _table(("what", "USD"), [(_cost(row), _shown(row["value"])) for row in costs()]),
    }


def published(page: Path, table: str) -> str:
    """The table of this name that a page shows."""
    return page.read_text().partition(f"<!-- {table}: begin -->\n")[2].partition(f"<!-- {table}: end -->")[0]


def publish() -> None:
    for (page, table), drawn in tables().items():
        begin, end = f"<!-- {table}: begin -->\n", f"<!-- {table}: end -->"
        before, _, rest = page.read_text().partition(begin)
        page.write_text(f"{before}{begin}{drawn}{end}{rest.partition(end)[2]}")


def with_target() -> list[Row]:
    """The rows that promise something, and those that could not be measured."""
    return [row for row in _results() if row["target"] or not row["ok"]]


def costs() -> list[Row]:
    return [row for row in _results() if row["name"].startswith(COST)]


def _results() -> list[Row]:
    found: list[Row] = json.loads(RESULTS.read_text())
    return found


def _named(belongs: Callable[[str], bool]) -> list[tuple[str, Row]]:
    return [(row["name"], row) for row in with_target() if belongs(row["name"])]


def _on_aws() -> list[tuple[str, Row]]:
    rows = [row for row in _results() if row["name"].startswith(AWS)]
    return [(row["name"], row) for row in rows if row["target"] or not row["ok"] or row["name"].endswith(OWN)]


def _of_the_machine() -> str:
    rows = [row for row in _results() if row["name"].startswith(MACHINE)]
    cells = [(row["name"].removeprefix(MACHINE), _measured(row)) for row in rows]
    opening = "Times depend on the machine. All times on this page are from this one:\n\n"
    return opening + _table(("the machine", "measured"), cells) if cells else ""  # results of an earlier version


def _of_looks() -> str:
    """All of their rows: those without a target show how a cost grows with the pool."""
    rows = [(row["name"], row) for row in _results() if row["name"].startswith(LOOKS)]
    opening = (
        "## Looking at the pool\n\nThese rows run in real time on one host, beside records of as many instances as "
        "their names say. `bullpen why` explains a run that waits\nat a full cap; the time to start Python and the "
        "command line is subtracted. The pages of the dashboard are open in a real Chromium.\nIt reports tasks of 50 "
        "ms or more: 0 ms means that it reported none.\n\n"
    )
    return opening + _with_targets(rows) if rows else ""  # results of an earlier version


def _of_sets() -> str:
    """All of their rows: those without a target show which part of a time is Bullpen's."""
    rows = [(row["name"].removeprefix(SETS), row) for row in _results() if row["name"].startswith(SETS)]
    opening = (
        "## Scale sets\n\nThese rows run in real time: a real `bullpen serve`, a real agent for each machine, and the "
        "GitHub of the tests, which is\n50 ms away. A shell script stands in for GitHub's runner, and listens 0.5 s "
        "after its start. Requests per job are those for messages\nand runners. Requests that `serve` sends every "
        "minute, whatever runs, are in the rows of an idle `serve`. Where no runner is registered,\n"
        "`serve` leaves out the one that it keeps registered for 5 minutes after it begins to listen.\n\n"
    )
    return opening + _with_targets(rows) if rows else ""  # results of an earlier version


def _is_on_host(name: str) -> bool:
    return not _is_virtual(name) and not name.startswith((AWS, SETS, *LOOKS))


def _is_virtual(name: str) -> bool:
    return name.startswith(VIRTUAL)


def _with_targets(rows: Iterable[tuple[str, Row]]) -> str:
    cells = [(name, _measured(row), row["target"], _verdict(row)) for name, row in rows]
    return _table(("what", "measured", "target", "met"), cells)


def _verdict(row: Row) -> str:
    if row["ok"]:
        return "yes" if row["target"] else ""
    return "**no**"


def _met() -> str:
    rows = with_target()
    return f"\nOf {len(rows)} targets, {sum(row['ok'] for row in rows)} are met.\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |\n" for cells in (heads, *rows)]
    return "".join([lines[0], f"|{'---|' * len(heads)}\n", *lines[1:]])


def _cost(row: Row) -> str:
    return str(row["name"]).removeprefix(COST)


def _measured(row: Row) -> str:
    return f"{_shown(row['value'])} {row['unit']}".strip()


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    publish()
