"""A browser, and what judges its pages: Debian's Chromium, driven by Playwright, and axe-core from npm.

axe-core is fetched once, in a pinned version, into the user's cache; `python tests/fakes/browser_tools.py` fetches
beforehand, and installs Chromium as root on Debian.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from fakes import debian_packages
from fakes.api_tools import ApiToolsMissing, fetched_from_npm

AXE = {"axe-core": "4.14.0"}
PROGRAM = "chromium"
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str:
    """The path of the browser. Without one the test is skipped; BULLPEN_REQUIRE_ENGINES=1 installs it."""
    debian_packages.require(PROGRAM)
    found = shutil.which(PROGRAM)
    assert found is not None
    return found


def axe() -> Path:
    """The script that judges whether a page can be used by everyone."""
    return fetched_from_npm("axe", AXE) / "node_modules/axe-core/axe.min.js"


if __name__ == "__main__":
    try:
        if os.geteuid() == 0 and shutil.which("apt-get"):
            os.environ["BULLPEN_REQUIRE_ENGINES"] = "1"
            print(f"the browser: {chromium()}")
        print(f"the judge of its pages: {axe()}")
    except ApiToolsMissing as exc:
        sys.exit(str(exc))
