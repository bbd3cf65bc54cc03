"""The files that a job left, as clients list them."""

from pathlib import Path

from bullpen.host.packs import bundle_head
from bullpen.model.manifest import LARGEST, FileEntry, Manifest, encode
from server.fixtures import House, a_house


async def a_job_that_left(house: House, bundle: bytes) -> str:
    await house.ask("POST", "/v1/runs/r/provision", json={"count": 1})
    job = (await house.ask("POST", "/v1/jobs", json={"runId": "r", "command": ["true"]})).json()["id"]
    await house.ports.artifacts.append(job, 0, 0, len(bundle), bundle)
    return str(job)


async def test_a_name_that_is_not_utf_8_is_listed(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        job = await a_job_that_left(house, bundle_head(encode(Manifest((FileEntry("a\udcff", False, ()),)))))
        answer = await house.ask("GET", f"/v1/jobs/{job}/artifacts")
        assert answer.status_code == 200, answer.text
        assert [one["path"] for one in answer.json()["files"]] == ["a\\xff"]


async def test_a_damaged_or_endless_list_is_refused(tmp_path: Path) -> None:
    endless = bundle_head(b"[" + b"0," * (LARGEST // 4))
    async with a_house(tmp_path) as house:
        for bundle in (b"no bundle", b"no bundle at all", bundle_head(b"{}"), bundle_head(b"{} ")[:-1], endless):
            job = await a_job_that_left(house, bundle)
            answer = await house.ask("GET", f"/v1/jobs/{job}/artifacts")
            assert (answer.status_code, answer.json()["code"]) == (409, "conflict"), answer.text
            assert "are damaged" in answer.json()["error"]
