"""Which directory is sent, and which files it has.

A git work tree has what git knows, and what git would add: tracked files, and untracked ones that are not ignored.
Another directory has all its files. The pool's own directories, where its secrets are, are never among them, nor is the
home of another pool.
"""

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass
from bullpen.sources.homes import is_home

NO_SYNC = "use --no-sync"


@dataclass(frozen=True, slots=True)
class WorkTree:
    """`start` is where the command was called, below `root`: jobs begin in the same place."""

    root: Path
    start: str = ""
    is_git: bool = False


@dataclass(slots=True)
class Listing:
    """What a tree contains, by path."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)  # all of them

    @property
    def size(self) -> int:
        return sum(one.st_size for one in self.files.values())


def find_work_tree(cwd: Path, asked: str | None = None) -> WorkTree | None:
    """The directory that `--sync` names, or the git work tree around `cwd`; None if there is neither.

    Raise ConfigError for a directory that does not exist, or where git does not answer.
    """
    if asked is not None:
        root = Path(cwd, asked)
        if not asked or not root.is_dir():
            text = f"--sync {asked!r}: must be a directory"
            raise ConfigError(text, remedy=f"Name the directory of your project, or {NO_SYNC}.", field="--sync")
        root = root.resolve()
        return WorkTree(root, is_git=_top_of(root) is not None and not _is_ignored(root))
    top = _top_of(cwd)
    if top is None:
        return None
    here = cwd.resolve()  # elsewhere, if GIT_WORK_TREE or core.worktree says so
    start = os.path.relpath(here, top) if here.is_relative_to(top) else "."
    return WorkTree(top, "" if start == "." else start, is_git=True)


def _top_of(directory: Path) -> Path | None:
    above = [directory.resolve(), *directory.resolve().parents]
    if not any((one / ".git").exists() for one in above) and "GIT_DIR" not in os.environ:
        return None  # without asking git, which may not be installed
    found = _git(directory, "rev-parse", "--show-toplevel")
    if found.returncode == 0:
        return Path(os.fsdecode(found.stdout.removesuffix(b"\n"))).resolve()
    said = os.fsdecode(found.stderr).strip()
    if "not a git repository" in said or "must be run in a work tree" in said:
        return None
    if "dubious ownership" in said:
        # Its last line is the command, with the directory as git names it.
        named = re.search(r"safe\.directory (.+)$", said)
        command = f"git config --global --add safe.directory {named[1] if named else shlex.quote(str(directory))}"
        text = f"{directory}: git does not read this work tree, because another user owns it"
        raise ConfigError(text, remedy=f"If you trust it, run `{command}`; or {NO_SYNC}.")
    reason = "; ".join(filter(None, map(str.strip, said.splitlines())))
    raise ConfigError(f"{directory}: git cannot read this work tree: {reason}", remedy=f"Correct that, or {NO_SYNC}.")


def _is_ignored(directory: Path) -> bool:
    """Whether git lists nothing of a directory: the user who names it, such as `build`, means what is in it."""
    return _git(directory, "check-ignore", "-q", ".").returncode == 0


def _git(directory: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", "-C", directory, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as exc:
        text = f"git: cannot be started ({exc.strerror}), and {directory} is in a git work tree"
        raise ConfigError(text, remedy=f"Install git, or {NO_SYNC}.") from exc


def list_files(tree: WorkTree, leave_out: Sequence[Path] = ()) -> Listing:
    """Every file, link and directory of the tree but those in `leave_out`. Raise ConfigError for what cannot be sent.

    `leave_out` are directories of the pool, and files with its secrets: they are recognised by themselves, not by the
    way that leads to them.
    """
    kept_out = _identities(leave_out, tree)
    names = _listed_by_git(tree.root) if tree.is_git else _walked(tree, kept_out)
    listing = Listing()
    root = os.open(tree.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        left_out = _Parents(root, kept_out)
        for path in names:
            if not left_out(path):
                _note(listing, tree, root, path, kept_out)
    finally:
        os.close(root)
    if tree.start:
        listing.directories.add(tree.start)
        _add_parents(listing.directories, tree.start)
    return listing


def _identities(leave_out: Sequence[Path], tree: WorkTree) -> set[tuple[int, int]]:
    found = set()
    around = [one.stat() for one in (tree.root, *tree.root.parents)]
    for path in leave_out:
        try:
            status = path.stat()
        except OSError:
            continue  # it does not exist yet
        found.add((status.st_dev, status.st_ino))
        if any(os.path.samestat(status, above) for above in around):
            raise _in_a_home(tree.root, path)
    if is_home(os.fsencode(tree.root)):
        raise _in_a_home(tree.root, tree.root)
    return found


def check_outside(tree: WorkTree, pools: Sequence[Path]) -> None:
    """Raise ConfigError for a tree in a directory of the pool, which need not exist yet."""
    for pool in pools:
        if tree.root.is_relative_to(pool.resolve()):
            raise _in_a_home(tree.root, pool)


def _in_a_home(root: Path, home: Path) -> ConfigError:
    where = "it is" if root == home.resolve() else "it is in"
    name = "" if root == home.resolve() else f" ({home})"
    return ConfigError(
        f"{root}: {where} a directory of the pool{name}, which has secrets and is never sent",
        remedy=f"Use a home outside of your project, with --home or BULLPEN_HOME; or {NO_SYNC}.",
    )


class _Parents:
    """Says whether a path is in a directory that is left out, or was tracked in one that is a link now: for git it is
    deleted then. Each directory is looked at once."""

    def __init__(self, root: int, kept_out: set[tuple[int, int]]) -> None:
        self._root, self._kept_out = root, kept_out
        self._known = {"": False}

    def __call__(self, path: str) -> bool:
        return self._is_out(path.rpartition("/")[0])

    def _is_out(self, directory: str) -> bool:
        found = self._known.get(directory)
        if found is None:
            found = self._is_out(directory.rpartition("/")[0])
            if not found:
                try:
                    status = os.stat(_encoded(directory), dir_fd=self._root, follow_symlinks=False)
                    found = stat.S_ISLNK(status.st_mode) or (status.st_dev, status.st_ino) in self._kept_out
                    found = found or is_home(_encoded(directory), self._root)
                except OSError:
                    found = False  # gone: so are the files in it
            self._known[directory] = found
        return found


def _listed_by_git(root: Path) -> Iterator[str]:
    found = _git(root, "ls-files", "-co", "--exclude-standard", "-z")
    said = os.fsdecode(found.stderr).strip()
    if found.returncode != 0 or "could not open directory" in said:
        text = f"{root}: git cannot list its files: {said}"
        raise ConfigError(text, remedy=f"Let this user read it, add it to .gitignore, or {NO_SYNC}.")
    for name in dict.fromkeys(found.stdout.split(b"\0")):
        if name:
            yield name.decode("utf-8", "surrogateescape")


def _walked(tree: WorkTree, kept_out: Collection[tuple[int, int]]) -> Iterator[str]:
    root, waiting = tree.root, [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(os.fsencode(root), _encoded(directory))) as entries:
                found = sorted((entry.name, entry.is_dir(follow_symlinks=False), entry.inode()) for entry in entries)
        except OSError as exc:
            raise unreadable(tree, directory or ".", exc) from exc
        if directory and any(name == b".git" for name, _, _ in found):
            raise _submodule(root, directory)
        for name, is_directory, _ in found:
            path = name.decode("utf-8", "surrogateescape")
            path = f"{directory}/{path}" if directory else path
            if not is_directory:
                yield path
                continue
            at = os.path.join(os.fsencode(root), _encoded(path))
            status = os.stat(at, follow_symlinks=False)
            if (status.st_dev, status.st_ino) not in kept_out and not is_home(at):
                yield f"{path}/"
                waiting.append(path)


def _note(listing: Listing, tree: WorkTree, fd: int, path: str, kept_out: Collection[tuple[int, int]]) -> None:
    root, is_directory = tree.root, path.endswith("/")
    path = path.rstrip("/")
    try:
        status = os.stat(_encoded(path), dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            listing.links[path] = os.readlink(_encoded(path), dir_fd=fd).decode("utf-8", "surrogateescape")
            _add_parents(listing.directories, path)
            return
    except (FileNotFoundError, NotADirectoryError):
        return  # tracked, and deleted in the work tree; so is a file that is a directory now
    except OSError as exc:
        raise unreadable(tree, path, exc) from exc
    if (status.st_dev, status.st_ino) in kept_out:
        return
    if stat.S_ISREG(status.st_mode):
        listing.files[path] = status
        _add_parents(listing.directories, path)
    elif not stat.S_ISDIR(status.st_mode):
        kinds = {stat.S_IFSOCK: "a socket", stat.S_IFIFO: "a pipe"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        text = f"{shown_path(root, path)}: it is {kind}, which cannot be sent"
        raise ConfigError(text, remedy=f"Leave it out: {way_to_leave_out(tree, path)}.")
    elif _is_git_directory(root, path) or (not is_directory and _is_submodule(root, path)):
        raise _submodule(root, path)
    elif is_directory:
        listing.directories.add(path)
        _add_parents(listing.directories, path)


def _is_git_directory(root: Path, path: str) -> bool:
    return os.path.lexists(os.path.join(os.fsencode(root), _encoded(path), b".git"))


def _is_submodule(root: Path, path: str) -> bool:
    """Whether git tracks a repository there, also one that was not fetched."""
    found = _git(root, "--literal-pathspecs", "ls-files", "-sz", "--", os.fsdecode(_encoded(path)))
    return found.stdout.startswith(b"160000 ")


def _add_parents(directories: set[str], path: str) -> None:
    parent = path.rpartition("/")[0]
    while parent and parent not in directories:
        directories.add(parent)
        parent = parent.rpartition("/")[0]


def _submodule(root: Path, path: str) -> ConfigError:
    return ConfigError(
        f"{shown_path(root, path)}: it is a git repository of its own, such as a submodule; its files cannot be sent",
        remedy=f"Send a copy of the project without the directories .git, with --sync DIR; or {NO_SYNC}.",
    )


def unreadable(tree: WorkTree, path: str, exc: OSError) -> ConfigError:
    text = f"{shown_path(tree.root, path)}: cannot be read ({(exc.strerror or str(exc)).lower()})"
    return ConfigError(text, remedy=f"Let this user read it, or leave it out: {way_to_leave_out(tree, path)}.")


def way_to_leave_out(tree: WorkTree, path: str) -> str:
    """What the user does so that the tree is sent without this file."""
    if not tree.is_git:
        return f"move it out of {shown_path(tree.root)}, or {NO_SYNC}"
    encoded = os.fsdecode(_encoded(path))
    if _git(tree.root, "--literal-pathspecs", "ls-files", "-z", "--", encoded).stdout:
        root, named = (shlex.quote(one) if one.isprintable() else "PATH" for one in (str(tree.root), path))
        return f"remove it from git with `git -C {root} rm --cached -- {named}` and add it to .gitignore, or {NO_SYNC}"
    return f"add it to .gitignore, or {NO_SYNC}"


def shown_path(root: Path, path: str = "") -> str:
    text = f"{root}/{path}" if path else str(root)
    return text if text.isprintable() else ascii(text)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
