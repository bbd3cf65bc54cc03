"""Removes secrets from what is handed out: those that this process knows, and what has the form of one.

A false positive does less harm than a leak: what stands behind the name of a secret is hidden whatever it is.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bullpen.config import Settings
from bullpen.settings.redaction import HIDDEN, suggests_secret

SHORTEST = 8  # characters of a known secret: a shorter one would hide parts of ordinary words
LARGEST_FILE = 64 * 1024  # bytes of a file with a secret
IN_FILE = "file:"
NAMES = ("key",)  # of a worker: no secret, though its name suggests one
FORMS = re.compile(
    r"""
      -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----.*?(?:-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----|\Z)
    | \A(?:[A-Za-z0-9+/=]+\r?\n)+-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY-----  # of which a log has only the end
    | \bgh[a-z]_[A-Za-z0-9]{16,} | \bgithub_pat_[A-Za-z0-9_]{16,}      # GitHub's tokens
    | \bbp[a-z]_[A-Za-z0-9._~+/=%-]{16,}                               # Bullpen's
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                                    # ids of AWS's keys
    | \bey[AIJ][A-Za-z0-9_+/=-]{24,}(?:\.[A-Za-z0-9_+/=-]*)*           # JWT; JIT configurations begin with `{".runner`
    | \b[A-Z2-7]{29}\b                                                # registration tokens of runners
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# What stands before a value is bounded: a log may be one long line of anything.
NAMED = re.compile(
    r"""
    (?P<name> \bauthorization["']?\s{0,8}[:=]\s{0,8}["']?(?:(?:bearer|basic|token)\s{1,8})? | \bbearer\s{1,8}
        | --(?:token|jitconfig|password|secret)[\s=]{1,8}
        | (?:token|secret|passw(?:or)?d|passphrase|credential|private[_-]?key|access[_-]?key|api[_-]?key|jit[_-]?config)
          [\w-]{0,40}\\{0,4}["']?\s{0,8}(?:[:=]|%3D)\s{0,8}\\{0,4}["']?  # in JSON within JSON, quotes are escaped
    ) (?!\(not\ shown\))
    (?P<value> (?<=[^\\]")(?:[^"\\\n]|\\.){4,} | (?<=')[^'\n]{4,} | [^\s"',;&}\])]{4,})
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
USERINFO = re.compile(r"(://)(?:[^/\s:@\"']{0,256}:[^/\s@\"']{1,1024}|[^/\s:@\"']{16,256})@")


class Scrubber:
    def __init__(self, known: Iterable[str] = ()) -> None:
        secrets = sorted({one for one in known if len(one) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, secrets))) if secrets else None

    def text(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = FORMS.sub(HIDDEN, text)
        text = USERINFO.sub(rf"\1{HIDDEN}@", text)
        return NAMED.sub(lambda found: found["name"] + HIDDEN, text)

    def log(self, content: bytes) -> bytes:
        return self.text(content.decode("utf-8", "replace")).encode()

    def tree(self, value: Any, name: str = "") -> Any:
        """A value as JSON has it. What has the name of a secret is hidden."""
        match value:
            case str():
                is_secret = suggests_secret(name) and name not in NAMES
                return HIDDEN if value and is_secret else self.text(value)
            case dict():
                return {self.text(str(key)): self.tree(item, str(key)) for key, item in value.items()}
            case list() | tuple():
                before = ["", *value]  # an option stands before its value
                return [
                    HIDDEN if _is_option(option) and isinstance(item, str) else self.tree(item, name)
                    for option, item in zip(before, value, strict=False)
                ]
        return value


def _is_option(word: object) -> bool:
    return isinstance(word, str) and word.startswith("-") and "=" not in word and suggests_secret(word)


def known_secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The secrets of the settings, also those in files, and of this process's environment."""
    own = settings.github
    found = [value for name, value in environ.items() if suggests_secret(name)]
    for value in (own.token, own.private_key, own.webhook_secret):
        found.append(value)
        if value.startswith(IN_FILE):
            found.append(_content(Path(value.removeprefix(IN_FILE))))
    lines = [line.strip() for value in found for line in value.splitlines()]  # a key in a log may have lost its breaks
    return [one.strip() for one in (*found, *lines) if len(one.strip()) >= SHORTEST]


def _content(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_FILE).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
