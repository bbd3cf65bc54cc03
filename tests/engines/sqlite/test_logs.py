"""Logs as files of the home."""

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from bullpen.engines.sqlite.logs import FileLogs
from bullpen.errors import Refused, Unavailable

pytestmark = pytest.mark.real_loop


async def test_a_log_is_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    await FileLogs(tmp_path).append("j-0123456789abcdef", 3, 0, b"printed")
    file = tmp_path / "jobs" / "j-0123456789abcdef.3.log"
    assert file.read_bytes() == b"printed"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("job_id", ["", ".", "..", "../j-1", "a/b", ".hidden", "j-1\n", "j" * 101, "j-\0"])
async def test_an_id_that_would_lead_elsewhere_is_refused(tmp_path: Path, job_id: str) -> None:
    logs = FileLogs(tmp_path)
    with pytest.raises(Refused):
        await logs.append(job_id, 1, 0, b"x")
    with pytest.raises(Refused):
        await logs.read(job_id, 1, 0, 1)
    assert os.listdir(tmp_path) == []


async def test_two_writers_of_a_log_take_turns(tmp_path: Path) -> None:
    logs = FileLogs(tmp_path)
    await logs.append("j-1", 1, 0, b"")
    with (tmp_path / "jobs" / "j-1.1.log").open("wb", buffering=0) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        mine = asyncio.get_running_loop().create_task(logs.append("j-1", 1, 0, b"ONE more"))
        await asyncio.wait({mine}, timeout=0.05)
        assert not mine.done()
        other.write(b"one")
    assert await mine == 8
    assert await logs.read("j-1", 1, 0, 10) == b"one more"


async def test_a_log_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("in the way")
    with pytest.raises(Unavailable, match="cannot be written"):
        await FileLogs(tmp_path).append("j-1", 1, 0, b"x")
