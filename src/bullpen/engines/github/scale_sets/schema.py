"""The objects that the service of scale sets sends, as far as Bullpen uses them. Pure.

Every field may be null or missing, as in GitHub's own client, unless the object means nothing without it.
"""

from typing import Annotated, Any, TypeVar

import msgspec

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

T = TypeVar("T")
Id = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # what every store can hold


class WireStruct(msgspec.Struct, rename="camel", frozen=True):
    """An object of the service; other fields than those named are ignored."""


class WireStatistics(WireStruct, frozen=True):
    total_assigned_jobs: int  # these two decide: without them it says nothing
    total_running_jobs: int
    total_available_jobs: int | None = None
    total_acquired_jobs: int | None = None
    total_registered_runners: int | None = None
    total_busy_runners: int | None = None
    total_idle_runners: int | None = None


class WireLabel(WireStruct, frozen=True):
    name: str | None = None


class WireRunnerSetting(WireStruct, frozen=True):
    disable_update: bool | None = None


class WireScaleSet(WireStruct, frozen=True):
    id: Id
    name: str
    runner_group_id: Id | None = None
    labels: list[WireLabel] | None = None
    setting: WireRunnerSetting | None = msgspec.field(name="RunnerSetting", default=None)
    statistics: msgspec.Raw = msgspec.Raw(b"null")


class WireSession(WireStruct, frozen=True):
    session_id: str
    message_queue_url: str | None = None
    message_queue_access_token: str | None = None
    statistics: msgspec.Raw = msgspec.Raw(b"null")


class WireMessage(WireStruct, frozen=True):
    message_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    message_type: msgspec.Raw = msgspec.Raw(b"null")
    body: msgspec.Raw = msgspec.Raw(b"null")
    statistics: msgspec.Raw = msgspec.Raw(b"null")


class WireType(WireStruct, frozen=True):
    message_type: str


class WireJob(WireStruct, frozen=True):
    runner_request_id: Id | None = None
    job_id: str | None = None
    owner_name: str | None = None
    repository_name: str | None = None
    workflow_run_id: Id | None = None
    job_workflow_ref: str | None = None
    event_name: str | None = None
    job_display_name: str | None = None
    request_labels: list[str] | None = None
    runner_id: Id | None = None
    runner_name: str | None = None
    result: str | None = None
    queue_time: Any = None
    scale_set_assign_time: Any = None
    runner_assign_time: Any = None
    finish_time: Any = None


class WireRunner(WireStruct, frozen=True):
    id: Id
    name: str
    runner_scale_set_id: Id | None = None


class WireConfiguration(WireStruct, frozen=True):
    runner: WireRunner
    encoded: str = msgspec.field(name="encodedJITConfig")


class WireGroup(WireStruct, frozen=True):
    id: Id
    name: str


class WireProblem(WireStruct, frozen=True):
    type_name: Any = None
    message: Any = None


def read(content: bytes | msgspec.Raw, kind: Any) -> Any:
    """Raise ValueError, which quotes nothing: what cannot be read may hold a secret."""
    data = bytes(content).removeprefix(BYTE_ORDER_MARK)
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise ValueError("a field is missing, or of another type") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise ValueError("not JSON") from None


def read_list(content: bytes, kind: type[T]) -> list[T]:
    """The objects of a list: `{"count": n, "value": […]}`."""
    found = read(content, dict[str, msgspec.Raw])
    if "value" not in found:
        raise ValueError("no list")
    return read(found["value"], list[kind] | None) or []  # type: ignore[valid-type]
