"""The pictures of screens: made of what a terminal shows, and complete in themselves."""

import re
import subprocess
import sys

import pytest

from pictures import ASSETS, SCREENS, _final_screen
from walkthroughs import ROOT


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_is_used_and_asks_no_other_host_for_anything(name: str) -> None:
    picture = (ASSETS / f"screen-{name}.svg").read_text()
    assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert any(f"assets/screen-{name}.svg" in page.read_text() for page in (ROOT / "docs").glob("*.md"))


def test_a_screen_is_what_stays_after_lines_were_written_again() -> None:
    assert _final_screen("a\rb\n\x1b[31mred\x1b[0m\n", 80) == "b\n" + "".join(f"\x1b[31m{one}\x1b[0m" for one in "red")
    assert _final_screen("1 of 2\r\x1b[2K2 of 2\nnext\x1b[1A\r\x1b[2Kdone", 80) == "done\nnext"
    assert _final_screen("abcdef", 4) == "abcd\nef"


@pytest.mark.slow
def test_the_script_shows_the_screen_of_a_real_command() -> None:
    command = [sys.executable, str(ROOT / "tools/pictures.py"), "--show", "status"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "$ bullpen status" in shown
    assert re.search(r"\b4711\b.*\brunning\b|\brunning\b.*\b4711\b", re.sub(r"\x1b\[[\d;]*m", "", shown))
