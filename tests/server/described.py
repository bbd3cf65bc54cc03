"""Whether a running server answers every request that fits its description as described."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its own imports are warned of
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.core.result import Ok
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

EXAMPLES = 12  # of each operation: the same every time


def check_described(url: str, wanted: Callable[[str], bool], document: str = "/v1/openapi.json") -> list[str]:
    """Send requests to every operation with a wanted path; return these operations."""
    schema = schemathesis.openapi.from_url(f"{url}{document}")
    checked = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if not wanted(operation.path):
            continue

        @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def holds(case: schemathesis.Case[Any]) -> None:
            checks = [
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ]
            case.validate_response(case.call(timeout=120), checks=checks)

        holds()
        checked.append(operation.label)
    return checked
