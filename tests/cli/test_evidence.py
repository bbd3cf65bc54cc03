"""`bullpen evidence` with real processes: on a home and through a server, and the file that it writes."""

import asyncio
import errno
import json
import os
import stat
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from bullpen.auth.tokens import Scope
from bullpen.cli.local_pool import LocalPool
from bullpen.config import Settings
from bullpen.wiring import opened
from command_line import CommandLine
from made_tokens import agents_secret, make_token
from server.served import a_server

PLANTED = {
    "github": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "settings": "plain-webhook-secret-value",
    "environment": "plain-value-of-the-environment",
}


@pytest.fixture
def ran(bullpen: CommandLine) -> Iterator[CommandLine]:
    """A run whose job has printed secrets."""
    assert bullpen("provision", "--run-id", "4711", "--count", "1").code == 0
    script = "; ".join(f"echo printed {value}" for value in PLANTED.values())
    assert bullpen("job", "submit", "--run-id", "4711", "--name", "unit", "--", "sh", "-c", script).code == 0
    give_up = time.monotonic() + 240
    while bullpen("job", "list", "--run-id", "4711", "--json").answer["jobs"][0]["state"] != "finished":
        assert time.monotonic() < give_up
        time.sleep(0.2)
    yield bullpen
    bullpen("down")


def manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(archive.read("manifest.json"))
    return found


@pytest.mark.slow
def test_evidence_of_a_run_has_records_logs_settings_and_no_secret(
    ran: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", PLANTED["environment"])
    token = make_token(ran.folder / ".bullpen")
    shown = ran("evidence", "4711", "--set", f"github.webhook-secret={PLANTED['settings']}")
    assert shown.code == 0
    assert shown.out.startswith("evidence-4711.zip: ")
    with zipfile.ZipFile(ran.folder / "evidence-4711.zip") as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        whole = b"\n".join(archive.read(name) for name in names)
        listed = manifest(archive)
    assert names[0] == "manifest.json"
    for part in ("records/p-", "records/i-", "records/j-", "workers/i-", "instances/i-", "jobs/j-"):
        assert any(name.startswith(part) for name in names), part
    assert any(name.endswith("/agent.log") for name in names)
    assert b"booted" in whole
    assert b"printed " in whole
    assert listed["missing"] == []
    for what, value in {**PLANTED, "token": token}.items():
        assert value.encode() not in whole, what


@pytest.mark.slow
def test_a_server_gives_the_same_evidence_to_an_operator_and_to_no_reader(
    ran: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ran.folder / ".bullpen"
    assert ran("evidence", "4711", "--out", "local.zip").code == 0
    reader, operator = make_token(home, Scope.READ), make_token(home, Scope.OPERATE)
    with a_server(home) as served:
        monkeypatch.setenv("BULLPEN_TOKEN", reader)
        refused = ran("evidence", "4711", "--server", served.url, "--out", "remote.zip")
        assert refused.code != 0
        assert "operate" in refused.err
        assert not (ran.folder / "remote.zip").exists()
        monkeypatch.setenv("BULLPEN_TOKEN", operator)
        assert ran("evidence", "nothing", "--server", served.url).code == 1
        assert (
            ran("evidence", "4711", "--server", served.url, "--out", "remote.zip", "--json").answer["subject"] == "4711"
        )
    with zipfile.ZipFile(ran.folder / "local.zip") as one, zipfile.ZipFile(ran.folder / "remote.zip") as other:
        assert sorted(one.namelist()) == sorted(other.namelist())
        whole = b"".join(other.read(name) for name in other.namelist())
    secret = agents_secret(home)
    for value in (PLANTED["github"].encode(), operator.encode(), reader.encode(), secret, secret.hex().encode()):
        assert value not in whole
    assert [name for name in os.listdir(ran.folder) if name.startswith(".bullpen-evidence")] == []


# ---- the file


@pytest.fixture
def run(bullpen: CommandLine) -> CommandLine:
    """A run without runners, which is quick to make."""

    async def make() -> None:
        from builders import open_provision

        async with opened(bullpen.folder / ".bullpen", Settings()) as ports:
            await ports.records.apply(open_provision(run_id="4711"))

    asyncio.run(make())
    return bullpen


def test_the_file_is_for_its_owner_alone(run: CommandLine) -> None:
    assert run("evidence", "4711", "--out", "a.zip").code == 0
    assert stat.S_IMODE((run.folder / "a.zip").stat().st_mode) == 0o600


def test_a_file_that_exists_is_replaced_only_with_force(run: CommandLine) -> None:
    (run.folder / "a.zip").write_text("mine")
    refused = run("evidence", "4711", "--out", "a.zip")
    assert refused.code == 2
    assert "--out 'a.zip': exists already" in refused.err
    assert (run.folder / "a.zip").read_text() == "mine"
    assert run("evidence", "4711", "--out", "a.zip", "--force").code == 0
    assert zipfile.is_zipfile(run.folder / "a.zip")


def test_a_link_that_leads_nowhere_is_not_written_through(run: CommandLine) -> None:
    (run.folder / "a.zip").symlink_to(run.folder / "elsewhere")
    assert run("evidence", "4711", "--out", "a.zip").code == 2
    assert run("evidence", "4711", "--out", "a.zip", "--force").code == 0
    assert not (run.folder / "elsewhere").exists()
    assert not (run.folder / "a.zip").is_symlink()


def test_a_file_that_appears_meanwhile_is_not_replaced(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalPool.evidence

    async def slow(self: LocalPool, id: str) -> AsyncIterator[bytes]:
        async for piece in real(self, id):
            yield piece
        (run.folder / "a.zip").write_text("mine")

    monkeypatch.setattr(LocalPool, "evidence", slow)
    refused = run("evidence", "4711", "--out", "a.zip")
    assert refused.code == 2
    assert "exists already" in refused.err
    assert (run.folder / "a.zip").read_text() == "mine"
    assert sorted(os.listdir(run.folder)) == [".bullpen", "a.zip"]


def test_a_file_system_without_links_takes_the_file_and_replaces_none(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", no_links)
    assert run("evidence", "4711", "--out", "a.zip").code == 0
    assert sorted(os.listdir(run.folder)) == [".bullpen", "a.zip"]
    assert "exists already" in run("evidence", "4711", "--out", "a.zip").err


def damaged(content: bytes) -> bytes:
    at = content.index(b"manifest.json") + 40
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: b"", id="nothing"),
        pytest.param(lambda content: content[:2], id="its first bytes"),
        pytest.param(lambda content: content[:-30], id="all but its end"),
        pytest.param(lambda content: b"not a zip at all", id="something else"),
        pytest.param(damaged, id="a damaged file in it"),
    ],
)
def test_an_archive_that_did_not_arrive_whole_leaves_no_file(
    run: CommandLine, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    real = LocalPool.evidence

    async def cut(self: LocalPool, id: str) -> AsyncIterator[bytes]:
        yield change(b"".join([piece async for piece in real(self, id)]))

    monkeypatch.setattr(LocalPool, "evidence", cut)
    refused = run("evidence", "4711")
    assert refused.code == 75
    assert "did not arrive whole" in refused.err
    assert os.listdir(run.folder) == [".bullpen"]


@pytest.mark.parametrize(
    ("out", "part"),
    [
        ("", "--out '': must name a file"),
        (".", "--out '.': is a directory"),
        ("no/such/a.zip", "its directory does not exist"),
        ("x" * 300, "cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(run: CommandLine, out: str, part: str) -> None:
    refused = run("evidence", "4711", "--out", out)
    assert refused.code == 2
    assert part in refused.err
    assert os.listdir(run.folder) == [".bullpen"]


def test_an_unknown_record_leaves_no_file(run: CommandLine) -> None:
    refused = run("evidence", "i-0000000000000000")
    assert refused.code == 1
    assert "no such instance" in refused.err
    assert os.listdir(run.folder) == [".bullpen"]


def test_the_name_of_the_file_follows_from_the_id_and_stays_here(bullpen: CommandLine) -> None:
    async def make() -> None:
        from builders import open_provision

        async with opened(bullpen.folder / ".bullpen", Settings()) as ports:
            await ports.records.apply(open_provision(run_id="../../a/b"))

    asyncio.run(make())
    assert bullpen("evidence", "../../a/b").code == 0
    assert sorted(os.listdir(bullpen.folder)) == [".bullpen", "evidence-__.._a_b.zip"]
