"""Workflow commands for GitHub's runner, on stdout, and the files for outputs and the summary.

The runner takes a line for a command if it begins with `::`, also after blanks, or has `##[` anywhere. Text from
outside is escaped, so that it can neither end a command nor begin one. Secrets among the inputs are masked before
anything else is printed, and tokens as soon as they are received.
"""

import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LARGEST_SUMMARY = 1024 * 1024  # bytes, GitHub's limit for one step
CUT = "\n\n_Cut here: GitHub shows at most 1 MiB of a step's summary._\n"
SHORTEST = 8  # characters of a masked line: masking a shorter one, such as a brace, would make the log unreadable
# The runner's .NET comparison ignores invisible characters, so any character beyond ASCII may stand between.
_UNSEEN = r"[^!-~]*"
_BEGINS = re.compile(rf"({_UNSEEN}):")
_HOLDS = re.compile(rf"#({_UNSEEN}#{_UNSEEN}\[)")


class Log(io.StringIO):
    """The log as a stream: everything written to it is printed as text, never as a command."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = f"{self._begun}{text}".split("\n")
        for line in lines:
            say(line)
        return len(text)


def say(text: str) -> None:
    """Print one or more lines to the log, never as a command."""
    for line in text.splitlines() or [""]:
        seen = "".join(char if char.isprintable() else " " for char in line)
        _print(_HOLDS.sub(r"#\\\1", _BEGINS.sub(r"\\\1:", seen, count=1) if _BEGINS.match(seen) else seen))


def mask(secret: str) -> None:
    """Mask a secret, line by line, as the runner does."""
    for line in secret.splitlines():
        if len(line.strip()) >= SHORTEST:
            _print(f"::add-mask::{_escaped(line.strip())}")


def error(title: str, message: str) -> None:
    _print(f"::error title={_property(title)}::{_escaped(message)}")


def warning(message: str) -> None:
    _print(f"::warning::{_escaped(message)}")


@contextmanager
def group(title: str) -> Iterator[None]:
    _print(f"::group::{_escaped(title)}")
    try:
        yield
    finally:
        _print("::endgroup::")


def put_out(environ: Mapping[str, str], outputs: Mapping[str, str]) -> None:
    """Append to GITHUB_OUTPUT. Values have one line: names, ids and numbers."""
    _append(environ, "GITHUB_OUTPUT", "".join(f"{name}={' '.join(value.split())}\n" for name, value in outputs.items()))


def summarise(environ: Mapping[str, str], text: str) -> None:
    """Append to GITHUB_STEP_SUMMARY. It is cut at GitHub's limit, because GitHub drops a longer one completely."""
    content = text.encode(errors="replace")
    if len(content) > LARGEST_SUMMARY:
        kept = content[: LARGEST_SUMMARY - len(CUT.encode())]
        content = kept[: kept.rfind(b"\n") + 1] + CUT.encode()
    _append(environ, "GITHUB_STEP_SUMMARY", content.decode(errors="ignore"))


def speak_utf8() -> None:
    """Print UTF-8, as the runner expects, in every locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")


def _append(environ: Mapping[str, str], variable: str, text: str) -> None:
    if path := environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def _print(line: str) -> None:
    print(line, flush=True)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
