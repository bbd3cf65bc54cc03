"""The keys of a terminal, from the bytes that it sends, which may be cut anywhere.

An escape byte begins the sequence of a key, or is the escape key itself: then nothing follows it for a moment, and
`rest` says so.
"""

import codecs
import re

ESCAPE = "\033"
NAMED = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[C": "right", "OC": "right", "[D": "left", "OD": "left",
    "[5~": "page-up", "[6~": "page-down", "[H": "home", "OH": "home", "[1~": "home", "[F": "end", "OF": "end",
    "[4~": "end", "[Z": "back-tab",
}  # fmt: skip
PLAIN = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "erase", "\b": "erase", "\x15": "clear", "\x0c": "redraw"}
WHOLE = re.compile(r"\033(\[[0-?]*[ -/]*[@-~]|O[ -~])")
BEGUN = re.compile(r"\033(\[[0-?]*[ -/]*|O)?")
LONGEST = 32  # characters of a sequence: what is longer is none of a key


class KeyReader:
    """Printable characters are keys of their own name; what is neither is left out."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def read(self, received: bytes) -> list[str]:
        text, self._begun = self._begun + self._decoder.decode(received), ""
        keys: list[str] = []
        while text:
            if found := WHOLE.match(text):
                keys += [NAMED[found[1]]] if found[1] in NAMED else []
                text = text[found.end() :]
            elif BEGUN.fullmatch(text) and len(text) < LONGEST:
                self._begun, text = text, ""
            else:
                keys += _key(text[0])
                text = text[1:]
        return keys

    @property
    def is_waiting(self) -> bool:
        """Whether a sequence has begun."""
        return bool(self._begun)

    def rest(self) -> list[str]:
        """The keys of a sequence that was not finished."""
        begun, self._begun = self._begun, ""
        return [key for char in begun for key in _key(char)]


def _key(char: str) -> list[str]:
    if char == ESCAPE:
        return ["escape"]
    return [PLAIN.get(char, char)] if char in PLAIN or char.isprintable() else []
