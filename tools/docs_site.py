"""The docs as a site: `make docs` writes build/docs/site and fails on every warning.

    docs/*.md and what is generated from the code  ──▶  build/docs/docs  ──zensical──▶  build/docs/site

Pages link to each other as files, so that they read well on GitHub, too. Here links to files that are no page of the
site become links to the repository. Zensical checks links and anchors between pages. This module checks the rest: every
page is in the navigation, every file that a page links to exists, and no page asks another host for anything.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

import api_reference
import settings_table
import site_markdown
from docs_tools import DocsToolsMissing, zensical

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "docs"
BUILDING_TAKES = 300.0  # seconds; a few on an idle machine
# Pages that are no file of docs/.
ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
GENERATED = {"docs/api.md": "api.md", "docs/settings.md": "settings.md"}
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FENCE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
SETTINGS_HEAD = """# Settings

Every setting with its variable, its default and its reason, generated from the code. [Operating](operating.md#settings)
describes where settings come from, which one wins, and how `serve` reads them again.

"""


class SiteBroken(Exception):
    """A page is wrong; the message names each mistake on a line of its own."""


def build(target: Path = BUILD) -> Path:
    """Build the site; the folder of its pages. SiteBroken for every warning."""
    stage(target)
    shutil.rmtree(target / "site", ignore_errors=True)
    ran = subprocess.run(
        [zensical(), "build", "--strict", "--clean", "--config-file", "mkdocs.yml"],
        cwd=target,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=BUILDING_TAKES,
    )
    if ran.returncode:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout + ran.stderr)
        raise SiteBroken(plain.partition("Traceback")[0])
    _refuse(asked_elsewhere(target / "site"))
    return target / "site"


def stage(target: Path) -> None:
    """Write the pages and the navigation as the generator reads them."""
    pages = sources()
    shutil.rmtree(target / "docs", ignore_errors=True)
    shutil.copytree(ROOT / "docs", target / "docs", ignore=shutil.ignore_patterns("*.md"))
    mistakes: list[str] = []
    for origin, page in pages.items():
        written = target / "docs" / page
        written.parent.mkdir(parents=True, exist_ok=True)
        text = _generated(page) if origin in GENERATED else (ROOT / origin).read_text()
        written.write_text(site_markdown.for_site(_linked(text, origin, pages, mistakes)))
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    config["nav"] = _with_decisions(config["nav"], pages)
    mistakes += _navigation_mistakes(config["nav"], pages)
    _refuse(mistakes)
    (target / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False))


def sources() -> dict[str, str]:
    """Each page by the file that it comes from."""
    own = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
    return {**{path: path.removeprefix("docs/") for path in own}, **ELSEWHERE, **GENERATED}


def asked_elsewhere(site: Path) -> list[str]:
    """What a browser would load from another host."""
    found = []
    for page in sorted(site.rglob("*.html")):
        parser = _Loads()
        parser.feed(page.read_text())
        found += [f"{page.relative_to(site)} loads {url}" for url in parser.urls if re.match(r"(https?:)?//", url)]
    for style in sorted(site.rglob("*.css")):
        urls = re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)|@import ['\"]?(https?:[^;'\"]+)", style.read_text())
        found += [f"{style.relative_to(site)} loads {url or imported}" for url, imported in urls]
    return found


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev", "edit"):
            return
        if tag in ("script", "img", "iframe", "source", "video", "audio", "object", "embed"):
            self.urls += [given[name] for name in ("src", "data", "srcset") if name in given]
        elif tag == "link":
            self.urls.append(given.get("href", ""))


def _generated(page: str) -> str:
    return api_reference.render(api_reference.document()) if page == "api.md" else _settings()


def _settings() -> str:
    """The table of settings with a heading for each table of the file."""
    head, _, rows = settings_table.render().partition("|---|---|---|---|\n")
    parts = [SETTINGS_HEAD]
    for table, members in groupby(rows.splitlines(), lambda row: row.removeprefix("| `").partition(".")[0]):
        parts.append(f"## `[{table}]`\n\n{head}|---|---|---|---|\n" + "\n".join(members) + "\n\n")
    return "".join(parts)


def _linked(text: str, origin: str, pages: dict[str, str], mistakes: list[str]) -> str:
    """The text with each link to a file replaced by one that works on the site."""
    here = Path(pages[origin]).parent

    def replaced(match: re.Match[str]) -> str:
        link = match[1]
        path, mark, anchor = link.partition("#")
        if not path or re.match(r"[a-z]+:", link):
            return link
        named = os.path.normpath(Path(origin).parent / path)
        if named in pages:
            return f"{os.path.relpath(pages[named], here)}{mark}{anchor}"
        if not (ROOT / named).exists():
            mistakes.append(f"{origin}: {link} does not exist")
        elif not named.startswith("docs/") or (ROOT / named).is_dir():
            if named == "docs/decisions":
                return os.path.relpath("decisions/README.md", here)
            kind = "tree" if (ROOT / named).is_dir() else "blob"
            return f"{_repository()}/{kind}/main/{named}{mark}{anchor}"
        return link

    parts = FENCE.split(text)
    return "".join(part if index % 2 else LINK.sub(replaced, part) for index, part in enumerate(parts))


def _repository() -> str:
    return str(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["repo_url"])


def _with_decisions(nav: list[Any], pages: dict[str, str]) -> list[Any]:
    """The navigation with the decisions in the place of their folder."""
    decisions = [page for page in pages.values() if page.startswith("decisions/")]
    listed = ["decisions/README.md", *sorted(set(decisions) - {"decisions/README.md"})]

    def filled(entry: Any) -> Any:
        match entry:
            case dict():
                return {title: filled(inner) for title, inner in entry.items()}
            case list():
                return [filled(inner) for inner in entry]
            case "decisions/":
                return listed
        return entry

    return [filled(entry) for entry in nav]


def _navigation_mistakes(nav: list[Any], pages: dict[str, str]) -> list[str]:
    listed = list(_leaves(nav))
    mistakes = [f"{page} is not in the navigation of mkdocs.yml" for page in pages.values() if page not in listed]
    mistakes += [f"mkdocs.yml lists {page}, which does not exist" for page in listed if page not in pages.values()]
    return mistakes + [f"mkdocs.yml lists {page} twice" for page in sorted(set(listed)) if listed.count(page) > 1]


def _leaves(entry: Any) -> Iterator[str]:
    match entry:
        case dict():
            for inner in entry.values():
                yield from _leaves(inner)
        case list():
            for inner in entry:
                yield from _leaves(inner)
        case str():
            yield entry


def _refuse(mistakes: list[str]) -> None:
    if mistakes:
        raise SiteBroken("\n".join(mistakes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, default=BUILD, help="folder to build in")
    try:
        print(f"the site: {build(parser.parse_args().target) / 'index.html'}")
    except (SiteBroken, DocsToolsMissing) as exc:
        sys.exit(str(exc))
