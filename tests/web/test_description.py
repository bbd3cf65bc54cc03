"""The description of the API, and that the service does as it says, whatever is sent."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from web.house import a_house
from web.served import Served, a_server

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its own imports are warned of
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

EXAMPLES = 12  # of each operation: the same every time

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without room for machines: what is provisioned here must not run anywhere."""
    with a_server(tmp_path_factory.mktemp("described") / "home", "--set", "local.capacity=0") as served:
        yield served


async def test_every_endpoint_is_described(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        answer = await house.ask("GET", "/v1/openapi.json")
        paths = answer.json()["paths"]
        assert {"/v1/heartbeats", "/v1/heartbeats/batch", "/v1/jobs", "/v1/events", "/healthz"} <= set(paths)
        assert paths["/v1/heartbeats"]["post"]["requestBody"]
        assert [path for path in paths if not path.startswith(("/v1/", "/healthz", "/readyz"))] == []


def test_whatever_fits_the_description_is_answered_as_described(served: Served) -> None:
    schema = schemathesis.openapi.from_url(f"{served.url}/v1/openapi.json")
    checked = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path == "/v1/events":
            continue  # a stream does not end

        @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def holds(case: schemathesis.Case[Any]) -> None:
            checks = [not_a_server_error, content_type_conformance, response_schema_conformance]
            case.validate_response(case.call(timeout=30), checks=checks)

        holds()
        checked.append(operation.label)
    assert len(checked) > 20
    assert served.ask("GET", "/readyz")[0] == 200
