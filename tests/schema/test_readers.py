"""The action and the agent speak JSON with the standard library alone: what they read and write is in the schema.

Their source is searched for the names of fields, function by function. A field that is renamed in a struct, and not in
the function that reads or writes it, fails here; so does a function with fields that the tables do not know.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import TypeAlias

import msgspec
import pytest

from bullpen.action import http as action_http
from bullpen.action import oidc as action_oidc
from bullpen.action import result, serve_client, via_server
from bullpen.action.input_specs import INPUTS, OUTPUTS
from bullpen.agent.aws import identity
from bullpen.agent.progress import InstanceState as AgentState
from bullpen.agent.progress import SignalKind as AgentKind
from bullpen.agent.store import connection
from bullpen.agent.store import http as agent_http
from bullpen.agent.store.base import RunnerCredentials
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest, WorkerMetadata
from bullpen.model.instance import InstanceFate
from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import AWAITED, WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.worker import Code
from bullpen.schema.agent import (
    AgentRecord,
    AgentToken,
    AssignmentAnswer,
    AssignmentStanding,
    FinishedJob,
    RegistrationAnswer,
    ServedRepository,
    ServedSetAnswer,
    SignalStored,
    TakenJob,
)
from bullpen.schema.error import ErrorAnswer
from bullpen.schema.job import JobAnswer
from bullpen.schema.operation import OperationState, ProgressAnswer, ProvisionOperation, ReleaseOperation
from bullpen.schema.provision import DiscardedAnswer, MemberAnswer, ProvisionAnswer
from bullpen.schema.release import ReleaseAnswer
from bullpen.schema.requests import (
    BindJob,
    ExchangeToken,
    FinishJob,
    GiveBackJob,
    ProveInstance,
    ProvisionRun,
    RegisterRunner,
    ReportSignal,
    TakeJob,
)
from bullpen.server.routes.tokens import RunToken

Struct: TypeAlias = type[msgspec.Struct]
OPERATION: tuple[Struct, ...] = (ProvisionOperation, ReleaseOperation)
QUERY = {"worker", "epoch", "fence", "token", "runner", "seen", "wait", "offset"}
"""Parameters in the address of a request; `tests/server` sends the same."""
HEADER = re.compile("[A-Z][A-Za-z-]+")
OTHERS = {"value", "x-amz-date", "x-amz-security-token"}
"""Fields of answers that are not Bullpen's: GitHub's and AWS's."""

READERS: dict[ModuleType, dict[str, tuple[Struct, ...]]] = {
    result: {
        "of_provision": (ProvisionAnswer, MemberAnswer, DiscardedAnswer),
        "of_release": (ReleaseAnswer,),
    },
    serve_client: {
        "begin": OPERATION,
        "follow": OPERATION,
        "call_off": OPERATION,
        "report_of": (ProgressAnswer,),
        "_refusal": (ErrorAnswer,),
    },
    via_server: {
        "carried_out": OPERATION,
        "called_off": OPERATION,
        "_followed": OPERATION,
        "_stopped": OPERATION,
        "_released": OPERATION,
        "_read": OPERATION,
        "_request": (ProvisionRun,),
    },
    action_http: {"_declined": (ErrorAnswer,)},
    action_oidc: {"run_token": (ExchangeToken, RunToken, ErrorAnswer), "job_token": ()},
    agent_http: {
        "read_record": (AgentRecord,),
        "_watch": (AgentRecord,),
        "beat": (ErrorAnswer,),
        "_beat": (HeartbeatRequest, WorkerMetadata, Binding),
        "_granted": (HeartbeatAnswer,),
        "stop": (),
        "standing": (AssignmentAnswer,),
        "report": (ReportSignal, SignalStored, AgentRecord),
        "register": (RegisterRunner, RegistrationAnswer),
        "_served_set": (ServedRepository, ServedSetAnswer),
        "deregister": (ErrorAnswer,),
        "take_job": (TakeJob, TakenJob, JobAnswer),
        "settle_job": (FinishJob, FinishedJob),
        "give_back_job": (GiveBackJob,),
        "_held": (BindJob,),
        "_call": (ErrorAnswer,),
    },
    connection: {"call": (ErrorAnswer,), "flush": ()},
    identity: {"proof_of": (ProveInstance,), "_fetched": (AgentToken,)},
}
ALL = [(module, name) for module, functions in READERS.items() for name in functions]


def functions_of(module: ModuleType) -> dict[str, set[str]]:
    """The names of fields in each function that has any."""
    tree = ast.parse(inspect.getsource(module))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name: found for node in functions if (found := set(fields_in(node)))}


def fields_in(function: ast.FunctionDef) -> Iterator[str]:
    """`answer["name"]`, `answer.get("name")` and `{"name": …}`. Inputs of the action and headers are no fields."""
    for node in ast.walk(function):
        named: list[ast.expr | None] = []
        match node:
            case ast.Subscript(slice=key):
                named = [key]
            case ast.Call(func=ast.Attribute(attr="get", value=subject), args=[key, *_]):
                named = [key] if ast.unparse(subject) not in ("asked", "exc.headers") else []
            case ast.Dict(keys=keys):
                named = keys
        constants = [key.value for key in named if isinstance(key, ast.Constant)]
        yield from (name for name in constants if isinstance(name, str) and not HEADER.fullmatch(name))


def names_of(*structs: Struct) -> set[str]:
    """As they stand in JSON."""
    found = {field.encode_name for struct in structs for field in msgspec.structs.fields(struct)}
    return found | {struct.__struct_config__.tag_field or "" for struct in structs}


@pytest.mark.parametrize("module", READERS, ids=lambda module: module.__name__.removeprefix("bullpen."))
def test_the_tables_name_every_function_that_reads_or_writes_fields(module: ModuleType) -> None:
    assert set(functions_of(module)) == set(READERS[module])


@pytest.mark.parametrize(("module", "name"), ALL, ids=lambda part: getattr(part, "__name__", part))
def test_every_field_that_the_action_or_the_agent_uses_is_in_the_schema(module: ModuleType, name: str) -> None:
    words = {one.value for one in AssignmentStanding} if name == "standing" else set()
    known = names_of(*READERS[module][name]) | OTHERS | words
    known |= QUERY if module is agent_http or name == "flush" else set()
    assert functions_of(module)[name] - known == set()


def test_a_field_that_is_renamed_in_the_schema_is_noticed() -> None:
    known = names_of(ProvisionAnswer, MemberAnswer, DiscardedAnswer)
    renamed = known - {"durationSeconds"} | {"seconds"}
    assert functions_of(result)["of_provision"] - renamed == {"durationSeconds"}


def test_the_action_s_inputs_are_fields_of_a_request() -> None:
    assert set(via_server.REQUEST.values()) <= names_of(ProvisionRun)
    assert set(via_server.REQUEST) <= set(INPUTS)
    assert {"selected", "created"} <= names_of(ProvisionAnswer) & set(OUTPUTS)


def test_the_action_knows_the_values_of_the_schema_s_enums() -> None:
    assert {result.SELECTED, result.CREATED} == {one.value for one in Origin}
    assert set(result.SETTLED) <= {one.value for one in InstanceFate}
    states = {serve_client.RUNNING, serve_client.SUCCEEDED, serve_client.LOST}
    assert states | {OperationState.FAILED.value, OperationState.CANCELLED.value} == {
        one.value for one in OperationState
    }
    former = {name: phase for name, phase in result.PHASES.items() if name != phase.value}
    assert set(result.PHASES) - set(former) == {one.value for one in WorkPhase}
    assert set(former.values()) == set(AWAITED)


def test_the_agent_knows_the_values_of_the_schema_s_enums() -> None:
    assert {one.value for one in AgentState} == {one.value for one in InstanceState} - {InstanceState.ABSENT.value}
    assert {one.value for one in AgentKind} == {one.value for one in SignalKind}
    source = inspect.getsource(agent_http)
    codes = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.MatchValue)]
    assert {ast.literal_eval(code) for code in codes} == {one.value for one in Code}
    assert all(f'"{one.value}"' in source for one in AssignmentStanding if one.value)


def test_the_agent_s_registration_has_the_fields_of_the_answer() -> None:
    assert {field.name for field in dataclasses.fields(RunnerCredentials)} <= names_of(RegistrationAnswer)
