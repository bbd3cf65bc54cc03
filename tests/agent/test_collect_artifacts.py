"""What the agent takes of the files that a job leaves."""

import os
import tempfile
from pathlib import Path

import pytest

from bullpen.agent import collect_artifacts
from bullpen.model.manifest import decode, encode


def test_what_a_job_leaves_is_bounded_by_what_it_unpacks_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collect_artifacts, "MOST_BYTES", 1_000_000)
    for name in "abc":
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 400_000)  # sparse: they take no room here
    with tempfile.TemporaryFile() as content:
        found = collect_artifacts._Collector(["*"], content).walk(tmp_path)
    assert [file.path for file in found.files] == ["a", "b"]
    assert "c is left out: all files together have more than" in capfd.readouterr().out


def test_a_file_deeper_than_a_path_can_say_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").touch()
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    with tempfile.TemporaryFile() as content:
        found = collect_artifacts._Collector(["**/*"], content).walk(tmp_path)
    assert decode(encode(found)).files == found.files
    assert [file.path for file in found.files] == ["a"]
    assert "a path longer than" in capfd.readouterr().out
