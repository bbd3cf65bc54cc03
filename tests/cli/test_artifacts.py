"""Where artifacts of jobs go: a directory for each job below the one that was asked for, whatever a job is called."""

from pathlib import Path
from typing import cast

import pytest

from bullpen.cli.artifacts import Collected, checked_out, collect, directories, directory_name
from bullpen.cli.backend import Backend
from bullpen.errors import ConfigError
from bullpen.host.packs import bundle_head
from bullpen.model.job import FINISHED, Job
from bullpen.model.manifest import FileEntry, Manifest, encode
from bullpen.sources.work_tree import WorkTree, list_files
from sources.trees import git, write


def a_job(id: str, name: str) -> Job:
    return Job(id, FINISHED, 1, "run-1", ("true",), name=name)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("unit", "unit"),
        ("..", "_.."),
        (".", "_."),
        ("a/b", "a_b"),
        ("../../etc", ".._.._etc"),
        ("a b", "a_b"),
        ("", "_"),
    ],
)
def test_a_name_is_one_part_of_a_path(name: str, safe: str) -> None:
    assert directory_name(name) == safe


def test_no_two_jobs_share_a_directory() -> None:
    jobs = [a_job("j-1", "unit"), a_job("j-2", "Unit"), a_job("j-3", "lint"), a_job("j-4", "")]
    assert directories(jobs) == ["unit-j-1", "Unit-j-2", "lint", "j-4"]


def test_a_link_of_the_project_is_no_place_for_artifacts_unless_the_user_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "artifacts").symlink_to(".git")
    with pytest.raises(ConfigError, match="artifacts is a symlink"):
        checked_out(None, ["report"], "run-1")
    assert checked_out("artifacts", ["report"], "run-1") == Path("artifacts")


class OneFile:
    """A pool whose jobs left one empty file each."""

    async def artifacts(self, job_id: str, fence: int, offset: int) -> bytes:
        return bundle_head(encode(Manifest((FileEntry("report", False, ()),))))[offset:]


@pytest.mark.real_loop
@pytest.mark.parametrize("own", ["", "artifacts/of-the-project"])
async def test_the_next_run_does_not_send_what_the_last_one_brought_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """Unless the project had such a directory before."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    if own:
        write(tmp_path, {own: "1"})
    job = Job("j-1", FINISHED, 1, "run-1", ("true",), name="unit", fence=1)
    out = checked_out(None, ["report"], "run-1")
    collected = await collect(cast(Backend, OneFile()), [job], out)
    assert collected.files == {"j-1": ("unit/report",)}
    assert (tmp_path / "artifacts/run-1/unit/report").exists()
    sent = {own, "artifacts/run-1/unit/report"} if own else set()
    assert set(list_files(WorkTree(tmp_path, is_git=True)).files) == sent


def test_without_a_file_the_summary_names_the_patterns_as_values(tmp_path: Path) -> None:
    patterns = ("big*", "a b")
    assert Collected(tmp_path).summary(patterns) == "no artifacts: no file that matches 'big*' or 'a b' came back"


@pytest.mark.real_loop
@pytest.mark.parametrize(
    ("in_the_way", "named"), [("out", "out/unit"), ("out/unit", "out/unit"), ("out/unit/report/x", "out/unit/report")]
)
async def test_a_file_that_cannot_be_written_is_named_once_and_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {in_the_way: "1"})
    job = Job("j-1", FINISHED, 1, "run-1", ("true",), name="unit", fence=1)
    collected = await collect(cast(Backend, OneFile()), [job], Path("out"))
    (problem,) = collected.problems
    assert problem.startswith(f"unit: {named}: artifacts cannot be written there (")
    assert collected.summary(["report"]) == ""
