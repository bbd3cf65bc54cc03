"""The scripts of the dashboard, read and not run: what they must never do, and that they hang together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bullpen.server.dashboard_files import FOLDER
from walkthroughs import ROOT

SCRIPTS = sorted(FOLDER.rglob("*.js"))
PARSES_TEXT = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"
    r"|\beval\(|new Function"
)
MOST_LINES = 250
NAMESPACE = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_script_parses_text_as_a_document_or_as_code(script: Path) -> None:
    assert PARSES_TEXT.findall(script.read_text()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_script_sets_a_style_attribute_which_the_policy_forbids(script: Path) -> None:
    assert re.findall(r"""setAttribute\(\s*["']style["']""", script.read_text()) == []


def test_every_import_is_a_file_and_every_file_is_imported() -> None:
    imported = {FOLDER / "app.js"}
    for script in SCRIPTS:
        for name in re.findall(r"""from "(\.[^"]+)";""", script.read_text()):
            target = (script.parent / name).resolve()
            assert target in SCRIPTS, f"{script.name} imports {name}"
            imported.add(target)
    assert set(SCRIPTS) == imported


def test_every_name_that_is_imported_is_exported() -> None:
    for script in SCRIPTS:
        for names, module in re.findall(r"""import \{([^}]+)\} from "(\.[^"]+)";""", script.read_text()):
            source = (script.parent / module).resolve().read_text()
            for name in (one.split(" as ")[0].strip() for one in names.split(",")):
                found = rf"export (async )?(function\*?|const|let|class) {re.escape(name)}\b"
                assert re.search(found, source), f"{script.name}: {module} exports no {name}"


def test_page_and_docs_say_what_each_loop_does() -> None:
    written = (ROOT / "src/bullpen/controllers.py").read_text().partition("duties: ")[2].partition("on_github =")[0]
    loops = re.findall(r'^ +\("(\w+)", [\d.]+', written, re.M)
    assert {"debts", "settings"} < set(loops)
    described = re.search(r"^const WHAT = \{(.*)\};$", (FOLDER / "pages/control.js").read_text(), re.M)
    assert described
    assert sorted(re.findall(r"(\w+): \"", described[1])) == sorted(loops)
    table = (ROOT / "docs/serve.md").read_text().partition("## Loops\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.M) == loops


def test_no_file_names_another_host() -> None:
    for file in sorted(FOLDER.rglob("*")):
        if file.is_file():
            found = [one for one in re.findall(r"https?://[\w.]+[\w/.]*", file.read_text()) if one != NAMESPACE]
            assert found == [], file.name


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    page = (FOLDER / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=", page) == []


def test_each_file_has_one_subject_and_says_it_first() -> None:
    for script in SCRIPTS:
        text = script.read_text()
        assert text.startswith("// "), script.name
        assert len(text.splitlines()) <= MOST_LINES, script.name


def test_every_glyph_and_icon_that_is_named_is_drawn() -> None:
    drawn = set(re.findall(r'<symbol id="([gi]-[a-z]+)"', (FOLDER / "index.html").read_text()))
    named = set()
    for script in SCRIPTS:
        named |= {f"g-{name}" for name in re.findall(r'\bglyph\("([a-z]+)"', script.read_text())}
        named |= {f"g-{name}" for name in re.findall(r'\bglyph: "([a-z]+)"', script.read_text())}
        named |= {f"i-{name}" for name in re.findall(r'\bicon\("([a-z]+)"', script.read_text())}
    assert named - drawn == set()
