"""Log lines with fields: one sentence that stays the same, and key-value pairs that vary.

    log = get_logger("bullpen.server")
    log.info("label released", run="4711", repository="acme/widgets")

    text   2026-11-16T03:07:59.984Z INFO    server: label released run=4711 repository=acme/widgets
    json   {"time": "2026-11-16T03:07:59.984Z", "level": "info", "event": "label released", "run": "4711", ...}

Levels: every state change at debug; provisions, discarded instances and refusals at info; a lost lease, a machine that
is gone and a CI that does not answer at warning, once each; what an operator must act on at error. Heartbeats are not
logged.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, MutableMapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from bullpen.lazy_dataclass import dataclass

OWN_KEYS = frozenset({"exc_info", "stack_info", "stacklevel", "extra"})
PLAIN = frozenset("-_./:@+%#*~,[]()<>!?$&'")
"""What a value may have besides letters and digits without being put in quotes."""
COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}
QUIET = ("httpx", "botocore", "aiobotocore")
"""Libraries that report each request; Bullpen reports what came of it."""


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


TOLD_LAST = ("error", "reason", "effect")
"""Fields with sentences, which a text for people puts last, behind a colon."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A log line that is not logged yet: some callers log it, others show it to people. Make one with `happened`."""

    what: str
    fields: tuple[tuple[str, str], ...] = ()

    def log(self, to: "FieldLogger", level: int, **more: Any) -> None:
        fields: dict[str, Any] = {**more, **dict(self.fields)}
        to.log(level, self.what, **fields)

    def __str__(self) -> str:
        """For people: `label released (run 4711, repository acme/widgets): the reason`."""
        named = ", ".join(f"{name} {value}" for name, value in self.fields if name not in TOLD_LAST)
        why = "; ".join(value for name, value in self.fields if name in TOLD_LAST)
        return f"{self.what}{f' ({named})' if named else ''}{f': {why}' if why else ''}"


def happened(what: str, /, **fields: object) -> LogEvent:
    """`what` stays the same; the fields vary."""
    return LogEvent(what, tuple((name, str(value)) for name, value in fields.items() if value is not None))


class FieldLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keyword arguments are the fields of the line."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields = {name: value for name, value in kwargs.items() if name not in OWN_KEYS and value is not None}
        own = {name: value for name, value in kwargs.items() if name in OWN_KEYS}
        # The message has the fields too, for handlers of other programs.
        return _without_breaks(" ".join([str(msg), *_pairs(fields)])), {
            **own,
            "extra": {"event": str(msg), "fields": fields},
        }


def get_logger(name: str) -> FieldLogger:
    return FieldLogger(logging.getLogger(name))


def set_up(level: Level, format: Format, *, brief: bool = False) -> None:
    """Send every line to stderr; replaces what was set up before. `brief` lines have no time: a person reads along."""
    handler: logging.Handler = logging.NullHandler()
    if sys.stderr is not None:  # Python has none where the file descriptor was closed before it started
        handler, coloured = logging.StreamHandler(sys.stderr), has_colours(sys.stderr)
        handler.setFormatter(JsonLines() if format is Format.JSON else TextLines(coloured=coloured, brief=brief))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for library in QUIET:
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLogger().level))


def has_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal with colours, and the user has not turned them off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class TextLines(logging.Formatter):
    def __init__(self, *, coloured: bool = False, brief: bool = False) -> None:
        super().__init__()
        self._coloured = coloured
        self._brief = brief

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower() if self._brief else f"{record.levelname:<7}"
        if self._coloured:
            level = f"\x1b[{COLOURS.get(record.levelno, '0')}m{level}\x1b[0m"
        message = _without_breaks(record.getMessage())
        source = record.name.removeprefix("bullpen.")
        line = f"bullpen: {level}: {message}" if self._brief else f"{_time(record)} {level} {source}: {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
        }
        fields: dict[str, Any] = getattr(record, "fields", {})
        line |= {name: value for name, value in fields.items() if name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _without_breaks(json.dumps(line, default=str, ensure_ascii=False))


def _pairs(fields: dict[str, Any]) -> Iterable[str]:
    return (f"{name}={_shown(value)}" for name, value in fields.items())


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        value = ",".join(str(one) for one in value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    plain = text and all(letter.isalnum() or letter in PLAIN for letter in text)
    return text if plain else json.dumps(text, ensure_ascii=False)


def _without_breaks(text: str) -> str:
    """A line break or an escape in a text from outside must not look like another line, nor steer a terminal."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z"
