"""The proxy and the engines themselves: what other tests take for granted."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError

from fakes.java_engines import Engines, listening_elsewhere, running
from fakes.proxy import Drop, Failure, LeaveOut, Proxy, Refuse, proxy_in_thread

pytestmark = pytest.mark.real_loop
KEY = {"AttributeName": "PK", "AttributeType": "S"}


@asynccontextmanager
async def a_client(service: str, url: str) -> AsyncIterator[Any]:
    once = Config(retries={"total_max_attempts": 1})
    async with get_session().create_client(service, endpoint_url=url, config=once) as client:
        yield client


@asynccontextmanager
async def a_queue(engines: Engines) -> AsyncIterator[tuple[Proxy, Any, str]]:
    async with Proxy(engines.sqs) as proxy, a_client("sqs", proxy.url) as sqs:
        queue = await sqs.create_queue(QueueName="proxied")
        await sqs.purge_queue(QueueUrl=queue["QueueUrl"])
        yield proxy, sqs, queue["QueueUrl"]


def entries(count: int) -> list[dict[str, str]]:
    return [{"Id": str(n), "MessageBody": f"body {n}"} for n in range(count)]


async def visible(sqs: Any, url: str) -> int:
    asked = "ApproximateNumberOfMessages"
    return int((await sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[asked]))["Attributes"][asked])


def test_the_engines_listen_on_loopback_only(engines: Engines) -> None:
    assert listening_elsewhere(engines.pid) == []


def test_the_engines_are_shared_and_end_with_the_last_process_that_uses_them(tmp_path: Path, engines: Engines) -> None:
    with running(tmp_path) as first:
        with running(tmp_path) as second:
            assert first == second
            assert first.pid != engines.pid
        assert os.waitpid(first.pid, os.WNOHANG) == (0, 0)
    assert os.waitpid(first.pid, 0) == (first.pid, 0)


async def test_requests_are_counted_by_operation(engines: Engines) -> None:
    async with a_queue(engines) as (proxy, sqs, url):
        await sqs.send_message_batch(QueueUrl=url, Entries=entries(3))
        await asyncio.gather(*(sqs.receive_message(QueueUrl=url) for _ in range(4)))
        assert proxy.counts["SendMessageBatch"] == 1
        assert proxy.counts["ReceiveMessage"] == 4


async def test_a_refused_request_does_nothing(engines: Engines) -> None:
    async with a_queue(engines) as (proxy, sqs, url):
        proxy.fail("SendMessage", Refuse())
        with pytest.raises(HTTPClientError):
            await sqs.send_message(QueueUrl=url, MessageBody="a")
        assert await visible(sqs, url) == 0
        await sqs.send_message(QueueUrl=url, MessageBody="a")
        assert await visible(sqs, url) == 1


async def test_a_dropped_answer_leaves_what_was_done(engines: Engines) -> None:
    async with a_queue(engines) as (proxy, sqs, url):
        proxy.fail("SendMessage", Drop(), after=1)
        await sqs.send_message(QueueUrl=url, MessageBody="a")
        with pytest.raises(HTTPClientError):
            await sqs.send_message(QueueUrl=url, MessageBody="b")
        assert await visible(sqs, url) == 2


async def test_entries_left_out_of_a_batch_are_reported_and_not_sent(engines: Engines) -> None:
    async with a_queue(engines) as (proxy, sqs, url):
        proxy.fail("SendMessageBatch", LeaveOut(2, code="Busy"))
        answer = await sqs.send_message_batch(QueueUrl=url, Entries=entries(5))
        assert [one["Id"] for one in answer["Successful"]] == ["0", "1", "2"]
        assert [(one["Id"], one["Code"], one["SenderFault"]) for one in answer["Failed"]] == [
            ("3", "Busy", False),
            ("4", "Busy", False),
        ]
        assert await visible(sqs, url) == 3


async def test_an_error_arrives_as_the_service_would_spell_it(engines: Engines) -> None:
    rows = (
        ("dynamodb", "ListTables", "list_tables", "ThrottlingException"),
        ("sqs", "ListQueues", "list_queues", "AWS.SimpleQueueService.QueueDeletedRecently"),
        ("ec2", "DescribeInstances", "describe_instances", "RequestLimitExceeded"),
        ("sts", "GetCallerIdentity", "get_caller_identity", "ExpiredToken"),
    )
    async with Proxy(engines.dynamodb) as proxy:
        for service, operation, method, code in rows:
            proxy.fail(operation, Failure(code, message="a < b"))
            async with a_client(service, proxy.url) as client:
                with pytest.raises(ClientError) as caught:
                    await getattr(client, method)()
            assert caught.value.response["Error"]["Code"] == code
            assert caught.value.response["Error"]["Message"] == "a < b"


async def test_keys_left_out_come_back_as_unprocessed(engines: Engines) -> None:
    async with Proxy(engines.dynamodb) as proxy, a_client("dynamodb", proxy.url) as dynamodb:
        await dynamodb.create_table(
            TableName="proxied",
            AttributeDefinitions=[KEY],
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        keys = [{"PK": {"S": str(n)}} for n in range(3)]
        for key in keys:
            await dynamodb.put_item(TableName="proxied", Item=key)
        for left, found in ((1, 2), (3, 0)):
            proxy.fail("BatchGetItem", LeaveOut(left))
            answer = await dynamodb.batch_get_item(RequestItems={"proxied": {"Keys": keys}})
            assert len(answer["Responses"].get("proxied", [])) == found
            assert answer["UnprocessedKeys"]["proxied"]["Keys"] == keys[found:]


def test_a_proxy_in_a_thread_serves_clients(engines: Engines) -> None:
    async def ask(url: str) -> None:
        async with a_client("sqs", url) as sqs:
            await sqs.list_queues()

    with proxy_in_thread(engines.sqs) as proxy:
        asyncio.run(ask(proxy.url))
        assert proxy.counts == {"ListQueues": 1}
