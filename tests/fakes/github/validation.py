"""Every call and every answer, held against GitHub's own description."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from fakes.github import description
from fakes.github.wire import WireAnswer

Json = dict[str, Any]
ALWAYS_POSSIBLE = (304, 400, 401, 403, 404, 422, 429, 500, 502, 503)
"""What any call may be answered with; the description names them for some only."""


@dataclass(frozen=True)
class Operation:
    name: str  # method and template
    path: dict[str, str]

    @property
    def described(self) -> Json:
        found: Json = description.load()["operations"][self.name]
        return found


@functools.cache
def _templates() -> list[tuple[str, str, re.Pattern[str]]]:
    found = []
    for name in description.load()["operations"]:
        method, _, template = name.partition(" ")
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(template))
        found.append((method, name, re.compile(pattern)))
    return found


def find(method: str, path: str) -> Operation | None:
    for of_method, name, pattern in _templates():
        if of_method == method.lower() and (match := pattern.fullmatch(path)):
            return Operation(name, match.groupdict())
    return None


def wrong_request(operation: Operation, query: dict[str, str], body: Any) -> list[str]:
    wrong = []
    known = {parameter["name"]: parameter for parameter in operation.described["parameters"]}
    for name, value in (query | operation.path).items():
        if name not in known:
            wrong.append(f"there is no parameter {name}")
        else:
            schema = known[name]["schema"]
            wrong += _errors(("parameter", operation.name, name), schema, _typed(value, schema), name)
    required = [name for name, parameter in known.items() if parameter.get("required")]
    wrong += [f"{name} is missing" for name in required if name not in query | operation.path]
    schema = operation.described["body"]
    if body is not None and schema is None:
        wrong.append("it takes no body")
    elif body is not None:
        wrong += _errors(("body", operation.name), schema, body, "body")
        if isinstance(body, dict) and "properties" in schema:
            wrong += [f"body: there is no {name}" for name in body if name not in schema["properties"]]
    elif schema is not None and schema.get("required"):
        wrong.append("the body is missing")
    return wrong


def wrong_answer(operation: Operation, answer: WireAnswer) -> list[str]:
    answers = operation.described["answers"]
    status = str(answer.status)
    if status not in answers:
        return [] if answer.status in ALWAYS_POSSIBLE else [f"{status} is no answer of it"]
    schema = answers[status]
    if schema is None:
        return [] if answer.content is None or answer.status >= 400 else [f"{status} has no body"]
    return _errors(("answer", operation.name, status), schema, answer.content, f"answer {status}")


def wrong_webhook(event: str, action: str, payload: Json) -> list[str]:
    name = "-".join(part.replace("_", "-") for part in (event, action) if part)
    return _errors(("webhook", name), description.load()["webhooks"][name], payload, f"webhook {event}.{action}")


def _typed(value: str, schema: Json) -> Any:
    if schema.get("type") == "integer" and re.fullmatch(r"-?\d+", value):
        return int(value)
    if schema.get("type") == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


_validators: dict[tuple[str, ...], Any] = {}
"""Made when first needed, once in a process: there are a hundred, and a test meets a few."""


def _errors(key: tuple[str, ...], schema: Json, instance: Any, what: str) -> list[str]:
    if key not in _validators:
        _validators[key] = _validator(schema)
    found = []
    for error in _validators[key].iter_errors(instance):
        where = "/".join(str(step) for step in error.absolute_path)
        found.append(f"{what} {where}: {error.message[:300]}")
    return found


def _validator(schema: Json) -> Any:
    from openapi_schema_validator import OAS30Validator, oas30_format_checker

    # References point into the whole description: what they name is put beside the schema.
    whole = {**schema, "components": {"schemas": description.load()["schemas"]}}
    return OAS30Validator(whole, format_checker=oas30_format_checker)
