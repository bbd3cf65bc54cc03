"""The schemas of the document: what msgspec says of the structs, in the terms that generators of clients understand.

Python's `\\Z` is the end of a text, and so is `$` in the regular expressions of JSON Schema. An answer has all of its
fields, whatever their defaults. The state `absent` belongs to records that are not stored, which no answer shows.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bullpen.model.control import State as ControlState
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import Result as JobResult
from bullpen.model.job import State as JobState
from bullpen.model.scale_set import State as ScaleSetState
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.worker import State as WorkerState

PREFIX = "#/components/schemas/"
NAMES = {
    ControlState: "ControlState",
    InstanceState: "InstanceState",
    JobResult: "JobResult",
    JobState: "JobState",
    ScaleSetState: "ScaleSetState",
    SignalKind: "SignalKind",
    WorkerState: "WorkerState",
}
"""Enums that are called alike in the model."""


def schemas_of(types: Iterable[Any], requests: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The schema of each type, and of everything that they name. `requests` are those of them that clients send."""
    found, components = msgspec.json.schema_components(types, ref_template=f"{PREFIX}{{name}}")
    sent = {one.__name__ for one in requests} | {"WorkerMetadata", "Binding"}
    renamed = {old: _name(old) for old in components}
    schemas = {renamed[name]: _schema(one, renamed, sent, name) for name, one in components.items()}
    return [_schema(one, renamed, sent) for one in found], dict(sorted(schemas.items()))


def _name(found: str) -> str:
    """What msgspec calls a class whose name is not unique by its module, by the name that it has here."""
    for kind, name in NAMES.items():
        if found in (f"{kind.__module__}.{kind.__name__}", kind.__name__):
            return name
    return found


def _schema(found: Any, renamed: Mapping[str, str], sent: set[str], name: str = "") -> Any:
    if isinstance(found, list):
        return [_schema(one, renamed, sent) for one in found]
    if not isinstance(found, dict):
        return found
    schema = {key: _schema(one, renamed, sent) for key, one in found.items()}
    if isinstance(ref := found.get("$ref"), str):
        schema["$ref"] = PREFIX + renamed[ref.removeprefix(PREFIX)]
    if isinstance(text := found.get("description"), str):
        schema["description"] = " ".join(text.split())
    if isinstance(pattern := found.get("pattern"), str):
        schema["pattern"] = pattern.replace(r"\Z", "$")
    if isinstance(values := found.get("enum"), list):
        schema = {"type": "string", **schema, "enum": [one for one in values if one != "absent"]}
    if "discriminator" in found:
        schema = {"type": "object", "oneOf": schema.pop("anyOf"), **schema}
    if name:
        schema["title"] = renamed[name]
    if name and "properties" in found and name not in sent:
        _complete(schema, name)
    return schema


def _complete(schema: dict[str, Any], name: str) -> None:
    """An answer has every field, except that an error and a beat's result leave out what does not apply."""
    for one in schema["properties"].values():
        one.pop("default", None)
    if name not in ("ErrorAnswer", "BeatResult", "RegistrationAnswer"):
        schema["required"] = list(schema["properties"])
    if "kind" in schema["properties"]:
        schema["properties"]["kind"].setdefault("description", "Kind of the operation.")
