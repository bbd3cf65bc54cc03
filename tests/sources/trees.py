"""Work trees for tests, and stores to send them to."""

import os
import subprocess
from pathlib import Path

from bullpen.engines.sqlite.sources import FileSources
from bullpen.host.packs import offsets, read_bundle
from bullpen.host.unpack import Blocks, unpack
from bullpen.model.progress import ProgressReport
from bullpen.sources import Sent, find_work_tree, send

LARGEST = 10 * 1024 * 1024


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main")
    line = ["git", "-C", str(directory), *identity, "-c", "protocol.file.allow=always", *words]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = subprocess.run(line, check=False, capture_output=True, text=True, env=environ)
    assert ran.returncode == 0, f"git {' '.join(words)}: {ran.stderr}"
    return ran.stdout


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)


def a_project(root: Path) -> Path:
    """A git work tree with a modified, an untracked and an ignored file, an executable and a symlink."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q")
    write(root, {"tracked": "1", "modified": "old", "deleted": "x", "src/deep/file": "deep", "run.sh": "#!/bin/sh\n"})
    write(root, {".gitignore": "ignored\nbuild/\n", "ignored": "no", "build/out": "no"})
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/deep/file")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    write(root, {"modified": "new", "untracked": "yes"})
    (root / "deleted").unlink()
    return root


PROJECT = {
    ".gitignore": "ignored\nbuild/\n",
    "tracked": "1",
    "modified": "new",
    "untracked": "yes",
    "src/deep/file": "deep",
    "run.sh": "#!/bin/sh\n",
    "link": "-> src/deep/file",
}
"""What jobs get of it."""


def content_of(root: Path) -> dict[str, str]:
    """Every file and link below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = path.read_bytes().decode("latin-1")
    return found


class Sending:
    """A store in a home, and a client that sends to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.home.mkdir(parents=True, exist_ok=True)
        self.store = FileSources(home)
        self.reports: list[ProgressReport] = []

    async def send(self, root: Path, *, max_size: int = LARGEST, asked: bool = False) -> Sent:
        tree = find_work_tree(root, "." if asked else None)
        assert tree is not None
        cache = self.home / "sources" / "clients"
        return await send(
            self.store, tree, cache=cache, max_size=max_size, leave_out=[self.home], tell=self.reports.append
        )

    async def unpacked(self, source: str, target: Path) -> Path:
        """What an agent elsewhere makes of it."""
        size, pieces = await self.store.bundle(source)
        bundle = b"".join([piece async for piece in pieces])
        assert len(bundle) == size
        return _unpacked(bundle, target)


def _unpacked(bundle: bytes, target: Path) -> Path:
    target.mkdir(parents=True)
    path = target.with_suffix(".bundle")
    path.write_bytes(bundle)
    with path.open("rb") as file:
        _, manifest, begin = read_bundle(file)
        blocks = Blocks()
        blocks.add(file.fileno(), {one: (at, length) for one, at, length in offsets(manifest, begin)})
        top = os.open(target, os.O_RDONLY)
        unpack(manifest, blocks, top)
        os.close(top)
    return target
