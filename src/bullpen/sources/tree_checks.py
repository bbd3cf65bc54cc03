"""What a tree must be like to be sent: not too large, not too many files, and no link that leads out of it."""

import os
from collections.abc import Iterable

from bullpen.errors import ConfigError
from bullpen.host.stored_files import shown_size, told_apart
from bullpen.model.manifest import FILES
from bullpen.sources.work_tree import NO_SYNC, Listing, WorkTree, shown_path, way_to_leave_out

SHOWN = 5  # of the largest directories
LONGEST_CHAIN = 40  # links that lead to links, as Linux follows them


def check(tree: WorkTree, listing: Listing, largest: int) -> None:
    """Raise ConfigError, naming what is wrong and what to do about it."""
    if len(listing.files) + len(listing.links) + len(listing.directories) > FILES:
        text = f"{tree.root}: it has more than {FILES:,} files and directories"
        raise ConfigError(text, remedy=f"{_with_less(tree)}, or {NO_SYNC}.")
    _check_size(tree, listing, largest)
    _check_links(tree, listing)


def _check_links(tree: WorkTree, listing: Listing) -> None:
    """No link leads out of the tree, also not by way of other links."""
    for path, target in listing.links.items():
        if _leads_out(path, target, listing.links):
            raise ConfigError(
                f"{shown_path(tree.root, path)}: it is a symlink to {target!r}, which is outside of {tree.root}",
                remedy="Make it a copy of what it leads to, or a symlink inside the tree; or leave it out: "
                f"{way_to_leave_out(tree, path)}.",
            )


def _leads_out(path: str, target: str, links: dict[str, str]) -> bool:
    """Walk from name to name as the kernel does, but only by what is in the listing."""
    at = path.split("/")[:-1]
    waiting = target.split("/")[::-1]
    if target.startswith("/"):
        return True
    followed = 0
    while waiting:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if not at:
                return True
            at.pop()
            continue
        at.append(name)
        further = links.get("/".join(at))
        if further is not None:
            followed += 1
            if followed > LONGEST_CHAIN:
                return False  # a circle: it leads nowhere, as it does here
            if further.startswith("/"):
                return True
            at.pop()
            waiting += further.split("/")[::-1]
    return False


def _with_less(tree: WorkTree) -> str:
    return (
        "Add what jobs do not need to .gitignore, and let git not track it"
        if tree.is_git
        else f"Move what jobs do not need out of {shown_path(tree.root)}"
    )


def _check_size(tree: WorkTree, listing: Listing, largest: int) -> None:
    """Raise ConfigError, naming what is largest, if the files have more than `largest` bytes."""
    size = listing.size
    if size <= largest:
        return
    found, limit = told_apart(size, largest)
    shown = ", ".join(f"{name} ({shown_size(bytes_)})" for name, bytes_ in _largest(listing.files.items()))
    raise ConfigError(
        f"{tree.root}: its files have {found}, and sync.max-size is {limit}; largest: {shown}",
        remedy=f"{_with_less(tree)}, raise sync.max-size, or {NO_SYNC}.",
        field="sync.max-size",
    )


def _largest(files: Iterable[tuple[str, os.stat_result]]) -> list[tuple[str, int]]:
    """The largest files and directories: a directory by its top two names, because that is what one can ignore."""
    sizes: dict[str, int] = {}
    for path, status in files:
        parts = path.split("/")
        name = path if len(parts) <= 2 else "/".join(parts[:2]) + "/"
        sizes[name] = sizes.get(name, 0) + status.st_size
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
