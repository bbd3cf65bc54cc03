"""A program on a terminal that it draws on: what is shown, which keys it gets, and how it leaves the terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from terminals import UNSET

PATIENCE = 240.0  # seconds: a busy machine
SEQUENCE = re.compile(rb"\033\[([?]?)([0-9;]*)([A-Za-z])|\033(.)|([^\033]+)", re.DOTALL)
ALTERNATE, CURSOR, WRAPS = "1049", "25", "7"


class ScreenPicture:
    """What a terminal shows after these bytes. It knows the sequences that `bullpen top` writes, and no others."""

    def __init__(self, columns: int, rows: int) -> None:
        self.modes: dict[str, bool] = {ALTERNATE: False, CURSOR: True, WRAPS: True}
        self.styles: list[str] = []
        self.clips = False
        self._rest = b""
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.at = (0, 0)

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, data: bytes) -> None:
        data, self._rest = self._rest + data, b""
        begun = data.rfind(b"\033")
        if begun >= 0 and len(data) - begun < 12 and not re.match(rb"\033(\[[?0-9;]*[A-Za-z]|[^\[])", data[begun:]):
            data, self._rest = data[:begun], data[begun:]
        for private, parameters, final, other, text in SEQUENCE.findall(data):
            assert not other, f"escape {other!r}"
            if text:
                self._print(text.decode(errors="replace"))
            else:
                self._control(private.decode(), parameters.decode(), final.decode())

    def _control(self, private: str, parameters: str, final: str) -> None:
        if not self.modes[ALTERNATE] and parameters not in self.modes:
            return  # of a shell
        match final:
            case "h" | "l":
                assert private, "only private modes are set"
                assert parameters in self.modes
                self.modes[parameters] = final == "h"
            case "H":
                row, _, column = parameters.partition(";")
                self.at = int(row or 1) - 1, int(column or 1) - 1
            case "J":
                assert parameters == "2"
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
            case "K":
                line, begin = self.at
                if line < self.rows or not self.clips:
                    self.cells[line][begin:] = [" "] * (self.columns - begin)
            case "m":
                self.styles.append(parameters)
            case _:
                raise AssertionError(f"sequence ending with {final}")

    def _print(self, text: str) -> None:
        if not self.modes[ALTERNATE]:
            return  # what is printed before and after, with line breaks
        for char in text:
            row, column = self.at
            assert char.isprintable(), f"{char!r} controls the terminal"
            if self.clips and (row >= self.rows or column >= self.columns):
                continue
            assert column < self.columns, f"{char!r} is written behind the last column of row {row + 1}"
            self.cells[row][column] = char
            self.at = row, column + 1


class EmulatedTerminal:
    """A command on a terminal of its own, which is its controlling one: Ctrl-C and closing it send signals."""

    def __init__(
        self, command: Sequence[str], folder: Path, columns: int = 80, rows: int = 24, **variables: str
    ) -> None:
        self.end, program = pty.openpty()
        self.picture = ScreenPicture(columns, rows)
        self.received = b""
        self._set_size(columns, rows)
        self.before = termios.tcgetattr(self.end)
        environ: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in UNSET}
        environ = {**environ, "TERM": "xterm", "LANG": "C.UTF-8", **variables}
        self.process = subprocess.Popen(
            command,
            stdin=program,
            stdout=program,
            stderr=program,
            cwd=folder,
            env={name: value for name, value in environ.items() if value},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(program)

    def __enter__(self) -> "EmulatedTerminal":
        return self

    def __exit__(self, *error: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.end >= 0:
            os.close(self.end)

    def press(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def until(self, is_shown: Callable[[ScreenPicture], bool]) -> ScreenPicture:
        """Read until the picture shows something."""
        return self._read(lambda: is_shown(self.picture))

    def until_text(self, text: str) -> ScreenPicture:
        """On the screen, or printed outside of it."""
        return self._read(lambda: any(text in line for line in self.picture.lines) or text in self.printed)

    @property
    def printed(self) -> str:
        return re.sub(r"\033\[[?0-9;]*[A-Za-z]", "", self.received.decode(errors="replace"))

    def _read(self, is_done: Callable[[], bool]) -> ScreenPicture:
        give_up = time.monotonic() + PATIENCE
        while not is_done():
            assert time.monotonic() < give_up, f"not shown: {self.picture.lines}\n{self.received[-2000:]!r}"
            if not self.read_some(1.0):
                assert self.process.poll() is None or is_done(), f"ended: {self.received[-2000:]!r}"
        return self.picture

    def read_some(self, within: float) -> bool:
        """False if nothing came, or there is nothing more."""
        if not select.select([self.end], [], [], within)[0]:
            return False
        try:
            data = os.read(self.end, 65536)
        except OSError:  # so a terminal says that its last program has ended
            return False
        self.received += data
        self.picture.feed(data)
        return bool(data)

    def resize(self, columns: int, rows: int) -> None:
        self.picture.clips = True  # what is on its way was drawn for the size before
        self.picture.resize(columns, rows)
        self._set_size(columns, rows)  # the kernel sends SIGWINCH

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """The window is closed, or the ssh connection is lost."""
        os.close(self.end)
        self.end = -1

    def ended(self) -> int:
        """The exit code; what is left of the output is read before."""
        give_up = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < give_up, f"does not end: {self.received[-2000:]!r}"
            if self.end >= 0:
                self.read_some(0.2)
            else:
                time.sleep(0.05)
        while self.end >= 0 and self.read_some(0.1):
            pass
        return self.process.returncode

    def assert_restored(self) -> None:
        """The terminal is as it was: screen, cursor, line wrap, echo and the rest."""
        assert self.picture.modes == {ALTERNATE: False, CURSOR: True, WRAPS: True}
        assert termios.tcgetattr(self.end) == self.before

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
