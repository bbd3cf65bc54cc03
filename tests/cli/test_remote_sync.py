"""`bullpen --server URL run` in a project: its files are in the working directory of every job, and only what the
server lacks is sent."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bullpen.auth.tokens import Scope
from bullpen.client import AsyncClient, ServerStore
from bullpen.client.answers import Reply
from bullpen.client.files import PIECE
from bullpen.client.transport import AsyncTransport, HttpRequest, ServerAway
from bullpen.errors import Interrupted
from bullpen.ports.sources import no_store
from bullpen.server.problems import of_error
from bullpen.sources import Sent, find_work_tree, send
from client.stand_ins import OURS, answering
from command_line import CommandLine
from made_tokens import make_token
from server.served import ServeProcess, a_server
from sources.trees import PROJECT, a_project, content_of, write

pytestmark = pytest.mark.slow

LARGE = 5 * PIECE


class Traffic:
    """The requests of this process, and what is to happen to them; each is really sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[HttpRequest] = []
        self.lost_answers = 0
        exchange = AsyncTransport.exchange

        async def watched(transport: AsyncTransport, request: HttpRequest) -> Reply:
            self.requests.append(request)
            reply = await exchange(transport, request)
            if request.method == "PUT" and self.lost_answers:
                self.lost_answers -= 1
                raise ServerAway("cut", remedy="", was_sent=True)
            return reply

        monkeypatch.setattr(AsyncTransport, "exchange", watched)

    def sent(self, what: str = "packs") -> int:
        """Bytes of packs, or of manifests, since it was asked last."""
        found = sum(len(one.content or b"") for one in self.requests if f"/v1/sources/{what}/" in one.path)
        self.requests.clear()
        return found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    with a_server(tmp_path / "served" / "home") as served:
        yield served


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = a_project(tmp_path / "project")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Traffic:
    return Traffic(monkeypatch)


def lines_of(out: str, job: str) -> list[str]:
    return [line.partition("| ")[2] for line in out.splitlines() if line.startswith(job)]


def test_jobs_on_a_server_find_the_files_leave_some_and_a_second_run_sends_only_what_changed(
    bullpen: CommandLine, served: ServeProcess, project: Path, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"large": os.urandom(LARGE), ".bullpen/secrets/key": "secret"})
    monkeypatch.chdir(project)
    line = ("--server", served.url, "run", "--count", "2", "--", "sh", "-c")
    ran = bullpen(*line, "find . -type f -o -type l | sort; cat modified; test -x run.sh && echo runs")
    assert ran.code == 0, ran
    expected = ["./large", *(f"./{name}" for name in PROJECT), "newruns"]
    for job in ("job-0", "job-1"):
        assert sorted(lines_of(ran.out, job)) == sorted(expected)
    assert "sending 7 changed files" in ran.err
    assert LARGE < traffic.sent() < LARGE + 4096

    write(project, {"tracked": "changed"})
    ran = bullpen(*line, "cat tracked")
    assert (ran.code, lines_of(ran.out, "job-0")) == (0, ["changed"])
    assert "sending 1 changed file, 7 B of" in ran.err
    assert len([one for one in traffic.requests if "/v1/sources/" in one.path]) == 4  # limits, missing, pack, manifest
    assert 0 < traffic.sent() < 200

    back = ("--artifact", "made", "--out", "../out")
    ran = bullpen(*line[:5], *back, *line[5:], "mkdir made; cat tracked > made/$BULLPEN_JOB_INDEX")
    assert ran.code == 0, ran
    assert "artifacts: 2 files of 2 jobs" in ran.out
    assert content_of(project.parent / "out") == {"job-0/made/0": "changed", "job-1/made/1": "changed"}
    assert "sending nothing" in ran.err
    assert traffic.sent() == 0
    assert [one.name for one in (project.parent / "cache" / "bullpen" / "sources").glob("packing-*")] == []


def test_jobs_do_not_find_the_token_with_which_they_were_sent(
    bullpen: CommandLine, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "served" / "home"
    write(project, {"my-token": make_token(home, Scope.OPERATE)})
    monkeypatch.chdir(project)
    with a_server(home) as served:
        line = ("--server", served.url, "--token-file", "my-token", "run", "--count", "1", "--")
        ran = bullpen(*line, "sh", "-c", "test -e tracked && test ! -e my-token")
        assert ran.code == 0, ran
        failed = bullpen(*line, "false")
        (shows_log,) = [line for line in failed.out.splitlines() if " job logs j-" in line]
        assert bullpen(*shows_log.split()[1:]).code == 0


def test_a_tree_that_cannot_be_sent_acquires_no_runner(
    bullpen: CommandLine, served: ServeProcess, project: Path, traffic: Traffic
) -> None:
    (project / "out").symlink_to("/etc/passwd")
    ran = bullpen("--server", served.url, "run", "--count", "1", "--sync", str(project), "--", "true")
    assert ran.code == 2
    assert "out: it is a symlink to '/etc/passwd'" in ran.err
    assert "--no-sync" in ran.err
    assert [one.path for one in traffic.requests] == ["/healthz", "/v1/sources/limits"]


def test_a_project_that_is_larger_than_the_server_takes_is_refused_as_on_a_home(
    bullpen: CommandLine, project: Path, tmp_path: Path, traffic: Traffic
) -> None:
    write(project, {"large": os.urandom(2 * 1024 * 1024)})
    line = ("run", "--count", "1", "--sync", str(project), "--", "true")
    with a_server(tmp_path / "served" / "home", "--set", "sync.max-size=1") as served:
        ran = bullpen("--server", served.url, *line)
    there = bullpen("--home", str(tmp_path / "here"), "--set", "sync.max-size=1", *line)
    assert ran.code == there.code == 2
    assert "its files have 2 MiB, and sync.max-size is 1 MiB; largest: large (2 MiB)" in ran.err
    said = ran.err.replace("sync.max-size of the server", "sync.max-size")
    assert said[said.index("bullpen: error") :] == there.err[there.err.index("bullpen: error") :]
    assert "raise sync.max-size of the server" in ran.err
    assert [one.path for one in traffic.requests] == ["/healthz", "/v1/sources/limits"]


def test_a_server_whose_store_is_full_says_so_and_no_runner_is_acquired(
    bullpen: CommandLine, project: Path, tmp_path: Path, traffic: Traffic
) -> None:
    write(project, {"large": os.urandom(2 * 1024 * 1024)})
    with a_server(tmp_path / "served" / "home", "--set", "sync.store-size=1") as served:
        ran = bullpen("--server", served.url, "run", "--count", "1", "--sync", str(project), "--", "true")
        assert served.ask("GET", "/v1/runs")[1]["runs"] == []
    assert ran.code == 1
    assert "the server does not take the files: the store for files has no room for 2 MiB more" in ran.err
    assert ": 1 MiB of 1 MiB (sync.store-size) are free" in ran.err
    assert "Raise sync.store-size" in ran.err
    assert traffic.sent() == 0


def test_a_pool_on_this_machine_keeps_the_size_of_its_store_as_a_server_does(
    bullpen: CommandLine, project: Path, tmp_path: Path
) -> None:
    write(project, {"large": os.urandom(2 * 1024 * 1024)})
    home = tmp_path / "here"
    line = ("run", "--count", "1", "--sync", str(project), "--", "true")
    ran = bullpen("--home", str(home), "--set", "sync.store-size=1", *line)
    assert ran.code == 1
    assert "the store for files has no room for 2 MiB more: 1 MiB of 1 MiB (sync.store-size) are free" in ran.err
    assert "Raise sync.store-size" in ran.err
    assert sum(path.stat().st_size for path in (home / "sources").rglob("*") if path.is_file()) < 1024 * 1024
    assert bullpen("--home", str(home), "--set", "sync.store-size=3", *line).code == 0


def test_a_server_without_a_store_for_files_says_so_before_anything_is_acquired(
    bullpen: CommandLine, project: Path
) -> None:
    problem = of_error(no_store())
    with answering(lambda method, path: (problem.status, OURS, msgspec.json.encode(problem.answer))) as (place, asked):
        ran = bullpen("--server", f"http://{place}", "run", "--count", "1", "--sync", str(project), "--", "true")
    assert ran.code == 2
    assert 'bullpen: error: engines.pool is "aws": this pool has no store for the files of a project' in ran.err
    assert "--no-sync" in ran.err
    assert asked == ["GET /healthz", "GET /v1/sources/limits"]


def test_an_upload_that_was_cut_goes_on_where_it_was_in_another_process(
    served: ServeProcess, project: Path, traffic: Traffic, tmp_path: Path
) -> None:
    write(project, {"large": os.urandom(LARGE)})
    stop = asyncio.Event()

    class Cut(ServerStore):
        async def add_pack(self, pack: Path) -> None:
            sends = self._client.send_pack_piece

            async def three(pack_id: str, offset: int, size: int, content: bytes) -> object:
                stored = await sends(pack_id, offset, size, content)
                if stored.length >= 3 * PIECE:
                    stop.set()
                return stored

            self._client.send_pack_piece = three  # type: ignore[method-assign, assignment]
            await super().add_pack(pack)

    with pytest.raises(Interrupted, match="while the files were sent"):
        asyncio.run(sent_through(served, project, tmp_path, Cut, stop))
    assert traffic.sent() == 3 * PIECE
    assert asyncio.run(sent_through(served, project, tmp_path)).sent_size > LARGE
    assert LARGE - 3 * PIECE < traffic.sent() < LARGE - 3 * PIECE + 4096


def test_a_piece_whose_answer_was_lost_is_sent_again_and_counts_once(
    served: ServeProcess, project: Path, traffic: Traffic, tmp_path: Path
) -> None:
    write(project, {"large": os.urandom(LARGE)})
    traffic.lost_answers = 2
    found = asyncio.run(sent_through(served, project, tmp_path))
    assert traffic.sent() < LARGE + 2 * PIECE + 4096
    (pack,) = (served.home / "sources" / "packs").iterdir()
    assert pack.stat().st_size < LARGE + 4096
    assert asyncio.run(sent_through(served, project, tmp_path)).source == found.source
    assert traffic.sent() == 0


def test_a_pack_that_the_server_lost_in_the_middle_is_sent_again(
    served: ServeProcess, project: Path, traffic: Traffic, tmp_path: Path
) -> None:
    """As when its disk was cleaned up: what comes next is a gap."""
    write(project, {"large": os.urandom(LARGE)})
    incoming = served.home / "sources" / "incoming"

    class Losing(ServerStore):
        async def add_pack(self, pack: Path) -> None:
            sends, lost = self._client.send_pack_piece, list[Path]()

            async def losing(pack_id: str, offset: int, size: int, content: bytes) -> object:
                if offset >= 2 * PIECE and not lost:
                    for part in incoming.iterdir():
                        part.unlink()
                        lost.append(part)
                return await sends(pack_id, offset, size, content)

            self._client.send_pack_piece = losing  # type: ignore[method-assign, assignment]
            await super().add_pack(pack)
            assert lost

    assert asyncio.run(sent_through(served, project, tmp_path, Losing)).sent_size > LARGE
    assert traffic.sent() > LARGE + 2 * PIECE


def test_what_a_killed_client_left_in_the_cache_is_removed_after_a_day(
    bullpen: CommandLine, served: ServeProcess, project: Path
) -> None:
    cache = project.parent / "cache" / "bullpen" / "sources"
    for name, age in (("packing-old", 2), ("packing-new", 0)):
        write(cache, {f"{name}/0.read": "left"})
        os.utime(cache / name, (time.time() - age * 86400,) * 2)
    ran = bullpen("--server", served.url, "run", "--count", "1", "--sync", str(project), "--", "true")
    assert ran.code == 0, ran
    assert [one.name for one in cache.glob("packing-*")] == ["packing-new"]


async def sent_through(
    served: ServeProcess,
    root: Path,
    folder: Path,
    kind: type[ServerStore] = ServerStore,
    stop: asyncio.Event | None = None,
) -> Sent:
    tree = find_work_tree(root)
    assert tree is not None
    async with AsyncClient(served.url) as client:
        return await send(kind(client, stop), tree, cache=folder / "cache", max_size=10**8)
