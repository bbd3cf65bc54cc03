"""The build id of an agent: the same for the same code, however it was installed."""

import bz2
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bullpen
from bullpen import __version__
from bullpen.agent.build import build_id
from bullpen.engines.aws.boot.archive import packed


def test_the_build_is_the_version_and_a_hash_of_the_code() -> None:
    version, _, digits = build_id().partition("+")
    assert version == __version__
    assert len(digits) == 12
    assert build_id() == build_id()


@pytest.mark.slow
def test_an_agent_in_a_zip_application_knows_its_build(tmp_path: Path) -> None:
    """The archive holds what the agent needs and no more: it has a build of its own, the same on every machine."""
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(bz2.decompress(packed("bullpen.agent.__main__")))
    program = f"import sys; sys.path.insert(0, {str(archive)!r}); from bullpen.agent import build as it"
    program += "; print(it.__file__, it.build_id())"
    command = [sys.executable, "-I", "-S", "-c", program]
    said = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert said[0] == said[1]
    assert said[0][0] == str(archive / "bullpen" / "agent" / "build.py")
    assert said[0][1].startswith(f"{__version__}+")


@pytest.mark.slow
@pytest.mark.parametrize(
    "patched", ["agent/cleaning/clean.py", "host/sweep.py", "engines/sqlite/turnstile.py", "model/job.py"]
)
def test_a_patch_of_anything_that_the_agent_runs_changes_the_build(tmp_path: Path, patched: str) -> None:
    shutil.copytree(Path(bullpen.__file__).parent, tmp_path / "bullpen")
    before = _build(tmp_path)
    with open(tmp_path / "bullpen" / patched, "a") as file:
        file.write("# patched\n")
    assert before == build_id() != _build(tmp_path)


def _build(installed: Path) -> str:
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); from bullpen.agent.build import build_id as it"
    command = [sys.executable, "-I", "-S", "-c", f"{program}; print(it())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
