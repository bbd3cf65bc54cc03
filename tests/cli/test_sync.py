"""Which files `bullpen run` sends."""

import subprocess
from pathlib import Path

import pytest

from bullpen.cli.sync import note_unsent, work_tree_of
from bullpen.config import Engines, Settings
from bullpen.errors import ConfigError
from bullpen.sources import work_tree
from command_line import CommandLine
from sources.trees import a_project

HOME = Path(".bullpen")
ON_AWS = Settings(engines=Engines(pool="aws"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(a_project(tmp_path / "project"))
    return tmp_path / "project"


def test_the_work_tree_is_sent_unless_the_user_says_no(project: Path) -> None:
    tree = work_tree_of(Settings(), HOME, None, False)
    assert tree is not None
    assert tree.root == project.resolve()
    assert work_tree_of(Settings(), HOME, None, True) is None


def test_a_directory_to_send_and_none_to_send_are_a_contradiction(project: Path) -> None:
    with pytest.raises(ConfigError, match="--no-sync"):
        work_tree_of(Settings(), HOME, ".", True)


@pytest.mark.parametrize("sync_dir", [None, "."])
def test_a_pool_on_aws_refuses_a_project_by_name(project: Path, sync_dir: str | None) -> None:
    with pytest.raises(ConfigError, match=r'engines\.pool is "aws"') as refused:
        work_tree_of(ON_AWS, HOME, sync_dir, False)
    assert "--no-sync" in refused.value.remedy
    assert work_tree_of(ON_AWS, HOME, None, True) is None


def test_outside_of_a_work_tree_aws_works_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert work_tree_of(ON_AWS, HOME, None, False) is None


def test_outside_of_a_work_tree_a_line_says_that_no_files_are_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bullpen.toml").touch()
    (tmp_path / ".bullpen").mkdir()
    note_unsent(Settings(), tmp_path)
    assert capsys.readouterr().err == ""  # there are none
    (tmp_path / "test_it.py").touch()
    note_unsent(ON_AWS, tmp_path)
    assert capsys.readouterr().err == ""  # --sync would be refused
    note_unsent(Settings(), tmp_path)
    assert capsys.readouterr().err == (
        "bullpen: this directory is not in a git work tree: jobs start in an empty directory;"
        " --sync . sends its files\n"
    )


@pytest.mark.parametrize(
    ("home", "sync_dir", "said"),
    [
        (".", (), "it is a directory of the pool, which"),
        ("..", (), "it is in a directory of the pool (..), which"),
        (".bullpen", ("--sync", ".bullpen"), "it is a directory of the pool, which"),
    ],
)
def test_a_home_that_would_be_sent_is_refused_before_it_is_made(
    project: Path,
    bullpen: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    sync_dir: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(project)
    for name in sync_dir[1:]:
        (project / name).mkdir()
    before = sorted(project.rglob("*")), sorted(project.parent.iterdir())
    ran = bullpen("--home", home, "run", "--count", "1", *sync_dir, "--", "true")
    assert ran.code == 2
    assert said in ran.err
    assert (sorted(project.rglob("*")), sorted(project.parent.iterdir())) == before


@pytest.mark.parametrize(
    ("said", "text", "remedy"),
    [
        (
            "fatal: detected dubious ownership in repository at '/srv/a b'\n"
            "To add an exception for this directory, call:\n\n\tgit config --global --add safe.directory '/srv/a b'\n",
            "git does not read this work tree, because another user owns it",
            "If you trust it, run `git config --global --add safe.directory '/srv/a b'`; or use --no-sync.",
        ),
        ("fatal: one\n\nand another\n", "git cannot read this work tree: fatal: one; and another", "Correct that, or"),
    ],
)
def test_what_git_says_of_a_work_tree_is_one_sentence_with_a_command_to_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: str, text: str, remedy: str
) -> None:
    def git(directory: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(words, 128, b"", said.encode())

    monkeypatch.setattr(work_tree, "_git", git)
    with pytest.raises(ConfigError) as refused:
        work_tree_of(Settings(), HOME, None, False)
    assert str(refused.value).endswith(text)
    assert refused.value.remedy.startswith(remedy)
