"""The pictures of the dashboard in docs/assets: a made pool, in a real browser.

    python tools/screenshots.py [DIRECTORY]

Run it after a change of what the dashboard shows, and look at every picture.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs/assets"
LARGEST = 150_000  # bytes of a picture
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from browser import made_answers  # noqa: E402
from browser.made_pool import MadePool  # noqa: E402
from browser.made_server import MadeServer, made_server  # noqa: E402
from fakes import browser_tools  # noqa: E402


@dataclass(frozen=True)
class Picture:
    name: str
    place: str
    theme: str = "light"
    size: tuple[int, int] = (1280, 800)
    press: str = ""  # the name of a button that is pressed before


PICTURES = (
    Picture("dashboard-pools", "pools", size=(1280, 900)),
    Picture("dashboard-queue", "queue?open=48231", "dark"),
    Picture("dashboard-run", f"runs/{made_answers.RUN}", size=(1280, 900)),
    Picture("dashboard-instances", "instances"),
    Picture("dashboard-cost", "cost", "dark"),
    Picture("dashboard-plan", "pools", press="Provision…"),
    Picture("dashboard-narrow", "instances", "dark", (390, 760)),
)


def main(target: Path = ASSETS) -> None:
    pool = MadePool()
    program = browser_tools.chromium()
    with (
        made_server(MadeServer(made_answers.answers(pool), pool.beginning)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=browser_tools.ARGUMENTS)
        for picture in PICTURES:
            path = target / f"{picture.name}.png"
            _take(browser, server.url, picture, path)
            size = path.stat().st_size
            assert size < LARGEST, f"{path}: {size} bytes"
            print(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {size:,} bytes")
        browser.close()


def _take(browser: Browser, url: str, picture: Picture, path: Path) -> None:
    width, height = picture.size
    theme: object = picture.theme
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{url}/#/{picture.place}")
    page.wait_for_selector("main .lead")
    if picture.press:
        page.get_by_role("button", name=picture.press).click()
        page.get_by_label("Runners", exact=True).fill("3")
        page.wait_for_selector("dialog .preview b")
    page.wait_for_timeout(3500)  # every answer is there, and lists, which are ordered once a second, are in order
    page.screenshot(path=path)
    context.close()
    _optimise(path)


def _optimise(path: Path) -> None:
    """A palette is enough for so few colours; without pngquant the picture stays as it is."""
    try:
        subprocess.run(["pngquant", "--force", "--skip-if-larger", "--output", str(path), "--", str(path)], check=False)
    except FileNotFoundError:
        print("pngquant is not installed: apt-get install pngquant makes the pictures smaller")


if __name__ == "__main__":
    main(*(Path(one) for one in sys.argv[1:2]))
