"""Where artifacts of jobs go: a directory for each job below the one that was asked for, whatever a job is called."""

import pytest

from bullpen.cli.artifacts import directories, directory_name
from bullpen.model.job import FINISHED, Job


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
