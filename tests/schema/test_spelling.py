"""One spelling: what a field is called, and that each struct has a name of its own."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, get_args, get_origin

import msgspec
import pytest

import bullpen.schema
from bullpen.action.input_specs import INPUTS
from bullpen.config import Limits, ResourceClass
from bullpen.model import limits
from bullpen.schema.base import AnswerBody, RequestBody
from bullpen.schema.requests import ProvisionRun


def structs() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.iter_modules(bullpen.schema.__path__, "bullpen.schema."):
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == module.name:
                yield one


ANSWERS = [one for one in structs() if not issubclass(one, RequestBody)]


@pytest.mark.parametrize("struct", list(structs()), ids=lambda one: one.__name__)
def test_fields_are_camel_case(struct: type[msgspec.Struct]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(struct)]
    assert [name for name in names if re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name) is None] == []


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
