"""Output: answers go to stdout, errors to stderr. With --json an error is also one object on stdout."""

import json
import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from bullpen.cli.text import wrapped
from bullpen.errors import BullpenError, FailureCause
from bullpen.structured_log import has_colours

if TYPE_CHECKING:
    from msgspec import Struct


ASCII = str.maketrans({"→": "->", "–": "-", "×": "x", "…": "...", "✔": "ok", "✘": "FAILED", "█": "#", "░": "-"})
"""Every character beyond ASCII that Bullpen prints itself, and what stands for it where it cannot be shown."""
ERROR = "bullpen: error:"
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python may put into LC_CTYPE in the locale C (PEP 538)


class AnswerLost(BullpenError):
    """The work is done, but its answer could not be written."""


def say(text: str) -> None:
    """Print an answer and flush it, so that a failure is raised here and not at the end of the program.

    Raise AnswerLost.
    """
    pass_on(legible(text, sys.stdout))


def pass_on(text: str) -> None:
    """Print what a job printed, as it is. Raise AnswerLost."""
    try:
        print(text, flush=True)
    except OSError as exc:
        remedy = "The work is done; only the output is lost."
        raise AnswerLost(f"stdout: cannot be written ({exc.strerror})", remedy=remedy) from exc


def note(text: str, end: str = "\n") -> None:
    """Print a line beside the answer, on stderr. If its reader is gone, the work goes on all the same."""
    with suppress(OSError):
        print(legible(text, sys.stderr), end=end, file=sys.stderr, flush=True)


def print_json(answer: "Struct | dict[str, Any]") -> None:
    """Print one object on one line, the only thing on stdout; in ASCII, whatever the terminal can show."""
    from msgspec import to_builtins

    say(json.dumps(to_builtins(answer)))


def complain(
    reason: str, remedy: str = "", *, cause: FailureCause = FailureCause.REFUSED, field: str = "", as_json: bool = False
) -> None:
    """Print an error: one line with what happened to what, and one with what to do next."""
    reason, remedy = _one_line(reason), _one_line(remedy)
    width = note_width()
    lines = wrapped(f"{ERROR} {reason}", width, "  ")
    if remedy:
        lines += wrapped(legible(f"  → {remedy}", sys.stderr), width, "    ")
    shown = f"\033[1;31m{ERROR}\033[0m" if has_colours(sys.stderr) else ERROR
    note("\n".join(lines).replace(ERROR, shown, 1))
    if as_json:
        with suppress(AnswerLost):
            from bullpen.schema.base import WorkState
            from bullpen.schema.error import FailureAnswer

            print_json(FailureAnswer(WorkState.FAILED, cause, reason, remedy, field))


def arrow() -> str:
    """As stdout can show it, for a text whose width counts."""
    return legible("→", sys.stdout)


def answer_width() -> int:
    """The width of the terminal behind stdout; 0, for any, where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def note_width() -> int:
    """The same for stderr."""
    return columns_of(sys.stderr) if sys.stderr.isatty() else 0


def columns_of(stream: TextIO) -> int:
    """The width of a terminal, 80 if it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def legible(text: str, stream: TextIO) -> str:
    """The text as this stream can show it. What users and jobs write is left as it is."""
    return text if shows_unicode(stream) else text.translate(ASCII)


def shows_unicode(stream: TextIO) -> bool:
    """Whether both the stream and the locale are UTF-8. In the locale C Python writes UTF-8 all the same, which a
    terminal of that locale does not show, and names C.UTF-8 in LC_CTYPE itself."""
    if "utf" not in (getattr(stream, "encoding", None) or "").lower():
        return False
    if os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8") == "1":
        return True
    named = [os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if named[1] in COERCED and not named[0]:
        named[1] = ""
    return any("utf" in name.lower() for name in list(filter(None, named))[:1])


def _one_line(text: str) -> str:
    """Without line breaks and control characters: text from outside must not control the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
