"""An instance's own copy of GitHub's runner."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.github.fixtures import AS_JOBS, PAIR, USER, a_ground, a_runner
from bullpen.agent.account import account_of
from bullpen.agent.cleaning.slices import CannotSettle, Turn
from bullpen.agent.github.fetch import fetch
from bullpen.agent.github.install import install

ACCOUNT = account_of(USER) if USER else None


@pytest.fixture
def ground() -> Iterator[Path]:
    with a_ground() as ground:
        yield ground


def finished(work: Generator[Turn, None, Any]) -> Any:
    try:
        while True:
            next(work)
    except StopIteration as end:
        return end.value


def names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_a_copy_has_all_that_the_original_has(ground: Path) -> None:
    source = a_runner(ground)
    (source / "externals").mkdir()
    (source / "externals" / "node").symlink_to("../bin/version")
    finished(install(source, ground / "copy", ACCOUNT))
    assert names(ground / "copy") == names(source)
    assert os.readlink(ground / "copy" / "externals" / "node") == "../bin/version"


def test_what_another_registration_left_is_not_copied(ground: Path) -> None:
    source = a_runner(ground)
    left = (".runner", ".credentials", ".credentials_rsaparams", ".env", ".path", "_diag/log", "_work/file")
    for name in (*left, "run-helper.sh"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).touch()
    finished(install(source, ground / "copy", ACCOUNT))
    assert not any(name.startswith((".", "_")) for name in names(ground / "copy"))
    assert "run-helper.sh.template" in names(ground / "copy")


@pytest.mark.skipif(ACCOUNT is None, reason="jobs run as we do here")
def test_only_what_the_jobs_user_can_read_is_linked(ground: Path) -> None:
    source = a_runner(ground)
    (source / "bin" / "version").chmod(0o600)
    linked = finished(install(source, ground / "copy", ACCOUNT))
    assert {str(path) for path in linked} == names(source) - {"bin/version"}
    for path in linked:
        assert (source / path).samefile(ground / "copy" / path)
    assert (ground / "copy" / "bin" / "version").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(ACCOUNT is None, reason="jobs run as we do here")
@pytest.mark.parametrize("opened", [".", "bin", "bin/version", "..", "../way"])
@pytest.mark.parametrize("by", ["owner", "mode"])
def test_a_runner_that_the_jobs_user_can_change_is_refused(ground: Path, opened: str, by: str) -> None:
    source = a_runner(ground)
    (ground / "way").mkdir()
    (ground / "way" / "runner").symlink_to(source)
    if by == "owner":
        os.chown(source / opened, account_of(USER).user, -1)
    else:
        (source / opened).chmod(0o777)
    with pytest.raises(CannotSettle, match=f"user {USER}, as whom jobs run, can change "):
        finished(install(ground / "way" / "runner", ground / "copy", ACCOUNT))


def test_a_runner_that_has_updated_itself_leads_nowhere_but_into_its_copy(ground: Path) -> None:
    source = a_runner(ground)
    (source / "bin").rename(source / "bin.2.336.0")
    (source / "bin").symlink_to(source / "bin.2.336.0")
    finished(install(source, ground / "copy", ACCOUNT))
    assert os.readlink(ground / "copy" / "bin") == "bin.2.336.0"


def test_a_link_that_leads_out_of_the_runner_is_refused_by_its_name(ground: Path) -> None:
    source = a_runner(ground)
    (source / "externals").symlink_to("/usr/share")
    with pytest.raises(CannotSettle, match=f"{source}/externals points outside {source}, to /usr/share"):
        finished(install(source, ground / "copy", ACCOUNT))


def test_a_large_file_is_copied_in_slices(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bullpen.agent.github.install.SLICE", 100)
    source = a_runner(ground)
    (source / "bin" / "large").write_bytes(bytes(range(256)) * 4)
    turns = list(install(source, ground / "copy", None))
    assert len(turns) > 10
    assert (ground / "copy" / "bin" / "large").read_bytes() == (source / "bin" / "large").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(ACCOUNT is None, reason="jobs run as we do here")
def test_the_jobs_user_may_add_files_and_replace_none(ground: Path) -> None:
    finished(install(a_runner(ground), ground / "copy", ACCOUNT))

    def does(command: str) -> bool:
        return (
            subprocess.run(["bash", "-c", command], cwd=ground / "copy", **AS_JOBS, capture_output=True).returncode == 0
        )

    assert does("touch .runner && mkdir _diag && ./config.sh --version")
    for command in ("echo >>run.sh", "rm -f run.sh", "mv bin gone", "touch bin/new", "rm -f bin/version"):
        assert not does(command), command


def test_a_directory_without_a_runner_is_refused_by_its_setting(ground: Path) -> None:
    with pytest.raises(CannotSettle, match=r"has no config\.sh: .*github\.runner-directory"):
        finished(install(ground, ground / "copy", ACCOUNT))


# ------------------------------------------------------------------------------------------------------------- fetched


def archive(fill: Callable[[tarfile.TarFile], None]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        fill(tar)
    return content.getvalue()


def fetched(ground: Path, content: bytes, sha256: str = "") -> Path:
    path, target = ground / "runner.tgz", ground / "fetched"
    path.write_bytes(content)
    finished(fetch(path.as_uri(), sha256 or hashlib.sha256(content).hexdigest(), target, ACCOUNT))
    return target


def test_an_archive_is_unpacked_for_everybody_to_execute(ground: Path) -> None:
    before = os.umask(0o077)  # as the agent has it
    try:
        target = fetched(ground, archive(lambda tar: tar.add(PAIR, ".")))
    finally:
        os.umask(before)
    ran = subprocess.run([target / "config.sh", "--version"], **AS_JOBS, capture_output=True, text=True)
    assert ran.stdout == "2.336.0\n"
    assert not (ground / "fetched.tar.gz").exists()


def test_an_archive_with_another_checksum_is_not_unpacked(ground: Path) -> None:
    with pytest.raises(CannotSettle, match="nothing was unpacked"):
        fetched(ground, archive(lambda tar: tar.add(PAIR, ".")), "0" * 64)
    assert not (ground / "fetched").exists()


def test_an_archive_that_reaches_out_of_its_directory_is_refused(ground: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        tar.addfile(tarfile.TarInfo("../escaped"), io.BytesIO())

    with pytest.raises(CannotSettle, match="cannot be downloaded from"):
        fetched(ground, archive(fill))
    assert not (ground / "escaped").exists()


def test_an_archive_that_is_not_there_is_named(ground: Path) -> None:
    with pytest.raises(CannotSettle, match=r"file:///no/such\.tgz"):
        finished(fetch("file:///no/such.tgz", "0" * 64, ground / "fetched", None))
