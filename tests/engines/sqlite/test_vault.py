"""What FileVault promises beyond every Vault: for its owner only, never half written, and mended by the next write."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bullpen.engines.sqlite.vault import FileVault
from bullpen.engines.system import SystemClock
from bullpen.errors import Unavailable
from bullpen.ports import Secret

pytestmark = pytest.mark.real_loop

SECRET = Secret("hidden", datetime(2100, 1, 1, tzinfo=UTC))


async def test_only_its_owner_can_read_a_secret(tmp_path: Path) -> None:
    await FileVault(tmp_path, SystemClock()).write("github", SECRET)
    folder = tmp_path / "vault"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {"github.json": 0o600}


@pytest.mark.parametrize("spoilt", ["", "{", "[]", '{"content": "x"}', '{"content": "x", "expires": "soon"}'])
async def test_a_file_that_holds_no_secret_counts_as_none_and_is_replaced(tmp_path: Path, spoilt: str) -> None:
    vault = FileVault(tmp_path, SystemClock())
    await vault.write("github", SECRET)
    (tmp_path / "vault/github.json").write_text(spoilt)
    assert await vault.read("github") is None
    await vault.write("github", SECRET)
    assert await vault.read("github") == SECRET


async def test_a_vault_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "vault/github.json").mkdir(parents=True)
    with pytest.raises(Unavailable, match=r"github\.json: cannot be written") as caught:
        await FileVault(tmp_path, SystemClock()).write("github", SECRET)
    assert "hidden" not in str(caught.value)
    assert [file.name for file in (tmp_path / "vault").iterdir()] == ["github.json"]
