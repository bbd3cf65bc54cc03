"""`python -m bench`: measure, print the table, write `bench/results.json`."""

import argparse
import importlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.table import Measurement, Row, from_json, merged, render, skipped, to_json

RESULTS = Path(__file__).parent / "results.json"

SUBJECTS = (
    "machine",
    "warm",
    "releasing",
    "refreshing",
    "races",
    "crashes",
    "judging",
    "claims",
    "embedded",
    "heartbeats",
    "scraping",
    "explaining",
    "watching",
    "dashboard",
    "sweeping",
    "noticing",
    "rescheduling",
    "startup",
    "syncing",
    "running",
    "scale_sets",
    "aws",
    "aws_costs",
)
"""Modules beside this one, each with its `MEASUREMENTS`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a target is missed or a row was skipped."""
    options = _parser().parse_args(arguments)
    # SIGTERM acts like Ctrl-C, so that every measurement can end the processes that it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    known = [measurement for subject in SUBJECTS for measurement in _measurements(subject)]
    chosen = [one for one in known if options.only.lower() in one.name.lower()]
    if not chosen:
        names = "\n  ".join(one.name for one in known)
        print(f"--only {options.only}: no such measurement. The measurements are:\n  {names}", file=sys.stderr)
        return 2
    rows = list(_measured(chosen))
    print(*render(rows), sep="\n")
    out: Path | None = options.out or (None if options.only else RESULTS)
    if options.update:
        out = options.out or RESULTS
        if any(isinstance(one.value, str) for one in rows):
            _tell(f"{out} is unchanged: not every row could be measured")
            return 1
        rows = merged(from_json(out.read_text(encoding="utf-8")), rows)
    if out is not None:
        out.write_text(to_json(rows), encoding="utf-8")
        _tell(f"written to {out}")
    return 0 if all(one.ok for one in rows) else 1


def _measurements(subject: str) -> Sequence[Measurement]:
    """The measurements of a subject; if it cannot be imported, one that fails with the reason."""
    try:
        found: Sequence[Measurement] = importlib.import_module(f"bench.{subject}").MEASUREMENTS
    except ImportError as error:
        reason = error

        def fail() -> Iterator[Row]:
            raise reason

        return [Measurement(subject, fail)]
    return found


def _measured(measurements: Sequence[Measurement]) -> Iterator[Row]:
    began = time.monotonic()
    for number, measurement in enumerate(measurements, 1):
        _tell(f"[{number}/{len(measurements)}] {time.monotonic() - began:5.1f} s  {measurement.name}")
        try:
            yield from measurement.measure()
        except Exception as error:
            # A broken measurement must not hide the others.
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            _tell(f"SKIPPED {measurement.name}: {why}")
            yield skipped(measurement.name, why)
    _tell(f"done in {time.monotonic() - began:.1f} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", metavar="PATTERN", default="", help="measure only names that contain PATTERN; write no file"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="replace only the rows that were measured in the file; they must be of the same machine, equally quiet",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="file for the rows (default: bench/results.json)")
    return parser


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        _tell("interrupted; nothing was written")
        sys.exit(130)
