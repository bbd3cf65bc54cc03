"""Speaking with the runner: commands on stdout, and files for outputs and the summary.

A command is a line that begins with `::`. What comes from outside is escaped, so that it can neither end a command nor
begin one; a secret is masked before anything else is printed.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

LARGEST_SUMMARY = 1024 * 1024  # bytes that GitHub takes of one step
CUT = "\n\n_Cut here: GitHub shows at most 1 MiB of a step's summary._\n"


def say(line: str) -> None:
    """A line of the log, never a command."""
    text = "".join(char if char.isprintable() else " " for char in line)
    _print(f" {text}" if text.lstrip().startswith("::") or text.startswith("##[") else text)


def mask(secret: str) -> None:
    """Each line of it: the runner masks line by line."""
    for line in filter(str.strip, secret.splitlines()):
        _print(f"::add-mask::{_escaped(line)}")


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
    """Append to GITHUB_OUTPUT. Values are of one line: names, ids and numbers of ours."""
    _append(environ, "GITHUB_OUTPUT", "".join(f"{name}={' '.join(value.split())}\n" for name, value in outputs.items()))


def summarise(environ: Mapping[str, str], text: str) -> None:
    """Append to GITHUB_STEP_SUMMARY, which is dropped whole if it is too long."""
    content = text.encode()
    if len(content) > LARGEST_SUMMARY:
        kept = content[: LARGEST_SUMMARY - len(CUT.encode())]
        content = kept[: kept.rfind(b"\n") + 1] + CUT.encode()
    _append(environ, "GITHUB_STEP_SUMMARY", content.decode(errors="ignore"))


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


def leave_at_once(code: int) -> None:
    """End this process here and now: whatever was printed is out already."""
    sys.stdout.flush()
    os._exit(code)
