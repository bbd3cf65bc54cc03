"""Removes what crashed clients left, manifests that are old or too many, and packs that no manifest needs."""

import json
from contextlib import suppress
from pathlib import Path

from bullpen.engines.sqlite.sources.folder import SourceFolder
from bullpen.host.sweep import remove_tree
from bullpen.ports import KEPT_AT_LEAST

UNUSED_FOR = 7 * 24 * 3600.0  # seconds after which a manifest goes
CLIENT_UNUSED_FOR = 30 * 24 * 3600.0  # seconds after which a client's memory of a work tree goes


def tidy(folder: SourceFolder, now: float, needed: frozenset[str], room: int) -> int:
    """Returns how many bytes were freed, see `ports.Sources`."""
    if not folder.top.is_dir():
        return 0
    freed = 0
    for directory, longest in ((folder.incoming, KEPT_AT_LEAST), (folder.clients, CLIENT_UNUSED_FOR)):
        for path in entries(directory):
            limit = KEPT_AT_LEAST if path.name.startswith("packing-") else longest
            freed += _remove_older(path, now - limit)
    with folder.locked():
        kept = _tidy_manifests(folder, now, needed, room)
        for path in entries(folder.packs):
            if path.name not in kept:
                freed += _remove_older(path, now - KEPT_AT_LEAST)
    return freed


def _tidy_manifests(folder: SourceFolder, now: float, needed: frozenset[str], room: int) -> set[str]:
    """Remove manifests that are old or too many. Returns the packs that the others need."""
    found: list[tuple[float, str, frozenset[str]]] = []
    for path in entries(folder.manifests):
        if path.suffix == ".json":
            with suppress(OSError, ValueError, KeyError):
                packs = json.loads(path.with_suffix(".where").read_bytes())["packs"]
                found.append((path.stat().st_mtime, path.stem, frozenset(packs)))
        elif not path.with_suffix(".json").exists():
            _remove_older(path, now - KEPT_AT_LEAST)
    found.sort()
    sizes = {path.name: path.stat().st_size for path in entries(folder.packs)}
    kept = dict(enumerate(found))
    for number, (used, source, _) in enumerate(found):
        total = sum(sizes.get(pack, 0) for pack in {pack for _, _, packs in kept.values() for pack in packs})
        if source in needed or used > now - KEPT_AT_LEAST:
            continue
        if used < now - UNUSED_FOR or total > room:
            (folder.manifests / f"{source}.json").unlink(missing_ok=True)
            (folder.manifests / f"{source}.where").unlink(missing_ok=True)
            del kept[number]
    return {pack for _, _, packs in kept.values() for pack in packs}


def entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []


def _remove_older(path: Path, than: float) -> int:
    """Remove it if it was not used since; returns its size if it was a file."""
    with suppress(FileNotFoundError):
        status = path.lstat()
        if status.st_mtime < than:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
                return status.st_size
    return 0
