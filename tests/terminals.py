"""A command as a person sees it: on a terminal of a given width."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

PROGRAM = [sys.executable, "-c", "import sys; from bullpen.cli import main; sys.exit(main())"]
UNSET = ("COLUMNS", "LINES", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8")


def on_a_terminal(arguments: tuple[str, ...], folder: Path, columns: int, **variables: str) -> list[str]:
    """The lines that the command prints, on stdout and stderr, without colours."""
    terminal, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in UNSET}
    environ |= {"TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8", **variables}
    with subprocess.Popen([*PROGRAM, *arguments], stdout=program, stderr=program, cwd=folder, env=environ):
        os.close(program)
        with open(terminal, "rb", buffering=0) as screen:
            seen = b""
            try:
                while piece := screen.read(65536):
                    seen += piece
            except OSError:  # so a terminal says that its last program has ended
                pass
    return seen.decode().replace("\r", "").splitlines()


class TerminalStream(io.StringIO):
    """Takes what is written as a terminal would, and says that it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True
