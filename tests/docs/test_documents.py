"""What the documents say is what the program does: settings, commands, measurements, and what the demo prints."""

import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bullpen.cli.overview import COMMANDS
from bullpen.model import instance
from docs.followed_pages import PAGES as FOLLOWED
from measured_table import BENCHMARKS, tables, with_target
from measured_table import published as measurements
from overview_picture import files as overview_pictures
from settings_table import published, render
from walkthroughs import ROOT, blanked, every_command, run

NAMES = [name for commands in COMMANDS.values() for name in commands]
MAKE_TARGETS = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
SHOWN = [*FOLLOWED, "docs/aws.md", "docs/github.md"]
DECISIONS = sorted((ROOT / "docs/decisions").glob("0*.md"))
SETTING = r"((?:engines|timings|pickup|limits|trust|agent|liveness|local|aws|github|classes)\.(?:NAME\.)?[a-z-]+[a-z])"
WORDS = ["docs/glossary.md", "docs/names.md"]
PAGES = [
    *SHOWN,
    "docs/benchmarks.md",
    "docs/concepts.md",
    "docs/glossary.md",
    "docs/migration.md",
    "docs/names.md",
    "docs/security.md",
    "docs/state-machines.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/decisions/README.md",
    *(str(page.relative_to(ROOT)) for page in DECISIONS),
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    run("bullpen down", tmp_path)


def test_the_published_table_of_settings_matches_the_code() -> None:
    assert published() == render(), "stale: run `python tools/settings_table.py`"


def test_every_setting_has_a_reason() -> None:
    assert [row for row in render().splitlines() if row.endswith("|  |")] == []


def test_the_glossary_explains_every_action_that_refresh_and_serve_report() -> None:
    package = ROOT / "src/bullpen"
    sources = [*package.glob("refresh/*.py"), *package.glob("scale_sets/*.py"), package / "controllers.py"]
    reported = re.compile(r"(?:\bAction|SetAction|_step|_actions)\(\s*\"([a-z ]+)\"")
    named = {name for source in sources for name in reported.findall(source.read_text())}
    assert {"await and offer", "leave set", "engage", "lose worker"} < named
    page = (ROOT / "docs/glossary.md").read_text()
    rows = {word.strip() for row in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) for word in row.split(",")}
    assert {name for name in named if name not in rows and f"`{name}`" not in page} == set()


@pytest.mark.parametrize("document", SHOWN)
def test_every_command_in_a_console_block_exists(document: str) -> None:
    shown = [shlex.split(command, comments=True) for command in every_command(document)]
    assert shown
    assert {words[1] for words in shown if words[0] == "bullpen"} <= {
        *NAMES,
        "--config",
        "--home",
        "--help",
        "--version",
    }
    assert {words[1] for words in shown if words[0] == "make"} <= set(MAKE_TARGETS)


def test_ci_runs_the_test_command_that_the_readme_names() -> None:
    *_, last = (ROOT / ".ci/run").read_text().splitlines()
    assert last == "exec make test"
    assert "make test" in [command.split("  ")[0] for command in every_command("README.md")]


@pytest.mark.parametrize("page", WORDS)
def test_every_setting_that_explains_a_word_exists(page: str) -> None:
    named = re.findall(rf"`{SETTING}`", (ROOT / page).read_text())
    assert named
    assert [name for name in named if f"| `{name}` |" not in render()] == []


def test_every_default_on_the_page_of_names_is_that_of_the_code() -> None:
    defaults = dict(re.findall(rf"^\| `{SETTING}` \| `\w+` \| `([\d.]+)` \|", render(), re.MULTILINE))
    said = re.findall(rf"`{SETTING}`,? \(?([\d.]*\d)", (ROOT / "docs/names.md").read_text())
    assert len(said) > 20
    assert [(name, value) for name, value in said if defaults.get(name) != value] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_has_a_target(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_every_decision_is_listed_by_its_title() -> None:
    titles = {page.name: page.read_text().partition("\n")[0].removeprefix("# ") for page in DECISIONS}
    listed = {f"| [{title[:4]}]({name}) | {title[6:]} |" for name, title in titles.items()}
    assert listed <= set((ROOT / "docs/decisions/README.md").read_text().splitlines())


def test_the_states_in_concepts_are_drawn_as_in_the_model() -> None:
    (drawing,) = re.findall(r"^```\n([^`]*? idle [^`]*?)^```$", (ROOT / "docs/concepts.md").read_text(), re.MULTILINE)
    assert drawing in textwrap.dedent("\n".join((instance.__doc__ or "").split("\n")[1:]).split("\nEvery change")[0])


@pytest.mark.parametrize(("page", "table"), tables(), ids=lambda it: getattr(it, "name", it))
def test_every_published_measurement_matches_the_results(page: Path, table: str) -> None:
    assert measurements(page, table) == tables()[page, table], "stale: run `python tools/measured_table.py`"


def test_no_measurement_with_a_target_is_left_out_of_the_benchmarks() -> None:
    shown = BENCHMARKS.read_text()
    # The section about scale sets names its subject in its heading.
    names = [row["name"].removeprefix("scale set: ") for row in with_target()]
    assert [name for name in names if shown.count(f"| {name} |") != 1] == []


@pytest.mark.slow
def test_the_acts_that_the_documents_show_are_what_the_demo_prints(folder: Path) -> None:
    texts = [(ROOT / document).read_text() for document in ("README.md", "docs/quickstart.md")]
    blocks = [re.findall(r"^\$ make demo\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) for text in texts]
    assert [len(found) for found in blocks] == [1, 1]
    ran = run("bullpen demo", folder)
    assert ran.returncode == 0, ran.stderr
    printed = [_promised(act) for act in ran.stdout.split("\n\n")]
    shown = [act for (block,) in blocks for act in block.strip().split("\n\n") if act != "[…]"]
    assert [act for act in shown if _promised(act) not in printed] == []


def _promised(act: str) -> str:
    """Without what depends on the moment of a kill: how many actions refresh takes, and which is the first."""
    return re.sub(r"took .*? actions?, first: .*", "took actions", blanked(act))


@pytest.mark.parametrize("path", overview_pictures(), ids=lambda path: path.name)
def test_the_drawing_of_the_whole_is_what_its_script_draws(path: Path) -> None:
    assert path.read_text() == overview_pictures()[path], "stale: run `python tools/overview_picture.py`"


def test_the_changelog_says_nothing_twice() -> None:
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if len(line) > 30]
    assert [line for line, times in Counter(lines).items() if times > 1] == []


def test_the_glossary_has_one_meaning_for_each_word() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")]
    words = [word.strip() for row in rows if not row.startswith("| word |") for word in row.split("|")[1].split(",")]
    assert len(words) > 100
    assert [word for word, times in Counter(words).items() if times > 1] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150
