"""`bullpen run` in a project: its files are in the working directory of every job."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from bullpen.engines.local.launch import PASSED_ON
from bullpen.host.packs import index_of
from bullpen.model.manifest import FileEntry, Manifest, encode, source_id
from bullpen.sources import fetch_artifacts, find_work_tree, send
from free_ports import a_free_port
from scenario.pool import Pool
from sources.trees import PROJECT, a_project, content_of, git, write
from users import lent
from walkthroughs import ROOT

LIST = "find . -type f -o -type l | sort; cat modified; readlink link; test -x run.sh && echo runs"


def a_project_around(pool: Pool) -> Path:
    """A work tree in which commands are called. The pool's home is in it, and not ignored."""
    root = a_project(pool.folder)
    write(root, {".git/info/exclude": "*.out\n*.err\n"})
    return root


def lines_of(out: str, job: str) -> list[str]:
    return [line.partition("| ")[2] for line in out.splitlines() if line.startswith(job)]


def test_every_job_finds_the_files_of_the_work_tree_and_no_secret_of_the_pool(pool: Pool) -> None:
    root = a_project_around(pool)
    write(pool.home, {"planted": "secret"})
    git(root, "add", "-f", "home/planted")
    ran = pool.run("run", "--run-id", "run-1", "--count", "2", "--", "sh", "-c", LIST)
    assert ran.code == 0, ran
    expected = [*sorted(f"./{name}" for name in PROJECT), "new" + PROJECT["link"].removeprefix("-> "), "runs"]
    for job in ("job-0", "job-1"):
        assert sorted(lines_of(ran.out, job)) == sorted(expected)
    assert "sending 6 changed files" in ran.err
    assert pool.audit() == []
    assert [list((pool.home / "instances" / id / "work").iterdir()) for id in pool.ids("idle")] == [[], []]


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs run as another user only if Bullpen is root")
def test_the_files_of_a_job_belong_to_the_user_of_its_machine_and_its_artifacts_come_back(
    pool: Pool, folder: Path
) -> None:
    with lent(1) as users:
        for passed in (folder, pool.folder):
            passed.chmod(0o755)
        a_project_around(pool)
        pool.settings["local.runner-users"] = ",".join(users)
        deed = "stat -c %U tracked; id -un; mkdir -m 700 dist; id -un > dist/who; ln -s /etc/shadow dist/link"
        ran = pool.run(
            "run", "--run-id", "run-1", "--count", "1", "--artifact", "dist", "--out", "got", "--", "sh", "-c", deed
        )
        assert (ran.code, lines_of(ran.out, "job-0")[:2]) == (0, [users[0], users[0]]), ran
        came = {
            str(path.relative_to(pool.folder / "got")): path.read_text()
            for path in (pool.folder / "got").rglob("*")
            if path.is_file()
        }
        assert list(came.values()) == [f"{users[0]}\n"], came
        pool.settle()
        assert pool.audit() == []


def test_a_job_without_sync_starts_in_an_empty_directory(pool: Pool) -> None:
    a_project_around(pool)
    ran = pool.run("run", "--count", "1", "--no-sync", "--", "ls", "-A")
    assert (ran.code, lines_of(ran.out, "job-0")) == (0, [])


def test_the_second_run_sends_only_what_changed(pool: Pool) -> None:
    root = a_project_around(pool)
    assert pool.run("run", "--count", "1", "--", "true").code == 0
    write(root, {"tracked": "changed"})
    ran = pool.run("run", "--count", "1", "--", "cat", "tracked")
    assert (ran.code, lines_of(ran.out, "job-0")) == (0, ["changed"])
    assert "sending 1 changed file, 7 B of" in ran.err
    assert len(list((pool.home / "sources" / "packs").iterdir())) == 2


def test_a_second_job_on_the_same_runner_sees_a_fresh_copy(pool: Pool, folder: Path) -> None:
    a_project_around(pool)
    jobs = folder / "jobs.jsonl"
    words = ["sh", "-c", "cat tracked; ls -A ..; echo spoilt > tracked; mkdir -m 0 closed; chmod 0 ."]
    jobs.write_text("".join(json.dumps({"name": name, "command": words}) + "\n" for name in ("one", "two")))
    ran = pool.run("run", "--count", "1", "--jobs", str(jobs))
    assert ran.code == 0, ran
    first, second = lines_of(ran.out, "one"), lines_of(ran.out, "two")
    assert (first[0][0], second[0][0]) == ("1", "1")
    assert pool.audit() == []


def test_a_damaged_pack_fails_the_job_with_a_reason_and_the_next_run_sends_it_again(pool: Pool) -> None:
    a_project_around(pool)
    assert pool.run("run", "--count", "1", "--", "true").code == 0
    (pack,) = (pool.home / "sources" / "packs").iterdir()
    content = bytearray(pack.read_bytes())
    content[0] ^= 1
    pack.write_bytes(content)
    ran = pool.run("run", "--count", "1", "--", "echo", "ran")
    assert (ran.code, "ran" in lines_of(ran.out, "job-0")) == (125, False)
    assert "the files of the project are damaged" in ran.out
    again = pool.run("run", "--count", "1", "--", "echo", "ran")
    assert (again.code, lines_of(again.out, "job-0")) == (0, ["ran"])


def test_a_tree_that_cannot_be_sent_acquires_no_runner(pool: Pool) -> None:
    root = a_project_around(pool)
    (root / "out").symlink_to("/etc/passwd")
    ran = pool.run("run", "--count", "1", "--", "true")
    assert ran.code == 2
    assert "out: it is a symlink to '/etc/passwd'" in ran.err
    assert "--no-sync" in ran.err
    assert "Traceback" not in ran.err
    assert pool.live() == []


def test_a_client_that_is_killed_while_it_packs_leaves_a_pool_that_works(pool: Pool) -> None:
    root = a_project_around(pool)
    write(root, {"large": os.urandom(20_000_000)})
    running = pool.start("run", "--count", "1", "--", "true")
    clients = pool.home / "sources" / "clients"
    pool.until(lambda: clients.exists() and any(clients.glob("packing-*")), "it packs")
    running.kill()
    ran = pool.run("run", "--count", "1", "--", "cat", "tracked")
    assert (ran.code, lines_of(ran.out, "job-0")) == (0, ["1"])
    for left in clients.glob("packing-*"):
        os.utime(left, (0, 0))
    pool.refresh()
    assert list(clients.glob("packing-*")) == []
    assert pool.audit() == []


def test_the_content_that_jobs_get_is_what_the_project_has(pool: Pool, folder: Path) -> None:
    root = a_project_around(pool)
    target = folder / "copy"
    ran = pool.run("run", "--count", "1", "--", "cp", "-a", ".", str(target))
    assert ran.code == 0, ran
    assert content_of(target) == PROJECT
    assert oct((target / "run.sh").stat().st_mode & 0o777) == "0o755"
    shutil.rmtree(target)
    assert content_of(root)["modified"] == "new"


def _content_of(path: Path) -> bytes:
    return path.read_bytes()


class Served:
    """A pool whose agents know only `serve`, and a client that does."""

    def __init__(self, pool: Pool) -> None:
        port = a_free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.token = pool.run("token", "create", "--scope", "operate", "--name", "operator").out.strip()
        self._serving = pool.start("serve", "--port", str(port))
        pool.until(lambda: "listening" in self._serving.said() or self._serving.has_ended(), "it listens")
        pool.settings["agent.serve-url"] = self.url

    def ask(self, method: str, path: str, **what: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **what)  # type: ignore[arg-type]

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        answer = self.ask("POST", "/v1/sources/missing", json={"blocks": list(blocks)})
        assert answer.status_code == 200, answer.text
        return set(answer.json()["missing"])

    async def add_pack(self, pack: Path) -> None:
        self._put(f"/v1/sources/packs/{index_of(pack).id}", _content_of(pack))

    async def add_manifest(self, content: bytes) -> str:
        self._put(f"/v1/sources/manifests/{source_id(content)}", content)
        return source_id(content)

    def _put(self, path: str, content: bytes) -> None:
        offset, answered = 0, dict[str, Any]()
        while not answered.get("complete"):
            piece = content[offset : offset + 100_000]
            answer = self.ask("PUT", f"{path}?offset={offset}&size={len(content)}", content=piece)
            assert answer.status_code == 200, answer.text
            answered = answer.json()
            offset = answered["length"]


def test_agents_behind_serve_fetch_the_files_and_send_artifacts_back(pool: Pool, folder: Path) -> None:
    root = a_project_around(pool)
    write(root, {"large": os.urandom(700_000)})
    served = Served(pool)
    tree = find_work_tree(root)
    assert tree is not None
    sending = send(served, tree, cache=folder / "cache", max_size=10**8, leave_out=[pool.home])
    sent = asyncio.run(sending)
    pool.provision("run-1", 1)
    script = "mkdir -p dist/sub; cp large dist/sub/; echo $(cat tracked) > dist/report"
    script += "; ln -s /etc/passwd dist/link; exit 3"
    asked = {"runId": "run-1", "command": ["sh", "-c", script], "source": sent.source, "artifacts": ["dist", "no/*"]}
    job = served.ask("POST", "/v1/jobs", json=asked).json()["id"]
    pool.until(lambda: served.ask("GET", f"/v1/jobs/{job}").json()["state"] == "finished", "the job ends")
    ended = served.ask("GET", f"/v1/jobs/{job}").json()
    assert (ended["exitCode"], ended["source"]) == (3, sent.source), served.ask("GET", f"/v1/jobs/{job}/logs").text
    log = served.ask("GET", f"/v1/jobs/{job}/logs").text
    assert "dist/link is left out: a link" in log
    assert "no file matches 'no/*'" in log
    listed = served.ask("GET", f"/v1/jobs/{job}/artifacts").json()
    assert [one["path"] for one in listed["files"]] == ["dist/report", "dist/sub/large"]

    async def read(offset: int) -> bytes:
        return served.ask("GET", f"/v1/jobs/{job}/artifacts/content?offset={offset}").content

    target = folder / "out"
    assert asyncio.run(fetch_artifacts(read, target)) == ["dist/report", "dist/sub/large"]
    assert (target / "dist/report").read_text() == "1\n"
    assert (target / "dist/sub/large").read_bytes() == (root / "large").read_bytes()
    assert [one.name for one in (pool.home / "instances").glob("*/work/*")] == []


def test_an_agent_beside_the_store_keeps_artifacts_also_of_a_job_that_times_out(pool: Pool, folder: Path) -> None:
    served = Served(pool)
    del pool.settings["agent.serve-url"]
    pool.provision("run-1", 1)
    script = "echo kept > kept; mkfifo pipe; sleep 600"
    asked = {"runId": "run-1", "command": ["sh", "-c", script], "timeoutSeconds": 2, "artifacts": ["*"]}
    job = served.ask("POST", "/v1/jobs", json=asked).json()["id"]
    pool.until(lambda: served.ask("GET", f"/v1/jobs/{job}").json()["state"] == "finished", "the job ends")
    assert served.ask("GET", f"/v1/jobs/{job}").json()["result"] == "timed-out"
    assert "pipe is left out: not a regular file" in served.ask("GET", f"/v1/jobs/{job}/logs").text

    async def read(offset: int) -> bytes:
        return served.ask("GET", f"/v1/jobs/{job}/artifacts/content?offset={offset}").content

    assert asyncio.run(fetch_artifacts(read, folder / "out")) == ["kept"]


def test_serve_refuses_what_it_cannot_keep(pool: Pool) -> None:
    served = Served(pool)
    unknown = "0" * 64
    manifest = encode(Manifest((FileEntry("a", False, (0,)),), blocks=((unknown, 3),)))
    size = len(manifest)
    path = f"/v1/sources/manifests/{source_id(manifest)}?offset=0&size={size}"
    refused = served.ask("PUT", path, content=manifest)
    assert (refused.status_code, "not stored" in refused.json()["error"]) == (409, True)
    assert served.ask("PUT", f"/v1/sources/packs/{unknown}?offset=0&size=3", content=b"abc").status_code == 409
    assert served.ask("PUT", "/v1/sources/packs/x?offset=0&size=3", content=b"abc").status_code == 409
    too_large = served.ask("PUT", f"/v1/sources/packs/{unknown}?offset=0&size=9999999", content=b"x" * 600_000)
    assert too_large.status_code == 413
    assert served.ask("POST", "/v1/sources/missing", json={"blocks": ["no"]}).status_code == 400
    pool.provision("run-1", 1)
    asked = {"runId": "run-1", "command": ["true"], "source": unknown}
    assert served.ask("POST", "/v1/jobs", json=asked).status_code == 404
    stolen = httpx.get(f"{served.url}/v1/agents/{pool.live()[0]}/jobs/j-1/source?fence=1")
    assert stolen.status_code == 401


def test_a_job_has_the_variables_that_the_page_names_and_a_warm_runner_keeps_its_path(pool: Pool) -> None:
    (row,) = [line for line in (ROOT / "docs/run.md").read_text().splitlines() if line.startswith("| variables |")]
    named = {"HOME", "TMPDIR", *re.findall(r"`([A-Z_]+)`", row)}
    assert set(PASSED_ON) <= named
    found = []
    for path in ("/bin:/usr/bin:/launched", "/bin:/usr/bin:/later"):
        pool.environ |= {"PATH": path, "TOKEN": "secret"}
        ran = pool.run("run", "--count", "1", "--", "env")
        assert ran.code == 0, ran
        found.append(dict(line.split("=", 1) for line in lines_of(ran.out, "job-0")))
    assert {name for name in (*found[0], *found[1]) if name not in named} == set()
    assert {name for name in named if name.startswith("BULLPEN_")} < found[0].keys()
    assert [one["PATH"] for one in found] == ["/bin:/usr/bin:/launched"] * 2
