"""What the agent takes of the files that a job leaves."""

import os
import tempfile
from pathlib import Path

import pytest

from bullpen.agent import collect_artifacts
from bullpen.agent.config import Config
from bullpen.agent.forked import CannotDo
from bullpen.agent.progress import HeldJob
from bullpen.agent.store.base import Order
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


def test_an_agent_beside_a_store_that_is_full_keeps_no_artifacts_and_says_why(tmp_path: Path) -> None:
    for name in ("jobs", "work", "sources/packs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sources/packs/a").write_bytes(b"x" * 400)
    (tmp_path / "jobs/j-0.1.artifacts").write_bytes(b"x" * 500)
    (tmp_path / "jobs/j-0.1.log").write_bytes(b"x" * 5000)  # no part of it
    (tmp_path / "work/left").write_bytes(b"x" * 200)
    order = Order(HeldJob("j-1", 1, "r1", 0.0), ("true",), artifacts=("*",))

    def collect(room: int) -> str:
        config = Config("i-1", tmp_path, tmp_path, 5.0, 60.0, 60.0, "", 30.0, (), room=room)
        return collect_artifacts.collect(config, order, None, tmp_path / "work")

    full = r"no room for 200 B more: 100 B of 1000 B \(sync.store-size\) are free. Raise sync.store-size"
    with pytest.raises(CannotDo, match=full):
        collect(1000)
    assert collect(1100) == "1"
