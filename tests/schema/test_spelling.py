"""One spelling: what a field is called, and that each struct has a name of its own."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, get_args, get_origin

import msgspec
import pytest

import bullpen
import bullpen.schema
from bullpen.action.input_specs import INPUTS
from bullpen.agent.aws import boot
from bullpen.config import Engines, Limits, ResourceClass, ScaleSetSettings, Settings
from bullpen.model import limits
from bullpen.schema.base import AnswerBody, RequestBody
from bullpen.schema.requests import ProvisionRun

SOURCES = Path(bullpen.__file__).parent


def structs() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.iter_modules(bullpen.schema.__path__, "bullpen.schema."):
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == module.name:
                yield one


ANSWERS = [one for one in structs() if not issubclass(one, RequestBody)]


@pytest.mark.parametrize("struct", list(structs()), ids=lambda one: one.__name__)
def test_fields_are_camel_case(struct: type[msgspec.Struct]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(struct)]
    assert [name for name in names if re.fullmatch(r"[a-z]+([A-Z][a-z]*)*(P[0-9]{2})?|p[0-9]{2}", name) is None] == []


@pytest.mark.parametrize("struct", ANSWERS, ids=lambda one: one.__name__)
def test_a_thing_s_own_id_is_id_and_a_reference_names_the_thing(struct: type[msgspec.Struct]) -> None:
    own = struct.__name__.removesuffix("Answer").lower()
    names = {field.encode_name for field in msgspec.structs.fields(struct)}
    if "id" in names:
        assert f"{own}Id" not in names
    assert "beatAt" not in names  # a heartbeat is heartbeatAt, of an instance and of a worker


@pytest.mark.parametrize("struct", ANSWERS, ids=lambda one: one.__name__)
def test_states_and_kinds_are_enums(struct: type[msgspec.Struct]) -> None:
    of_any_kind = {"StoryLineAnswer", "StoryAnswer", "AgentRecord", "ErrorAnswer"}  # of any record
    for field in msgspec.structs.fields(struct):
        if field.name in ("state", "kind", "origin", "outcome", "phase") and struct.__name__ not in of_any_kind:
            kind = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
            assert isinstance(kind, type), (struct, field.name)
            assert issubclass(kind, StrEnum), (struct, field.name)


def test_every_answer_is_frozen_but_an_operation_that_goes_on() -> None:
    loose = {one.__name__ for one in ANSWERS if not one.__struct_config__.frozen}
    assert loose == {"_Operation", "ProvisionOperation", "ReleaseOperation"}
    assert all(issubclass(one, AnswerBody) for one in ANSWERS if one.__name__ not in {*loose, "ErrorAnswer"})


def test_settings_http_and_action_have_the_same_bounds() -> None:
    described = {field.name: msgspec.inspect.type_info(field.type) for field in msgspec.structs.fields(ProvisionRun)}
    asked = {name: getattr(one, "type", one) for name, one in described.items()}
    most = msgspec.inspect.type_info(msgspec.structs.fields(Limits)[1].type)
    assert getattr(asked["count"], "le", None) == getattr(most, "le", None) == limits.COUNT
    cpu, mem, *_ = (msgspec.inspect.type_info(field.type) for field in msgspec.structs.fields(ResourceClass))
    assert (getattr(cpu, "le", None), getattr(mem, "le", None)) == (limits.CPU, limits.MEM)
    assert (getattr(asked["cpu"], "le", None), getattr(asked["mem"], "le", None)) == (limits.CPU, limits.MEM)
    assert INPUTS["instance-count"].type.allowed == f"a whole number from 1 to {limits.COUNT}"
    assert INPUTS["max-runtime-min"].type.allowed == f"a whole number from 1 to {limits.RUNTIME_MINUTES} minutes"
    assert boot.TEXT_LIMIT == limits.REASON_LENGTH  # user data has no room for the module of limits
    assert Settings(engines=Engines(ci="github")).remembers == limits.JOB_TIMEOUT[1]
    assert 60 * ScaleSetSettings(events="any").max_runtime_min == limits.WAIT_SECONDS  # what GitHub gives a job


def test_a_limit_is_written_down_once() -> None:
    """What `limits` names is not repeated as a number or a text elsewhere; boot.py has a copy, which is compared."""
    repeated = re.compile(
        r"\b2 ?\*\* ?53\b|\b(5|6) \* (86400|3600)|\"(set|session|repository):\"|\b1,000 beats|= 900\b(?!\.)"
    )
    sources = [one for one in SOURCES.rglob("*.py") if one.name != "limits.py"]
    found = [(one.name, match[0]) for one in sources for match in repeated.finditer(one.read_text())]
    assert found == []
