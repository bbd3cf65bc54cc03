"""What the service of scale sets answers, as values of the port. Pure.

An answer that lacks what its caller needs raises ValueError. A message does not, for it would come again: whatever of
it can be read is used, and an entry that cannot is `UNKNOWN`.
"""

import base64
import binascii
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from bullpen.engines.github.answers import cut
from bullpen.engines.github.scale_sets.schema import (
    WireConfiguration,
    WireGroup,
    WireJob,
    WireMessage,
    WireProblem,
    WireRunner,
    WireScaleSet,
    WireSession,
    WireStatistics,
    WireType,
    read,
    read_list,
)
from bullpen.errors import UnreadableMessage
from bullpen.ports import (
    JitConfiguration,
    JobMessage,
    JobMessageKind,
    MessageSession,
    RegisteredSet,
    SetMessage,
    SetRunner,
    SetStatistics,
)

KINDS = {
    "JobAvailable": JobMessageKind.AVAILABLE,
    "JobAssigned": JobMessageKind.ASSIGNED,
    "JobStarted": JobMessageKind.STARTED,
    "JobCompleted": JobMessageKind.COMPLETED,
}
MESSAGES = "RunnerScaleSetJobMessages"
LONGEST_LIFE = 7 * 86400.0  # seconds of a token
MOST = 1_000_000  # jobs or runners of a set: more than GitHub allows
LONGEST_TYPE = 80  # characters of the CI's word for what is unknown
UNKNOWN = JobMessage(JobMessageKind.UNKNOWN)


def message(content: bytes) -> SetMessage:
    """A message. Raise UnreadableMessage if it does not show its id."""
    try:
        envelope = read(content, WireMessage)
    except ValueError as exc:
        raise UnreadableMessage(f"a message of the scale set cannot be read: {exc}") from None
    counts = statistics(envelope.statistics)
    try:
        kind = read(envelope.message_type, str | None)
        if kind not in (None, MESSAGES):
            return SetMessage(envelope.message_id, counts, trouble=f"its type is {_shown(kind)}")
        entries = read((read(envelope.body, str | None) or "null").encode(), list[msgspec.Raw] | None)
    except ValueError as exc:
        return SetMessage(envelope.message_id, counts, trouble=f"its body cannot be read: {exc}")
    return SetMessage(envelope.message_id, counts, tuple(_job(one) for one in entries or ()))


def statistics(raw: msgspec.Raw) -> SetStatistics | None:
    """None if there are none, or none that can be read."""
    try:
        found = read(raw, WireStatistics | None)
    except ValueError:
        return None
    if found is None:
        return None
    return SetStatistics(
        assigned=_count(found.total_assigned_jobs),
        running=_count(found.total_running_jobs),
        available=_count(found.total_available_jobs),
        acquired=_count(found.total_acquired_jobs),
        registered=_count(found.total_registered_runners),
        busy=_count(found.total_busy_runners),
        idle=_count(found.total_idle_runners),
    )


def scale_set(content: bytes) -> RegisteredSet:
    return _scale_set(read(content, WireScaleSet))


def scale_sets(content: bytes) -> list[RegisteredSet]:
    return [_scale_set(one) for one in read_list(content, WireScaleSet)]


def session(content: bytes, set_id: int) -> MessageSession:
    """`queue` and `token` are empty where the service left them out."""
    found = read(content, WireSession)
    if not found.session_id:
        raise ValueError("the session has no id")
    queue, token = found.message_queue_url or "", found.message_queue_access_token or ""
    if token and not is_visible(token):
        raise ValueError("the session's token cannot be sent in a header")
    return MessageSession(found.session_id, set_id, statistics(found.statistics), queue, token)


def runner(content: bytes) -> SetRunner:
    return _runner(read(content, WireRunner))


def runners(content: bytes) -> list[SetRunner]:
    return [_runner(one) for one in read_list(content, WireRunner)]


def configuration(content: bytes) -> JitConfiguration:
    found = read(content, WireConfiguration)
    if not found.encoded:
        raise ValueError("the configuration is empty")
    return JitConfiguration(_runner(found.runner), found.encoded)


def groups(content: bytes) -> dict[str, int]:
    """The ids of runner groups, by name."""
    return {one.name: one.id for one in read_list(content, WireGroup)}


def acquired(content: bytes) -> list[int]:
    return read_list(content, int)


def problem(content: bytes) -> tuple[str, str]:
    """Type and text of an error; empty where there is none."""
    try:
        found = read(content, WireProblem)
    except ValueError:
        return "", ""
    texts = [one if isinstance(one, str) else "" for one in (found.type_name, found.message)]
    return texts[0], texts[1]


def said(content: bytes) -> str:
    """An error in the service's own words, on one line."""
    kind, text = problem(content)
    return cut(": ".join(one for one in (kind.rpartition(".")[2], text) if one)) or "no message"


def is_visible(text: str) -> bool:
    """Whether it is not empty, and a header can have it: neither spaces nor line ends, and ASCII only."""
    return bool(text) and all("!" <= character <= "~" for character in text)


def lifetime(token: str, now: datetime) -> float | None:
    """Seconds for which a fresh JWT is valid, by its own claims where it says since when; None if it does not say."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        since = claims.get("iat", claims.get("nbf", now.timestamp()))
        found = float(claims["exp"]) - float(since)
        return found if 0.0 <= found <= LONGEST_LIFE else None
    except (binascii.Error, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _job(raw: msgspec.Raw) -> JobMessage:
    """One entry of a message; never raises."""
    try:
        word = read(raw, WireType).message_type
    except ValueError:
        return UNKNOWN
    kind = KINDS.get(word, JobMessageKind.UNKNOWN)
    try:
        found = read(raw, WireJob)
    except ValueError:
        return JobMessage(JobMessageKind.UNKNOWN, word[:LONGEST_TYPE])
    return JobMessage(
        kind,
        word[:LONGEST_TYPE],
        job_id=found.job_id or "",
        request=found.runner_request_id or 0,
        repository=f"{found.owner_name}/{found.repository_name}" if found.owner_name and found.repository_name else "",
        workflow_run=found.workflow_run_id or 0,
        workflow_ref=found.job_workflow_ref or "",
        event=found.event_name or "",
        name=found.job_display_name or "",
        labels=tuple(found.request_labels or ()),
        runner_id=found.runner_id or 0,
        runner=found.runner_name or "",
        result=found.result or "",
        queued_at=_moment(found.queue_time),
        assigned_at=_moment(found.scale_set_assign_time),
        started_at=_moment(found.runner_assign_time),
        finished_at=_moment(found.finish_time),
    )


def _scale_set(found: WireScaleSet) -> RegisteredSet:
    if found.id < 1:
        raise ValueError("the scale set has no id")
    return RegisteredSet(
        found.id,
        found.name,
        found.runner_group_id or 0,
        tuple(label.name for label in found.labels or () if label.name),
        bool(found.setting and found.setting.disable_update),
        statistics(found.statistics),
    )


def _runner(found: WireRunner) -> SetRunner:
    return SetRunner(found.id, found.name, found.runner_scale_set_id or 0)


def _count(found: int | None) -> int:
    return min(max(0, found or 0), MOST)


def _moment(text: Any) -> datetime | None:
    """None for what is no time: the others of an entry are still good. The year 1 stands for none."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    if found.year == 1:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _shown(text: str | None) -> str:
    return repr(text)[:LONGEST_TYPE]
