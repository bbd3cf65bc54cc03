"""The pictures of screens: made of what a terminal shows, and complete in themselves."""

import html
import re
import subprocess
import sys
from itertools import groupby

import pytest

from pictures import ASSETS, SCREENS, _final_screen
from walkthroughs import ROOT, blanked


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_is_used_and_asks_no_other_host_for_anything(name: str) -> None:
    picture = (ASSETS / f"screen-{name}.svg").read_text()
    assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}
    assert any(f"assets/screen-{name}.svg" in page.read_text() for page in (ROOT / "docs").glob("*.md"))


def test_a_screen_is_what_stays_after_lines_were_written_again() -> None:
    assert _final_screen("a\rb\n\x1b[31mred\x1b[0m\n", 80) == "b\n\x1b[31mred\x1b[0m"
    assert _final_screen("1 of 2\r\x1b[2K2 of 2\nnext\x1b[1A\r\x1b[2Kdone", 80) == "done\nnext"
    assert _final_screen("abcdef", 4) == "abcd\nef"


@pytest.mark.parametrize("name", SCREENS)
def test_no_text_of_a_picture_begins_with_a_space_which_some_programs_drop(name: str) -> None:
    assert re.findall(r">(?:&#160;)+[^<\s&]", svg(name)) == []


@pytest.mark.parametrize("name", SCREENS)
def test_a_picture_shows_no_path_of_the_machine_that_made_it(name: str) -> None:
    assert set(re.findall(r"(?<![\w.])/[a-z][\w/.-]+", picture_text(name))) <= {"/home/you/acme/widgets/.bullpen"}


@pytest.mark.slow
def test_the_pictures_have_the_words_that_the_commands_print() -> None:
    command = [sys.executable, str(ROOT / "tools/pictures.py"), "--show"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    printed = re.split(r"^(?=\$ bullpen )", re.sub(r"\x1b\[[\d;]*m", "", shown), flags=re.MULTILINE)[1:]
    for name, text in zip(SCREENS, printed, strict=True):
        assert words(picture_text(name)) == words(text), f"{name}: stale, run `python tools/pictures.py`"


def picture_text(name: str) -> str:
    """The lines of a picture, from top to bottom."""
    spans = re.findall(
        r'<text [^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg(name).partition('-matrix">')[2]
    )
    placed = sorted((float(y), float(x), html.unescape(text)) for x, y, text in spans)
    return "\n".join(" ".join(text for _, _, text in line) for _, line in groupby(placed, lambda it: it[0]))


def words(screen: str) -> list[str]:
    """In any order, because jobs print side by side: without ids, times and numbers, and what depends on the moment of
    a kill."""
    text = " ".join(screen.replace("\xa0", " ").split())
    text = re.sub(r"took .*? actions?, first: .*? ✔", "took actions ✔", text).replace("Pool: /", "Pool: ")
    return sorted(re.sub(r"#[smh]?\b", "#", blanked(text)).split())


def svg(name: str) -> str:
    return (ASSETS / f"screen-{name}.svg").read_text()
