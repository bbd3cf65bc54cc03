"""Pictures of the demo, of a run and of the status for the docs: real commands in a terminal of 80 columns, as SVG.

`python tools/pictures.py` writes docs/assets/screen-*.svg. `--show --columns 60`, with NO_COLOR or LANG=C in the
environment, prints the same screens instead, to be looked at.
"""

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
SETTING_UP = "bullpen provision --run-id 4711 --count 2"
SCREENS = {  # file → the commands that are shown; each begins in the pool that the ones before have left
    "demo": ("bullpen demo",),
    "run": ("bullpen run --run-id 4712 --count 4 --no-sync -- echo hello {index}",),
    "status": ("bullpen status",),
}
PROJECT = "acme/widgets"  # the commands run in a directory of this name
SHOWN_HOME = "/home/you"  # where it seems to be: the path of the machine that makes the pictures is not shown
COLUMNS, ROWS = 80, 200
ESCAPE = re.compile(r"\x1b\[(?P<arguments>[0-9;?]*)(?P<verb>[A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]")
SPACE, CELL = "&#160;", 12.2  # as rich writes a space, and how wide it draws a character
BEGINS_WITH_SPACES = re.compile(
    rf'(?P<head><text [^>]*)x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" textLength="(?P<length>[\d.]+)"(?P<tail>[^>]*>)'
    rf"(?P<spaces>(?:{SPACE})+)(?=[^<\s&])"
)
THEME = TerminalTheme(
    (22, 27, 34),
    (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207),
     (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255),
     (86, 212, 221), (255, 255, 255)],
)  # fmt: skip
# Without rich's font, which it would load from another host.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="print the screens instead of writing files")
    parser.add_argument("--columns", type=int, default=COLUMNS, help="width of the terminal")
    parser.add_argument("only", nargs="*", choices=[[], *SCREENS], help="these screens only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home).resolve() / PROJECT
        folder.mkdir(parents=True)
        try:
            _typed(SETTING_UP, folder, options.columns)
            for name, commands in SCREENS.items():
                if options.only and name not in options.only:
                    continue
                screen = "".join(
                    f"\x1b[1m$ {command}\x1b[0m\n{_typed(command, folder, options.columns)}\n" for command in commands
                ).replace(str(Path(home).resolve()), SHOWN_HOME)
                if options.show:
                    print(screen)
                else:
                    (ASSETS / f"screen-{name}.svg").write_text(_picture(screen, commands[-1], options.columns))
        finally:
            _typed("bullpen down --yes", folder, options.columns)


def _picture(screen: str, title: str, columns: int) -> str:
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(screen.rstrip("\n")), crop=False, soft_wrap=True)
    svg = console.export_svg(title=title.partition(" --")[0], theme=THEME, code_format=FORMAT, unique_id="screen")
    return "\n".join(line.rstrip() for line in BEGINS_WITH_SPACES.sub(_moved, svg).splitlines()) + "\n"


def _moved(text: re.Match[str]) -> str:
    """The same text further to the right, without its first spaces: some programs that draw SVG drop them."""
    count = len(text["spaces"]) // len(SPACE)
    x, length = (round(float(text[name]) + count * width, 1) for name, width in (("x", CELL), ("length", -CELL)))
    return f'{text["head"]}x="{x:g}" y="{text["y"]}" textLength="{length:g}"{text["tail"]}'


def _typed(command: str, folder: Path, columns: int) -> str:
    """What stands on the screen after the command, with its colours."""
    pid, terminal = pty.fork()
    if pid == 0:
        program = "import sys; from bullpen.cli import main; sys.exit(main())"
        bullpen = f"bullpen() {{ '{sys.executable}' -c '{program}' \"$@\"; }}"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BULLPEN_")}
        os.chdir(folder)
        # Written before the program starts: a terminal has its size from the beginning.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        os.execvpe("bash", ["bash", "-c", f"{bullpen}\n{command}"], {**environ, "TERM": "xterm-256color"})
    received = bytearray()
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        received += chunk
    os.close(terminal)
    os.waitpid(pid, 0)
    return _final_screen(received.decode(errors="replace"), columns)


def _final_screen(output: str, columns: int) -> str:
    """What is left after carriage returns, erased lines, upward moves and wrapping: a small part of a terminal."""
    rows: list[list[tuple[str, str]]] = [[]]
    row = column = position = 0
    style = ""
    while position < len(output):
        escape = ESCAPE.match(output, position)
        if escape:
            position = escape.end()
            first = int(escape["arguments"] or 0) if (escape["arguments"] or "").isdigit() else 0
            match escape["verb"]:
                case "m":
                    plain = escape["arguments"] in ("", "0")
                    style = "" if plain else style + escape[0]
                case "A":
                    row = max(0, row - max(first, 1))
                case "K":
                    del rows[row][0 if first == 2 else column :]
            continue
        character = output[position]
        position += 1
        if character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, 0
            rows += [[]] if row == len(rows) else []
        elif character >= " ":
            if column == columns:
                row, column = row + 1, 0
                rows += [[]] if row == len(rows) else []
            line = rows[row]
            line += [(" ", "")] * (column - len(line) + 1)
            line[column] = (character, style)
            column += 1
    while rows and not rows[-1]:
        rows.pop()
    return "\n".join("".join(_styled(kind, text) for kind, text in groupby(line, itemgetter(1))) for line in rows)


def _styled(kind: str, characters: Iterable[tuple[str, str]]) -> str:
    text = "".join(one for one, _ in characters)
    return f"{kind}{text}\x1b[0m" if kind else text


if __name__ == "__main__":
    main()
