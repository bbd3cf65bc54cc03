"""Programs of others: what is said where they cannot be built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import peers


def test_without_git_gitea_is_missing_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(peers.PeerMissing, match=r"no git on the PATH .*install git"):
        peers.gitea()


@pytest.mark.parametrize("build", [peers.gitea, peers.gitea_runner])
def test_without_go_gitea_and_its_runner_are_missing_with_a_remedy(
    build: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing is built yet
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/git" if name == "git" else None)
    monkeypatch.setattr(peers, "GO_UNPACKED", tmp_path / "none")
    with pytest.raises(peers.PeerMissing, match=r"no go on the PATH .*install Go 1\.26\.3"):
        build()
