"""What `bullpen run` shows while it runs: the jobs' lines, each with the name of its job, and below them one live line.

The jobs' lines go to stdout, the live line to stderr, and only where that is a terminal. It is drawn without a line
break and erased before the next line of a job, so the two never mix, also where one of them goes to a file.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from bullpen.cli.output import AnswerLost, columns_of
from bullpen.cli.progress import ProgressDisplay
from bullpen.model.job import Job
from bullpen.model.progress import ProgressReport, WorkPhase
from bullpen.structured_log import has_colours

COLOURS = ("36", "35", "33", "32", "34", "96", "95", "93", "92", "94")
"""Of the names of jobs, by their number: not red, which means failed."""
LONGEST_NAME = 24  # characters before a line; a terminal is narrow
ERASE, RESET = "\r\033[K", "\033[0m"


class RunDisplay(ProgressDisplay):
    """Call the object with each report, and `write` with each line of a job."""

    def __init__(
        self, names: Sequence[str], stream: TextIO | None = None, output: TextIO | None = None, *, as_json: bool = False
    ) -> None:
        super().__init__(stream)
        self._output = output or (sys.stderr if as_json else sys.stdout)
        self._width = max((min(len(name), LONGEST_NAME) for name in names), default=0)
        self._is_coloured = has_colours(self._output)
        self._line = ""
        self._is_timed = False

    def __call__(self, report: ProgressReport) -> None:
        self._is_timed = report.phase is WorkPhase.JOBS  # its text has the seconds since the jobs began
        super().__call__(report)

    def write(self, job: Job, line: str) -> None:
        """Print a line of a job. Raise AnswerLost if stdout is closed."""
        self._erase()
        prefix = f"{shortened_name(job.name):<{self._width}} |"
        if self._is_coloured:
            prefix = f"\033[{COLOURS[job.index % len(COLOURS)]}m{prefix}{RESET}"
            # What the job colours ends with its line: the next one may be another job's.
            line = f"{line}{RESET}" if "\033" in line else line
        try:
            print(f"{prefix} {line}", file=self._output, flush=True)
        except OSError as exc:
            remedy = "The jobs were cancelled, and the runners given back."
            raise AnswerLost(f"stdout: cannot be written ({exc.strerror})", remedy=remedy) from exc

    def close(self) -> None:
        self._erase()

    def tick(self) -> None:
        if not self._is_timed:
            super().tick()

    def _timed(self) -> str:
        # A line that wraps could not be erased.
        room = columns_of(self._stream) - 1
        return self._with_bar(self._text, room)[:room] if self._is_timed else super()._timed()

    def _show(self, line: str) -> None:
        if line != self._line:
            self._line = line
            self._stream.write(f"{ERASE}{line}")
            self._stream.flush()

    def _erase(self) -> None:
        if self._line:
            self._line = ""
            with suppress(OSError):  # the reader is gone
                self._stream.write(ERASE)
                self._stream.flush()


def shortened_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}~"
