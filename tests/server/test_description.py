"""The description of the API, and that the server answers as described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.fixtures import a_house
from server.served import ServeProcess, a_server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Without room for machines: what is provisioned here must not run anywhere."""
    with a_server(tmp_path_factory.mktemp("described") / "home", "--set", "local.capacity=0") as served:
        yield served


async def test_every_endpoint_is_described(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", "/v1/openapi.json")
        paths = answer.json()["paths"]
        assert "/v1/agents/{instanceId}/record" in (await house.ask("GET", "/v1/openapi-agents.json")).json()["paths"]
        assert {"/v1/heartbeats", "/v1/heartbeats/batch", "/v1/jobs", "/v1/events", "/healthz"} <= set(paths)
        assert {"/v1/github/webhook", "/v1/oidc/token"} <= set(paths)
        assert set(paths["/v1/operations/{operationId}"]) == {"get", "delete"}
        assert paths["/v1/heartbeats"]["post"]["requestBody"]
        assert [path for path in paths if not path.startswith("/v1/")] == ["/healthz", "/readyz", "/metrics"]


def test_every_request_that_fits_the_description_is_answered_as_described(served: ServeProcess) -> None:
    from server.described import check_described  # here: loading it takes a second, and only this test needs it

    checked = check_described(served.url, lambda path: path != "/v1/events")  # a stream does not end
    checked += check_described(served.url, lambda path: True, "/v1/openapi-agents.json")
    assert len(checked) > 35
    assert served.ask("GET", "/readyz")[0] == 200
