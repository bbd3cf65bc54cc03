"""The files of a project: which ones are sent, and how much of them."""

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bullpen import sources
from bullpen.engines.sqlite.migrations import load_scripts, open_home
from bullpen.engines.sqlite.turnstile import Turnstile
from bullpen.errors import ConfigError
from bullpen.model.manifest import BLOCK
from bullpen.sources.packing import _Packing
from bullpen.sources.work_tree import WorkTree, list_files
from sources.trees import PROJECT, Sending, a_project, content_of, git, write

pytestmark = pytest.mark.real_loop


@pytest.fixture
def sending(tmp_path: Path) -> Sending:
    return Sending(tmp_path / "home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return a_project(tmp_path / "project")


async def test_tracked_and_untracked_files_are_sent_as_they_are_and_ignored_ones_are_not(
    sending: Sending, project: Path, tmp_path: Path
) -> None:
    sent = await sending.send(project)
    found = await sending.unpacked(sent.source, tmp_path / "job")
    assert content_of(found) == PROJECT
    assert [name for name in PROJECT if os.access(found / name, os.X_OK)] == ["run.sh"]
    assert sent.files == len(PROJECT) - 1  # the link is not one


async def test_a_directory_that_is_no_work_tree_is_sent_whole(sending: Sending, tmp_path: Path) -> None:
    write(tmp_path / "plain", {"a": "1", "b/c": "2"})
    (tmp_path / "plain/empty/deeper").mkdir(parents=True)
    sent = await sending.send(tmp_path / "plain", asked=True)
    found = await sending.unpacked(sent.source, tmp_path / "job")
    assert content_of(found) == {"a": "1", "b/c": "2"}
    assert (found / "empty/deeper").is_dir()


def test_without_a_work_tree_nothing_is_sent_unless_a_directory_is_named(tmp_path: Path) -> None:
    assert sources.find_work_tree(tmp_path) is None
    with pytest.raises(ConfigError, match="must be a directory"):
        sources.find_work_tree(tmp_path, "absent")


def test_a_command_in_a_subdirectory_sends_the_whole_work_tree_and_starts_there(project: Path) -> None:
    tree = sources.find_work_tree(project / "src")
    assert tree is not None
    assert (tree.root, tree.start) == (project.resolve(), "src")


def test_a_work_tree_that_the_environment_names_starts_at_its_top(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(project / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(project))
    tree = sources.find_work_tree(tmp_path)
    assert tree is not None
    assert (tree.root, tree.start) == (project.resolve(), "")


@pytest.mark.parametrize("is_tracked", [True, False])
async def test_the_pools_home_is_never_sent(project: Path, tmp_path: Path, is_tracked: bool) -> None:
    home = project / "state" / "pool"
    write(home, {"secret": "token", "sources/deep": "token"})
    if is_tracked:
        git(project, "add", "-f", "state")
    sending = Sending(home)
    sent = await sending.send(project)
    found = await sending.unpacked(sent.source, tmp_path / "job")
    assert content_of(found) == PROJECT


async def test_a_home_that_another_path_leads_to_is_not_sent_either(tmp_path: Path) -> None:
    write(tmp_path / "plain", {"a": "1", "pool/secret": "token"})
    (tmp_path / "other").symlink_to(tmp_path / "plain/pool")
    sending = Sending(tmp_path / "other")
    sent = await sending.send(tmp_path / "plain", asked=True)
    assert content_of(await sending.unpacked(sent.source, tmp_path / "job")) == {"a": "1"}


@pytest.mark.parametrize("asked", [True, False])
async def test_the_home_of_another_pool_is_not_sent_either(sending: Sending, tmp_path: Path, asked: bool) -> None:
    """In a directory without git nothing ignores it, and a home of an earlier version has no .gitignore."""
    root = tmp_path / "plain" if asked else a_project(tmp_path / "project")
    write(root, {"a": "1"})
    open_home(root / "state", Turnstile(root / "state"), load_scripts()).close()
    (root / "state/.gitignore").unlink()
    write(root, {"state/secret": "token", "state/instances/i-1/work/.git/config": ""})
    found = await sending.unpacked((await sending.send(root, asked=asked)).source, tmp_path / "job")
    assert content_of(found) == {"a": "1"} if asked else PROJECT | {"a": "1"}
    with pytest.raises(ConfigError, match="which has secrets"):
        await sending.send(root / "state", asked=True)


async def test_a_project_inside_the_home_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "home/project", {"a": "1"})
    for root in (tmp_path / "home", tmp_path / "home/project"):
        with pytest.raises(ConfigError, match="which has secrets"):
            await Sending(tmp_path / "home").send(root, asked=True)


async def test_the_second_time_nothing_is_sent_and_then_only_what_changed(sending: Sending, project: Path) -> None:
    first = await sending.send(project)
    assert first.sent_size == first.size > 0
    again = await sending.send(project)
    assert (again.source, again.sent_files, again.sent_size) == (first.source, 0, 0)
    write(project, {"tracked": "changed", "more": "1234"})
    third = await sending.send(project)
    assert (third.sent_files, third.sent_size) == (2, len("changed1234"))
    assert sending.reports[-1].text == "sending 2 changed files, 11 B of 46 B"
    packs = sending.home / "sources" / "packs"
    assert len(list(packs.iterdir())) == 2


async def test_a_small_change_of_a_large_file_sends_one_block(sending: Sending, project: Path) -> None:
    content = os.urandom(4 * BLOCK)
    write(project, {"large": content})
    await sending.send(project)
    other = bytes([content[2 * BLOCK] ^ 1])  # whatever was drawn there
    write(project, {"large": content[: 2 * BLOCK] + other + content[2 * BLOCK + 1 :]})
    assert (await sending.send(project)).sent_size == BLOCK


async def test_a_file_that_has_not_changed_is_not_read_again(
    sending: Sending, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bullpen.sources.hash_cache.RACY", 0)  # all files were made just now
    await sending.send(project)
    (project / "tracked").chmod(0)
    opened: list[str] = []
    real = os.open

    def noting(path: str | bytes, *arguments: int, **named: int) -> int:
        if isinstance(path, bytes):
            opened.append(path.decode())
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", noting)
    write(project, {"modified": "newer"})
    (project / "tracked").chmod(0o644)
    await sending.send(project)
    read = [Path(path).name for path in opened if str(project) in path]
    assert [name for name in read if name != "bullpen.db"] == ["modified", "tracked"]


async def test_a_file_that_changed_within_the_tick_of_its_clock_is_read_again(sending: Sending, project: Path) -> None:
    """It keeps its size and all its times: only reading it shows the change."""
    await sending.send(project)
    (cached,) = (sending.home / "sources/clients").glob("*.json")
    assert "modified" not in cached.read_text()  # it was written just now


async def test_what_the_store_has_lost_is_sent_again(sending: Sending, project: Path, tmp_path: Path) -> None:
    first = await sending.send(project)
    for pack in (sending.home / "sources/packs").iterdir():
        pack.unlink()
    again = await sending.send(project)
    assert (again.source, again.sent_size) == (first.source, first.size)
    assert content_of(await sending.unpacked(again.source, tmp_path / "job")) == PROJECT


async def test_a_project_that_is_too_large_is_refused_and_its_largest_parts_are_named(
    sending: Sending, project: Path
) -> None:
    write(project, {"data/set/one": b"x" * 3000, "data/set/two": b"x" * 3000, "big": b"x" * 2000})
    with pytest.raises(ConfigError, match=r"sync.max-size is 3.9 KiB; largest: data/set/ \(5.9 KiB\), big") as refused:
        await sending.send(project, max_size=4000)
    assert "raise sync.max-size" in refused.value.remedy


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "src/../../outside", "loop/../outside"])
async def test_a_symlink_that_leads_out_of_the_tree_is_refused(sending: Sending, project: Path, target: str) -> None:
    (project / "src/deep/loop").symlink_to("../..")
    (project / "loop").symlink_to("src/deep/loop")
    (project / "out").symlink_to(target)
    with pytest.raises(ConfigError, match="out: it is a symlink to") as refused:
        await sending.send(project)
    assert "--no-sync" in refused.value.remedy


async def test_a_symlink_to_what_is_not_sent_or_to_itself_is_kept(
    sending: Sending, project: Path, tmp_path: Path
) -> None:
    for name, target in (("dangling", "build/out"), ("self", "self")):
        (project / name).symlink_to(target)
    found = await sending.unpacked((await sending.send(project)).source, tmp_path / "job")
    assert [os.readlink(found / name) for name in ("dangling", "self")] == ["build/out", "self"]


@pytest.mark.slow
async def test_a_submodule_and_a_repository_inside_are_refused(sending: Sending, project: Path, tmp_path: Path) -> None:
    inner = a_project(tmp_path / "inner")
    git(project, "submodule", "--quiet", "add", str(inner), "sub")
    with pytest.raises(ConfigError, match="sub: it is a git repository of its own") as refused:
        await sending.send(project)
    assert "--sync DIR" in refused.value.remedy
    plain = tmp_path / "plain"
    a_project(plain / "nested")
    with pytest.raises(ConfigError, match="nested: it is a git repository of its own"):
        await sending.send(plain, asked=True)


@pytest.mark.slow
async def test_a_submodule_that_was_not_fetched_is_refused(sending: Sending, project: Path, tmp_path: Path) -> None:
    git(project, "submodule", "--quiet", "add", str(a_project(tmp_path / "inner")), "sub")
    git(project, "submodule", "--quiet", "deinit", "-f", "sub")
    with pytest.raises(ConfigError, match="sub: it is a git repository of its own"):
        await sending.send(project)


async def test_a_tracked_file_that_is_a_directory_now_and_one_in_what_is_a_link_now_are_deleted(
    sending: Sending, project: Path, tmp_path: Path
) -> None:
    (project / "tracked").unlink()
    write(project, {"tracked/inside": "new"})
    (project / "src").rename(project / "moved")
    (project / "src").symlink_to("moved")
    found = content_of(await sending.unpacked((await sending.send(project)).source, tmp_path / "job"))
    moved = {"tracked/inside": "new", "moved/deep/file": "deep", "src": "-> moved"}
    assert (
        found
        == {name: content for name, content in PROJECT.items() if name not in ("tracked", "src/deep/file")} | moved
    )


async def test_what_a_tracked_path_leads_to_outside_of_the_tree_is_not_sent(
    sending: Sending, project: Path, tmp_path: Path
) -> None:
    write(project, {".gitignore": "/src\n/build\nignored\n"})
    (project / "src").rename(tmp_path / "elsewhere")
    (project / "src").symlink_to(tmp_path / "elsewhere")
    found = content_of(await sending.unpacked((await sending.send(project)).source, tmp_path / "job"))
    assert "src/deep/file" not in found


async def test_an_ignored_directory_is_sent_whole_if_the_user_names_it(
    sending: Sending, project: Path, tmp_path: Path
) -> None:
    sent = await sending.send(project / "build", asked=True)
    assert content_of(await sending.unpacked(sent.source, tmp_path / "job")) == {"out": "no"}


async def test_a_pipe_and_a_socket_are_refused(sending: Sending, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    os.mkfifo(plain / "pipe")
    with pytest.raises(ConfigError, match="pipe: it is a pipe, which cannot be sent"):
        await sending.send(plain, asked=True)
    (plain / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(plain / "s"))
        with pytest.raises(ConfigError, match="it is a socket"):
            await sending.send(plain, asked=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_an_unreadable_file_is_refused(sending: Sending, project: Path) -> None:
    (project / "tracked").chmod(0)
    with pytest.raises(ConfigError, match="tracked: cannot be read") as refused:
        await sending.send(project)
    assert f"git -C {project} rm --cached -- tracked" in refused.value.remedy


@pytest.mark.parametrize("kind", ["untracked", "tracked", "without git"])
async def test_the_remedy_for_a_file_that_cannot_be_sent_helps(
    sending: Sending, project: Path, tmp_path: Path, kind: str
) -> None:
    """Follow it, and the tree is sent."""
    root = project if kind != "without git" else tmp_path / "plain"
    write(root, {"more": "1"})
    (root / "a link").symlink_to("/etc/passwd")
    if kind == "tracked":
        git(project, "add", "-A")
    with pytest.raises(ConfigError, match="a link: it is a symlink") as refused:
        await sending.send(root, asked=kind == "without git")
    match kind:
        case "untracked":
            assert refused.value.remedy.endswith("leave it out: add it to .gitignore, or use --no-sync.")
            write(root, {".gitignore": "a link\n"})
        case "tracked":
            assert f"`git -C {root} rm --cached -- 'a link'` and add it to .gitignore" in refused.value.remedy
            git(root, "rm", "-q", "--cached", "--", "a link")
            write(root, {".gitignore": "a link\n"})
        case _:
            assert f"leave it out: move it out of {root}" in refused.value.remedy
            (root / "a link").rename(tmp_path / "a link")
    await sending.send(root, asked=kind == "without git")


async def test_a_file_with_a_secret_is_left_out_whatever_its_name(tmp_path: Path) -> None:
    root = a_project(tmp_path / "project")
    write(root, {"token": "secret", "sub/more": "1"})
    git(root, "add", "-A")
    (tmp_path / "named").symlink_to(root / "token")
    sent = list_files(WorkTree(root, is_git=True), [tmp_path / "named"])
    assert set(sent.files) == {name for name in PROJECT if name != "link"} | {"sub/more"}


async def test_a_file_that_another_user_may_not_read_is_refused(
    sending: Sending, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refusing(path: str | bytes, *arguments: int, **named: int) -> int:
        if isinstance(path, bytes) and path.endswith(b"/tracked"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(ConfigError, match=r"tracked: cannot be read \(permission denied\)"):
        await sending.send(project)


async def test_a_file_that_changes_while_it_is_packed_is_refused(
    sending: Sending, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.read

    def meanwhile(fd: int, length: int) -> bytes:
        with (project / "tracked").open("ab") as file:
            file.write(b"more")
        return real(fd, length)

    monkeypatch.setattr("bullpen.sources.packing.os.read", meanwhile)
    with pytest.raises(ConfigError, match="tracked: it changes while it is packed") as refused:
        await sending.send(project)
    assert "Run it again" in refused.value.remedy


async def test_names_that_are_not_utf_8_and_equal_files_arrive(sending: Sending, project: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"odd-\xff\n name")
    write(project, {odd: "1", "equal": "1"})
    found = await sending.unpacked((await sending.send(project)).source, tmp_path / "job")
    assert content_of(found) == {**PROJECT, odd: "1", "equal": "1"}


@pytest.mark.slow
def test_a_client_that_is_killed_leaves_only_what_the_upkeep_removes(project: Path, tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, "tests")
import bullpen.sources.packing as sending
from sources.trees import Sending

def die(self):
    os.kill(os.getpid(), 9)

sending._Packing._close_packs = die
asyncio.run(Sending(Path(sys.argv[2])).send(Path(sys.argv[1])))
"""
    home = tmp_path / "home"
    ended = subprocess.run([sys.executable, "-c", program, str(project), str(home)], cwd=Path(__file__).parents[2])
    assert ended.returncode == -9
    (left,) = (home / "sources/clients").iterdir()
    assert left.name.startswith("packing-")
    assert not (home / "sources/manifests").exists()
    store = Sending(home).store
    asyncio.run(store.tidy(datetime.now(UTC), (), 0))
    assert left.exists()  # another client may be packing
    asyncio.run(store.tidy(datetime.now(UTC) + timedelta(hours=2), (), 0))
    assert not left.exists()


def test_a_file_with_more_content_than_its_size_is_not_sent_without_it(tmp_path: Path) -> None:
    # Of size 0 and not empty, as files of some file systems are.
    packing = _Packing(WorkTree(Path("/proc")), tmp_path, [], 10**9, asyncio.Event())
    with packing, pytest.raises(ConfigError, match="version: it changes while it is packed"):
        packing._read("version")
