"""The agent's own DynamoDB client: its signature, its one connection, and what it makes of each answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.answering import Asked, StoreAnswer, answering
from bullpen.agent.aws.dynamodb import ConditionFailed, DynamoDB, DynamoRefused, DynamoThrottled, DynamoUnanswered
from bullpen.agent.aws.sigv4 import signed

OURS = ("AKIDEXAMPLE", "secret/of+mine", "session=token")
ITEM = {"seq": {"N": "7"}}


Connect = Callable[..., DynamoDB]


@pytest.fixture
def client() -> Iterator[Connect]:
    """Makes clients, and closes them."""
    with ExitStack() as stack:

        def connect(url: str, patience: float = 5.0) -> DynamoDB:
            return stack.enter_context(closing(DynamoDB("eu-central-1", lambda: OURS, url, patience)))

        yield connect


def a_type(name: str) -> str:
    return f"com.amazonaws.dynamodb.v20120810#{name}"


def of_botocore(token: str, body: bytes, at: datetime) -> dict[str, str]:
    """The same request as AWS's own library signs it."""
    from botocore import auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    host = "dynamodb.eu-central-1.amazonaws.com"
    headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.GetItem", "host": host}
    request = AWSRequest("POST", f"https://{host}/", headers, body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auth, "get_current_datetime", lambda: at)
        auth.SigV4Auth(Credentials(OURS[0], OURS[1], token or None), "dynamodb", "eu-central-1").add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(
    body=st.binary(max_size=200),
    token=st.sampled_from(["", "session=token"]),
    at=st.integers(1_600_000_000, 2_200_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
def test_a_request_is_signed_as_aws_s_own_library_signs_it(body: bytes, token: str, at: datetime) -> None:
    given = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.GetItem"}
    host = "dynamodb.eu-central-1.amazonaws.com"
    ours = signed((*OURS[:2], token), "eu-central-1", "dynamodb", host, given, body, at.timestamp())
    assert ours == of_botocore(token, body, at)


def test_a_request_names_its_operation_and_carries_its_arguments(client: Connect) -> None:
    with answering(lambda _: StoreAnswer(body={"Item": ITEM})) as service:
        assert client(service.url).call("GetItem", TableName="pool", ConsistentRead=True) == {"Item": ITEM}
        (asked,) = service.asked
    assert (asked.method, asked.path) == ("POST", "/")
    assert asked.headers["x-amz-target"] == "DynamoDB_20120810.GetItem"
    assert asked.headers["x-amz-security-token"] == OURS[2]
    assert json.loads(asked.body) == {"TableName": "pool", "ConsistentRead": True}


def test_requests_share_one_connection(client: Connect) -> None:
    with answering(lambda _: StoreAnswer(body={})) as service:
        table = client(service.url)
        for _ in range(3):
            table.call("GetItem")
        assert service.connections == 1


def failing_on(*numbers: int) -> Callable[[Asked], StoreAnswer]:
    count = 0

    def answer(_: Asked) -> StoreAnswer:
        nonlocal count
        count += 1
        return StoreAnswer(hangs_up=True) if count in numbers else StoreAnswer(body={"count": count})

    return answer


def test_a_kept_connection_that_went_stale_is_replaced_once(client: Connect) -> None:
    with answering(failing_on(2)) as service:
        table = client(service.url)
        assert table.call("GetItem") == {"count": 1}
        assert table.call("GetItem") == {"count": 3}


def test_a_second_failure_in_a_row_is_the_caller_s_to_judge(client: Connect) -> None:
    with answering(failing_on(2, 3)) as service:
        table = client(service.url)
        table.call("GetItem")
        with pytest.raises(DynamoUnanswered):
            table.call("GetItem")
        assert len(service.asked) == 3
        assert table.call("GetItem") == {"count": 4}


def test_a_fresh_connection_that_fails_is_not_tried_again(client: Connect) -> None:
    with answering(failing_on(1)) as service:
        with pytest.raises(DynamoUnanswered, match="GetItem"):
            client(service.url).call("GetItem")
        assert len(service.asked) == 1


def canceled(*codes: str) -> dict[str, Any]:
    reasons = [{"Code": code} | ({"Item": ITEM} if code == "ConditionalCheckFailed" else {}) for code in codes]
    return {"__type": a_type("TransactionCanceledException"), "CancellationReasons": reasons}


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (400, {"__type": a_type("ProvisionedThroughputExceededException")}, DynamoThrottled),
        (400, {"__type": "ThrottlingException", "Message": "slow down"}, DynamoThrottled),
        (400, {"__type": a_type("RequestLimitExceeded")}, DynamoThrottled),
        (400, {"__type": a_type("TransactionConflictException")}, DynamoThrottled),
        (400, canceled("None", "TransactionConflict"), DynamoThrottled),
        (400, canceled("ThrottlingError", "None"), DynamoThrottled),
        (500, {"__type": a_type("InternalServerError")}, DynamoUnanswered),
        (503, "not JSON at all", DynamoUnanswered),
        (200, "not JSON at all", DynamoUnanswered),
        (200, "[]", DynamoUnanswered),
        (400, {"__type": a_type("ResourceNotFoundException"), "message": "no table"}, DynamoRefused),
        (403, {}, DynamoRefused),
    ],
)
def test_an_answer_becomes_the_error_that_says_what_to_do(
    client: Connect, status: int, said: Any, expected: type[Exception]
) -> None:
    with answering(lambda _: StoreAnswer(status, said)) as service, pytest.raises(expected) as failure:
        client(service.url).call("UpdateItem")
    assert type(failure.value) is expected
    assert "UpdateItem" in str(failure.value)
    assert not any(secret in str(failure.value) for secret in OURS)


def test_a_refusal_carries_its_code(client: Connect) -> None:
    said = {"__type": "com.amazon.coral.service#ExpiredTokenException", "message": "expired"}
    with (
        answering(lambda _: StoreAnswer(400, said)) as service,
        pytest.raises(DynamoRefused, match="expired") as failure,
    ):
        client(service.url).call("GetItem")
    assert failure.value.code == "ExpiredTokenException"


def test_a_failed_condition_carries_what_stands_there(client: Connect) -> None:
    said = {"__type": a_type("ConditionalCheckFailedException"), "Item": ITEM}
    with answering(lambda _: StoreAnswer(400, said)) as service, pytest.raises(ConditionFailed) as failure:
        client(service.url).call("UpdateItem")
    assert failure.value.items == [ITEM]


def test_a_failed_condition_in_a_transaction_wins_over_a_conflict_beside_it(client: Connect) -> None:
    said = canceled("TransactionConflict", "ConditionalCheckFailed", "None")
    with answering(lambda _: StoreAnswer(400, said)) as service, pytest.raises(ConditionFailed) as failure:
        client(service.url).call("TransactWriteItems")
    assert failure.value.items == [None, ITEM, None]


def test_a_service_that_does_not_answer_counts_as_away_after_the_timeout(client: Connect) -> None:
    over = threading.Event()

    def silent(_: Asked) -> StoreAnswer:
        over.wait(10)
        return StoreAnswer()

    with answering(silent) as service:
        with pytest.raises(DynamoUnanswered, match="timed out"):
            client(service.url, patience=0.05).call("GetItem")
        over.set()


def test_without_an_endpoint_the_region_s_own_is_asked() -> None:
    assert DynamoDB("eu-1", lambda: OURS)._url.geturl() == "https://dynamodb.eu-1.amazonaws.com"
    assert DynamoDB("cn-north-1", lambda: OURS)._url.geturl() == "https://dynamodb.cn-north-1.amazonaws.com.cn"
