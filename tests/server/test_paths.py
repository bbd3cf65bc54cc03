"""Ids with slashes and percent signs arrive as they were sent."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from bullpen.client.base import part
from bullpen.errors import ConfigError
from bullpen.model import limits
from bullpen.schema.operation import OperationKind
from server.fixtures import a_house
from server.wired import Wire, request

IDS = ["feature/x", "a//b", "/x", "x/", "a/../b", "50%", "a%2Fb", "ü/ö", "x?y#z", "a/provision", "a/release", "%"]


@pytest.mark.parametrize("id", IDS)
async def test_a_run_is_served_whatever_its_id_has(tmp_path: Path, id: str) -> None:
    async with a_house(tmp_path) as house:
        assert limits.is_run_id(id)
        begun = await house.ask("POST", f"/v1/runs/{part(id)}/release")
        assert (begun.status_code, begun.json()["runId"]) == (202, id)
        shown = await house.ask("GET", f"/v1/runs/{part(id)}")
        assert (shown.status_code, shown.json()["runId"]) == (200, id)
        assert [one.run_id for one in house.context.operations.page(10, "", lambda one: True).operations] == [id]
        assert OperationKind.RELEASE in begun.json()["kind"]
        unknown = await house.ask("GET", f"/v1/stories/{part(id)}")
        assert (unknown.status_code, id in unknown.json()["error"]) == (404, True)


@pytest.mark.parametrize("id", IDS)
async def test_a_connection_reads_paths_as_the_application_does(tmp_path: Path, id: str) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request(f"/v1/runs/{part(id)}/release", b""))
        await wire.turns(50)
        assert json.loads(bytes(wire.received).partition(b"\r\n\r\n")[2])["runId"] == id


@pytest.mark.parametrize("spelled", [part, quote])
async def test_a_worker_is_found_by_its_key_with_its_slash_spelled_either_way(tmp_path: Path, spelled: object) -> None:
    async with a_house(tmp_path) as house:
        key = "i-0/50%/x"
        assert (await house.beat(key)).status_code == 200
        assert callable(spelled)
        found = await house.ask("GET", f"/v1/workers/{spelled(key)}")
        assert (found.status_code, found.json()["key"]) == (200, key)
        stopped = await house.ask("DELETE", f"/v1/workers/{spelled(key)}?token=1&epoch=1")
        assert (stopped.status_code, stopped.json()["key"]) == (200, key)


@pytest.mark.parametrize("id", [".", ".."])
async def test_a_run_id_that_clients_take_out_of_paths_is_refused_by_name(tmp_path: Path, id: str) -> None:
    async with a_house(tmp_path) as house:
        for path, body in (
            (f"/v1/runs/{id.replace('.', '%2E')}/release", None),
            ("/v1/jobs", {"runId": id, "command": ["a"]}),
        ):
            answer = await house.ask("POST", path, json=body)
            assert (answer.status_code, answer.json()["field"]) == (400, "runId")
            assert "must not be . or .., and must not begin" in answer.json()["error"]


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_the_client_refuses_an_id_that_would_change_the_path(id: str) -> None:
    with pytest.raises(ConfigError, match="is not an id"):
        part(id)


@pytest.mark.parametrize("path", ["/v1/operations/{}", "/v1/jobs/{}", "/v1/jobs/{}/logs", "/v1/instances/{}"])
async def test_an_id_that_has_no_slashes_gets_none(tmp_path: Path, path: str) -> None:
    """Operations are files: an id must not lead to another one."""
    (tmp_path / "secret.json").write_text("{}")
    async with a_house(tmp_path) as house:
        for id in ("../secret", "../../secret", "%2e%2e%2fsecret"):
            answer = await house.ask("GET", path.format(quote(id, safe="%")).replace("/secret", "%2Fsecret"))
            assert (answer.status_code, answer.json()["code"]) == (404, "not-found"), answer.text


async def test_an_endpoint_is_admitted_as_the_one_that_serves_it(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        for path in ("/v1%2Fopenapi.json", "/%76%31/status", "/v1/jobs%2F", "/v1/runs/x%2F..%2F..%2Foidc%2Ftoken"):
            assert (await house.ask("GET", path)).status_code == 401
        assert (await house.ask("GET", "/v1/open%61pi.json")).status_code == 200
