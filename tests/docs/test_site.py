"""The docs as a site: it builds without a warning, asks no other host for anything, and reads as the files do."""

import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import api_reference
import docs_site
from docs_site import ROOT, SiteBroken, asked_elsewhere, build, sources, stage

pytestmark = pytest.mark.slow
WRITTEN = [origin for origin in sources() if origin not in docs_site.GENERATED]
API = {
    "info": {"version": "1"},
    "paths": {
        "/v1/things/{id}": {
            "get": {
                "tags": ["things"],
                "summary": "Show a thing",
                "operationId": "showThing",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/x/Thing"}}}},
                    "404": {"$ref": "#/components/responses/Missing"},
                },
            }
        },
        "/v1/agents/{id}/beat": {"post": {"summary": "Beat", "responses": {}}},
    },
    "components": {
        "responses": {"Missing": {"description": "No such thing."}},
        "schemas": {"Thing": {"required": ["state"], "properties": {"state": {"enum": ["on", "off"]}}}},
    },
}


@pytest.fixture(scope="module")
def site(docs_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources of the site, to break one of them."""
    root = tmp_path / "root"
    shutil.copytree(ROOT / "docs", root / "docs")
    for name in ("mkdocs.yml", *docs_site.ELSEWHERE):
        shutil.copy(ROOT / name, root)
    for name in ("deploy", "tests", "bench", "README.md", "LICENSE", "action.yml"):  # what pages link to
        (root / name).symlink_to(ROOT / name)
    monkeypatch.setattr(docs_site, "ROOT", root)
    monkeypatch.setattr(api_reference, "document", lambda: API)
    return root


def test_the_site_builds_without_a_warning_and_has_every_page(site: Path) -> None:
    expected = {re.sub(r"README\.md$|\.md$", lambda end: "index.html" if "R" in end[0] else ".html", page)
                for page in sources().values()}  # fmt: skip
    assert {str(page.relative_to(site)) for page in site.rglob("*.html")} == {*expected, "404.html"}


def test_the_page_of_the_api_has_every_endpoint_that_serve_describes(site: Path) -> None:
    shown = (site / "api.html").read_text()
    described = api_reference.document()
    assert len(described["paths"]) > 20
    assert [path for path in described["paths"] if f"<code>{path}</code>" not in shown] == []


def _break_link(root: Path) -> None:
    _append(root / "docs/names.md", "[gone](no-such-page.md)")


def _break_file(root: Path) -> None:
    _append(root / "docs/names.md", "[gone](../tests/no_such_test.py)")


def _add_page(root: Path) -> None:
    (root / "docs/forgotten.md").write_text("# Forgotten\n")


def _list_missing_page(root: Path) -> None:
    (root / "docs/names.md").unlink()


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (_break_link, "docs/names.md: no-such-page.md does not exist"),
        (_break_file, "docs/names.md: ../tests/no_such_test.py does not exist"),
        (_add_page, "forgotten.md is not in the navigation of mkdocs.yml"),
        (_list_missing_page, "mkdocs.yml lists names.md, which does not exist"),
    ],
)
def test_a_wrong_link_or_navigation_fails_the_build(
    mistake: Callable[[Path], None], said: str, copy: Path, tmp_path: Path
) -> None:
    stage(tmp_path / "before")
    mistake(copy)
    with pytest.raises(SiteBroken, match=re.escape(said)):
        stage(tmp_path / "after")


def test_a_missing_anchor_fails_the_build(docs_tools: Path, copy: Path, tmp_path: Path) -> None:
    _append(copy / "docs/names.md", "[gone](serve.md#no-such-heading)")
    with pytest.raises(SiteBroken, match="anchor does not exist"):
        build(tmp_path / "site")


def test_a_request_to_another_host_fails_the_build(docs_tools: Path, copy: Path, tmp_path: Path) -> None:
    _append(copy / "docs/names.md", "![picture](https://example.com/picture.svg)")
    with pytest.raises(SiteBroken, match=r"names\.html loads https://example\.com/picture\.svg"):
        build(tmp_path / "site")


def test_styles_of_another_host_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<link rel="stylesheet" href="//fonts.example.com/css"><a href="https://x">')
    (tmp_path / "page.css").write_text("@font-face { src: url(https://example.com/font.woff2) }")
    assert asked_elsewhere(tmp_path) == [
        "page.html loads //fonts.example.com/css",
        "page.css loads https://example.com/font.woff2",
    ]


@pytest.mark.parametrize("origin", WRITTEN)
def test_a_page_has_the_same_lists_tables_and_blocks_on_the_site_as_on_github(origin: str, site: Path) -> None:
    """Two dialects of Markdown: a list without an empty line before it is a list on GitHub only."""
    page = re.sub(r"README\.md$", "index.md", sources()[origin]).removesuffix("md") + "html"
    article = re.search(r"<article.*?</article>", (site / page).read_text(), re.DOTALL)
    assert article is not None
    on_github = MarkdownIt("commonmark", {"html": True}).enable("table").render((ROOT / origin).read_text())
    assert _Counted.of(article[0]) == _Counted.of(on_github)


def test_the_page_of_the_api_is_made_of_what_the_document_says() -> None:
    page = api_reference.render(API)
    assert "### GET `/v1/things/{id}`" in page
    assert "Operation id: `showThing`" in page
    assert "| `id` | path | string | yes |" in page
    assert "| 200 | [Thing](#schema-thing) |" in page
    assert "| 404 | – | No such thing. |" in page
    assert "| `state` | `on` · `off` | yes |" in page
    assert page.index("own agents") < page.index("/v1/agents/{id}/beat")


class _Counted(HTMLParser):
    """How many of each element that a dialect of Markdown may understand differently."""

    KINDS = ("li", "ol", "ul", "table", "tr", "pre", "h1", "h2", "h3", "h4", "blockquote")

    @classmethod
    def of(cls, html: str) -> dict[str, int]:
        counted = cls()
        counted.feed(html)
        return counted.found

    def __init__(self) -> None:
        super().__init__()
        self.found = dict.fromkeys(self.KINDS, 0)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.found:
            self.found[tag] += 1


def _append(page: Path, line: str) -> None:
    page.write_text(f"{page.read_text()}\n{line}\n")
