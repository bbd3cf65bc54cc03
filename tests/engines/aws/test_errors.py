"""What goes wrong between us and AWS is said in our words: the call first, and what to do."""

from typing import Any

import pytest

from bullpen import errors
from bullpen.config import Aws
from bullpen.engines.aws import session
from bullpen.engines.aws.dynamodb import table
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.aws.ec2.client import ask
from bullpen.engines.aws.session import opened
from bullpen.engines.system import SystemChance
from engines.aws.tables import Says, watched
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Failure, Fault, Proxy, Refuse

pytestmark = pytest.mark.real_loop

PAGE = "<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"
ANSWERS: dict[str, tuple[Fault, type[errors.BullpenError], str]] = {
    "no permission on one call": (
        Failure("AccessDeniedException", message="User: x is not authorized to perform: dynamodb:BatchGetItem"),
        errors.PermissionDenied,
        "bullpen iam-policy control-plane",
    ),
    "an expired token": (Failure("ExpiredTokenException"), errors.PermissionDenied, "Sign in again"),
    "an unknown key": (Failure("UnrecognizedClientException"), errors.PermissionDenied, "Sign in again"),
    "a wrong secret": (Failure("InvalidSignatureException"), errors.PermissionDenied, "Sign in again"),
    "a clock that is behind": (
        Failure("InvalidSignatureException", message="Signature expired: 20300101T000000Z is now earlier than ..."),
        errors.PermissionDenied,
        "Set the clock",
    ),
    "a clock that is ahead": (
        Failure("InvalidSignatureException", message="Signature not yet current: 20300101T000000Z is still later ..."),
        errors.PermissionDenied,
        "Set the clock",
    ),
    "throttled": (Failure("ThrottlingException"), errors.Throttled, ""),
    "a fault of theirs": (Failure("InternalServerError", status=500), errors.Unavailable, ""),
    "no answer": (Refuse(), errors.Unavailable, "aws.endpoints"),
    "an answer of another service": (Says("<html>"), errors.Unavailable, ""),
    "a page of a proxy": (Says(PAGE, 403), errors.Refused, "HTTPS_PROXY"),
    "a page of a gateway": (Says(PAGE, 502), errors.Unavailable, ""),
    "something new": (Failure("SomethingNewException"), errors.Refused, ""),
}


@pytest.mark.parametrize(("fault", "kind", "remedy"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_an_error_names_the_call_first_and_what_to_do(
    engines: Engines,
    aws_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    kind: type[errors.BullpenError],
    remedy: str,
) -> None:
    monkeypatch.setattr(table, "PATIENCE", 0)
    monkeypatch.setattr(table, "LEAST_ATTEMPTS", 1)
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail("BatchGetItem", fault)
        with pytest.raises(errors.BullpenError) as raised:
            await pool.records.instances(["i-1"])
        assert type(raised.value) is kind
        assert str(raised.value).startswith("DynamoDB BatchGetItem: ")
        assert remedy in raised.value.remedy
        assert "not-a-secret" not in str(raised.value)
        assert "<" not in str(raised.value), "the page itself explains nothing"


SETUPS: dict[str, tuple[dict[str, str | None], dict[str, Any], type[errors.BullpenError], str]] = {
    "no credentials": (
        {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
        {},
        errors.PermissionDenied,
        "Sign in again",
    ),
    "half of them": ({"AWS_SECRET_ACCESS_KEY": None}, {}, errors.PermissionDenied, "Sign in again"),
    "no region": ({"AWS_DEFAULT_REGION": None}, {}, errors.ConfigError, "aws.region, or AWS_DEFAULT_REGION"),
    "an impossible region": ({}, {"region": "eu central"}, errors.ConfigError, "aws.region"),
    "an unknown profile": ({"AWS_PROFILE": "missing"}, {}, errors.ConfigError, "AWS_PROFILE"),
    "an endpoint that is no URL": ({}, {"endpoints": {"dynamodb": "somewhere"}}, errors.ConfigError, "aws.endpoints"),
    "an endpoint where nothing listens": (
        {},
        {"endpoints": {"dynamodb": "http://127.0.0.1:1"}},
        errors.Unavailable,
        "aws.endpoints",
    ),
}


@pytest.mark.parametrize(("environment", "given", "kind", "remedy"), SETUPS.values(), ids=SETUPS.keys())
async def test_a_set_up_that_cannot_work_is_said_to_be_so(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str | None],
    given: dict[str, Any],
    kind: type[errors.BullpenError],
    remedy: str,
) -> None:
    monkeypatch.setattr(table, "PATIENCE", 0)
    monkeypatch.setattr(table, "LEAST_ATTEMPTS", 1)
    for name, value in environment.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    settings = Aws(**{"endpoints": {"dynamodb": "http://127.0.0.1:1"}, **given})
    with pytest.raises(errors.BullpenError) as raised:
        async with opened(settings) as cloud:
            await DynamoRecords(TableClient(cloud, SystemChance())).instances(["i-1"])
    assert type(raised.value) is kind, raised.value
    assert remedy in raised.value.remedy


async def test_a_long_message_is_cut(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(engines, aws_settings) as pool:
        pool.proxy.fail("BatchGetItem", Failure("AccessDeniedException", message="x" * 5000))
        with pytest.raises(errors.PermissionDenied) as raised:
            await pool.records.instances(["i-1"])
        assert len(str(raised.value)) < 600


@pytest.mark.parametrize("status", [200, 403, 502])
@pytest.mark.parametrize("page", [PAGE, "<html><br>no XML at all", "Forbidden"])
async def test_an_answer_that_is_not_of_ec2_is_not_printed(
    engines: Engines, aws_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, status: int, page: str
) -> None:
    monkeypatch.setattr(session, "ATTEMPTS", 1)
    async with Proxy(engines.dynamodb) as proxy:
        proxy.fail("DescribeSubnets", Says(page, status), times=None)
        async with opened(aws_settings(endpoints={"ec2": proxy.url}).aws) as cloud:
            if status == 200 and page == PAGE:
                assert "Subnets" not in await ask(cloud, "describe_subnets")
                return
            with pytest.raises(errors.BullpenError) as raised:
                await ask(cloud, "describe_subnets")
    assert str(raised.value).startswith("EC2 DescribeSubnets: ")
    assert "may have answered" in str(raised.value)
    assert "<" not in str(raised.value)
    assert "Forbidden" not in str(raised.value)
