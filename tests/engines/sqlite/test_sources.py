"""The files of projects in a home, while several processes use it."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bullpen.engines.sqlite.sources import FileSources, upkeep
from bullpen.errors import NotFound
from bullpen.model.manifest import Manifest, encode


def test_a_manifest_that_was_kept_is_not_removed_by_an_upkeep_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job is about to be stored that needs it: the upkeep does not know that job yet."""
    store = FileSources(tmp_path)
    source = asyncio.run(store.add_manifest(encode(Manifest())))
    outcome: list[str] = []

    def keep() -> None:
        try:
            asyncio.run(FileSources(tmp_path).keep(source))
            outcome.append("kept")
        except NotFound:
            outcome.append("not found")

    keeping = threading.Thread(target=keep)
    entries = upkeep.entries

    def slowly(directory: Path) -> list[Path]:
        if directory.name == "packs" and keeping.ident is None:  # the ages of all manifests have been read
            keeping.start()
            keeping.join(0.3)
        return entries(directory)

    monkeypatch.setattr(upkeep, "entries", slowly)
    asyncio.run(store.tidy(datetime.now(UTC) + timedelta(weeks=2), [], 0))
    keeping.join()
    assert outcome == ["not found"]
    assert not (tmp_path / "sources/manifests" / f"{source}.json").exists()
