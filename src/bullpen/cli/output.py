"""Output: answers go to stdout, errors to stderr. With --json an error is also one object on stdout."""

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bullpen.errors import BullpenError, FailureCause
from bullpen.structured_log import has_colours

if TYPE_CHECKING:
    from msgspec import Struct


class AnswerLost(BullpenError):
    """The work is done, but its answer could not be written."""


def say(text: str) -> None:
    """Print an answer and flush it, so that a failure is raised here and not at the end of the program.

    Raise AnswerLost.
    """
    try:
        print(text, flush=True)
    except OSError as exc:
        remedy = "The work is done; only the output is lost."
        raise AnswerLost(f"stdout: cannot be written ({exc.strerror})", remedy=remedy) from exc


def print_json(answer: "Struct | dict[str, Any]") -> None:
    """Print one object on one line, the only thing on stdout; in ASCII, whatever the terminal can show."""
    from msgspec import to_builtins

    say(json.dumps(to_builtins(answer)))


def complain(
    reason: str, remedy: str = "", *, cause: FailureCause = FailureCause.REFUSED, field: str = "", as_json: bool = False
) -> None:
    """Print an error: one line with what happened to what, and one with what to do next."""
    reason, remedy = _one_line(reason), _one_line(remedy)
    red, plain = ("\033[1;31m", "\033[0m") if has_colours(sys.stderr) else ("", "")
    print(f"{red}bullpen: error:{plain} {reason}", file=sys.stderr)
    if remedy:
        print(f"  → {remedy}", file=sys.stderr)
    if as_json:
        with suppress(AnswerLost):
            from bullpen.schema.base import WorkState
            from bullpen.schema.error import FailureAnswer

            print_json(FailureAnswer(WorkState.FAILED, cause, reason, remedy, field))


def _one_line(text: str) -> str:
    """Without line breaks and control characters: text from outside must not control the terminal."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
