"""Reading what the service of scale sets sends: a message never stops its reader, whatever is in it."""

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bullpen.engines.github.scale_sets import parsing
from bullpen.errors import UnreadableMessage
from bullpen.ports import JobMessageKind, SetMessage, SetStatistics

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=10,
)
FIELDS = (
    *("messageType", "runnerRequestId", "jobId", "ownerName", "repositoryName", "workflowRunId", "requestLabels"),
    *("runnerId", "runnerName", "result", "queueTime", "finishTime", "acquireJobUrl"),
)
ENTRY = st.dictionaries(st.sampled_from(FIELDS), ANYTHING | st.sampled_from(list(parsing.KINDS)))
NOW = datetime(2026, 8, 1, tzinfo=UTC)


def a_message(entries: Sequence[Any] = (), **changes: Any) -> bytes:
    statistics = {"totalAssignedJobs": 3, "totalRunningJobs": 1}
    envelope = {"messageId": 7, "messageType": parsing.MESSAGES, "statistics": statistics}
    return json.dumps(envelope | {"body": json.dumps(entries)} | changes).encode()


READERS = (
    *(parsing.scale_set, parsing.scale_sets, parsing.runner, parsing.runners, parsing.configuration),
    *(parsing.groups, parsing.acquired, parsing.problem, parsing.said, lambda content: parsing.session(content, 1)),
)


@given(st.binary() | ANYTHING.map(lambda found: json.dumps(found).encode()))
@example(b"")
@example(b"[" * 100_000)
@example(b'{"messageId": 1e400}')
@example(b'{"sessionId": "s", "statistics": NaN}')
def test_any_bytes_are_read_or_refused_with_one_error(content: bytes) -> None:
    with suppress(UnreadableMessage):
        assert isinstance(parsing.message(content), SetMessage)
    for read in READERS:
        with suppress(ValueError):
            read(content)


@given(st.lists(ENTRY | ANYTHING, max_size=5))
def test_every_entry_is_kept_whatever_it_holds(entries: list[Any]) -> None:
    found = parsing.message(a_message(entries))
    assert len(found.jobs) == len(entries)
    assert found.statistics == SetStatistics(assigned=3, running=1)
    assert not found.trouble


@given(ANYTHING, ANYTHING, ANYTHING)
def test_a_message_that_shows_its_id_is_read(body: Any, kind: Any, statistics: Any) -> None:
    found = parsing.message(a_message(body=json.dumps(body), messageType=kind, statistics=statistics))
    assert found.id == 7


@given(st.text())
def test_any_token_says_how_long_it_lasts_or_nothing(token: str) -> None:
    found = parsing.lifetime(token, NOW)
    assert found is None or 0.0 <= found <= parsing.LONGEST_LIFE


def test_an_entry_becomes_what_happened_to_a_job() -> None:
    entry = {
        "messageType": "JobCompleted",
        "runnerRequestId": 0,
        "ownerName": "acme",
        "repositoryName": "widgets",
        "jobId": "5f0c",
        "jobWorkflowRef": "acme/widgets/.github/workflows/ci.yml@refs/heads/main",
        "jobDisplayName": "build",
        "workflowRunId": 4711,
        "eventName": "push",
        "requestLabels": ["bullpen-medium"],
        "queueTime": "2026-08-01T12:00:00.1234567Z",
        "scaleSetAssignTime": "2026-08-01T12:00:01+00:00",
        "runnerAssignTime": "0001-01-01T00:00:00Z",
        "finishTime": "soon",
        "result": "succeeded",
        "runnerId": 12,
        "runnerName": "r-1",
    }
    (found,) = parsing.message(a_message([entry])).jobs
    assert (found.kind, found.job_id, found.repository) == (JobMessageKind.COMPLETED, "5f0c", "acme/widgets")
    assert (found.workflow_run, found.event, found.labels) == (4711, "push", ("bullpen-medium",))
    assert (found.runner_id, found.runner, found.result) == (12, "r-1", "succeeded")
    assert found.queued_at == datetime(2026, 8, 1, 12, 0, 0, 123456, UTC)
    assert found.assigned_at == datetime(2026, 8, 1, 12, 0, 1, tzinfo=UTC)
    assert (found.started_at, found.finished_at) == (None, None)


def test_what_is_null_reads_as_what_is_missing() -> None:
    nothing = dict.fromkeys(FIELDS) | {"messageType": "JobAssigned"}
    (found,) = parsing.message(a_message([nothing])).jobs
    assert (found.kind, found.request, found.labels, found.runner) == (JobMessageKind.ASSIGNED, 0, (), "")


@pytest.mark.parametrize("entry", [None, 3, {}, {"messageType": 3}, {"messageType": "JobStarted", "runnerId": "x"}])
def test_an_unreadable_entry_is_unknown_and_the_others_count(entry: Any) -> None:
    found = parsing.message(a_message([entry, {"messageType": "JobAssigned"}]))
    assert [one.kind for one in found.jobs] == [JobMessageKind.UNKNOWN, JobMessageKind.ASSIGNED]


def test_an_entry_of_another_type_keeps_its_word() -> None:
    (found,) = parsing.message(a_message([{"messageType": "JobBlessed", "jobId": "5f0c"}])).jobs
    assert (found.kind, found.type, found.job_id) == (JobMessageKind.UNKNOWN, "JobBlessed", "5f0c")


@pytest.mark.parametrize("changes", [{"body": "[[["}, {"body": 3}, {"body": "{}"}, {"messageType": "SomethingNew"}])
def test_the_statistics_of_an_unreadable_body_can_be_used(changes: dict[str, Any]) -> None:
    found = parsing.message(a_message(**changes))
    assert found.statistics == SetStatistics(assigned=3, running=1)
    assert found.trouble
    assert found.jobs == ()


@pytest.mark.parametrize("statistics", [None, 3, {}, {"totalAssignedJobs": 2}, {"totalAssignedJobs": "2"}])
def test_statistics_that_do_not_say_what_waits_say_nothing(statistics: Any) -> None:
    assert parsing.message(a_message(statistics=statistics)).statistics is None


def test_counts_are_never_negative_or_absurd() -> None:
    found = parsing.message(a_message(statistics={"totalAssignedJobs": -3, "totalRunningJobs": 10**30})).statistics
    assert found == SetStatistics(assigned=0, running=parsing.MOST)


@pytest.mark.parametrize("id", [None, 0, -1, "7", 7.5, 2**63])
def test_a_message_without_a_usable_id_is_unreadable(id: Any) -> None:
    with pytest.raises(UnreadableMessage):
        parsing.message(a_message(messageId=id))


def test_a_byte_order_mark_is_skipped() -> None:
    assert parsing.message(b"\xef\xbb\xbf" + a_message()).id == 7
    assert parsing.problem(b'\xef\xbb\xbf{"typeName": "A.B", "message": "no"}') == ("A.B", "no")


def test_no_secret_of_a_session_or_a_configuration_is_shown() -> None:
    session = {"sessionId": "s-1", "messageQueueUrl": "https://x/?t=s3cret", "messageQueueAccessToken": "s3cret"}
    assert "s3cret" not in repr(parsing.session(json.dumps(session).encode(), 1))
    made = {"runner": {"id": 1, "name": "r-1"}, "encodedJITConfig": "s3cret"}
    assert "s3cret" not in repr(parsing.configuration(json.dumps(made).encode()))


@pytest.mark.parametrize(
    ("claims", "lasts"),
    [
        ({"iat": 1_000, "exp": 4_600}, 3600.0),
        ({"nbf": 1_000, "exp": 4_600}, 3600.0),
        ({"exp": NOW.timestamp() + 60}, 60.0),
        ({"iat": 4_600, "exp": 1_000}, None),
        ({}, None),
        ({"exp": "soon"}, None),
        ([], None),
    ],
)
def test_a_token_lasts_as_long_as_it_says_by_its_own_clock(claims: Any, lasts: float | None) -> None:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert parsing.lifetime(f"x.{payload}.y", NOW) == lasts
