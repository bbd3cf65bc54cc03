"""What pause, resume, drain and rotate share: their options, and how their answer is shown."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import click

from bullpen.cli.backend import Backend
from bullpen.cli.options import PoolOptions
from bullpen.cli.output import answer_width, print_json, say
from bullpen.cli.text import columns, wrapped
from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.schema.pause import OperateAnswer, PauseAnswer
from bullpen.settings.redaction import shortened

FIELDS = {"resource-class": "--class", "note": "--note", "instances": "INSTANCE"}
"""Options and arguments whose name differs from that of the field."""

class_option = click.option("--class", "resource_class", metavar="NAME", help="Only this resource class.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing.")
NOTE_HELP = f"Reason, shown by status and why: one line of at most {limits.NOTE_LENGTH} characters."

Order = Callable[[Backend], Awaitable[OperateAnswer]]


def ordered(given: PoolOptions, order: Order, nothing: str) -> int:
    """Carry out an order on the pool and print what it did, or `nothing` if it did nothing. Raise NotFound if there is
    no pool."""
    target = given.target()
    target.require()
    try:
        answer = target.perform(lambda pool, stop, tell: order(pool))
    except ConfigError as exc:
        raise _with_option(exc) from exc
    if given.as_json:
        print_json(answer)
    else:
        say(operate_text(answer, nothing, answer_width()))
    return 0


def operate_text(answer: OperateAnswer, nothing: str, width: int) -> str:
    rows = [(f"would {one.what}" if answer.dry_run else one.what, one.subject, one.reason) for one in answer.actions]
    lines = [columns(rows, width=width)] if rows else [nothing]
    if answer.pause is not None and not any(one.what in ("pause", "change note") for one in answer.actions):
        lines += wrapped(pause_text(answer.pause), width)
    return "\n".join(lines)


def pause_text(one: PauseAnswer) -> str:
    what = f"class {one.resource_class}" if one.resource_class else "the whole pool"
    return f"{what} is paused by {one.by} since {one.since}: {one.note}"


def checked_class(name: str | None) -> str:
    """The class; empty if none is given. Raise ConfigError for what can be the name of no class."""
    if name is None:
        return ""
    if not re.fullmatch(limits.CLASS_NAME, name):
        raise ConfigError(f"--class {shortened(name)}: must be {limits.CLASS_NAME_ALLOWED}", field="--class")
    return name


def checked_note(note: str, *, is_needed: bool = False) -> str:
    """Raise ConfigError for a note that could not be shown as it is, or that is missing."""
    if not limits.is_note(note) or (is_needed and not note.strip()):
        allowed = limits.NOTE_ALLOWED + (", and not empty" if is_needed else "")
        raise ConfigError(f"--note {shortened(note)}: must be {allowed}", field="--note")
    return note


def _with_option(error: ConfigError) -> ConfigError:
    """The error, with the name of the option in place of the field."""
    known: dict[str, Any] = {**FIELDS, "--resource-class": "--class", "--instances": "INSTANCE"}
    option = known.get(error.field, "")
    if not option or not str(error).startswith(error.field):
        return error
    text = option + str(error).removeprefix(error.field)
    return ConfigError(text, remedy=error.remedy, field=option, value=error.value, allowed=error.allowed)
