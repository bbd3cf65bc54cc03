"""`bullpen run` in a project: its files are in the working directory of every job."""

import json
import os
import shutil
from pathlib import Path

from scenario.pool import Pool
from sources.trees import PROJECT, a_project, content_of, git, write

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
