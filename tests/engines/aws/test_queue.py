"""What SqsQueue promises beyond every PoolQueue: what it does when SQS does what SQS may do, and what it costs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import messages
from bullpen.engines.aws.session import opened
from bullpen.engines.aws.sqs.queue import SqsQueue
from bullpen.engines.aws.sqs.schema import ATTRIBUTES, class_of, corrections, queue_name
from bullpen.engines.system import SystemChance
from bullpen.errors import PermissionDenied, Refused, Unavailable
from bullpen.model.limits import CLASS_NAME
from bullpen.ports import Message
from engines.aws.tables import Overhear
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop, Failure, LeaveOut, Proxy, Refuse
from real_machines import ShiftedClock

NAMES = st.from_regex(CLASS_NAME, fullmatch=True)

pytestmark = pytest.mark.real_loop


class Impatient(SystemChance):
    """Draws no wait."""

    def uniform(self, low: float, high: float) -> float:
        return low


@dataclass
class Bench:
    """A queue of a pool of its own, behind a proxy; `sqs` is another client of the same engine."""

    queue: SqsQueue
    proxy: Proxy
    sqs: Any
    pool: str
    clock: ShiftedClock = field(default_factory=ShiftedClock)

    async def url(self, resource_class: str = "small") -> str:
        answer = await self.sqs.get_queue_url(QueueName=queue_name(self.pool, resource_class))
        return str(answer["QueueUrl"])

    async def set(self, **attributes: str) -> None:
        await self.sqs.set_queue_attributes(QueueUrl=await self.url(), Attributes=attributes)


@asynccontextmanager
async def a_bench(engines: Engines, make_settings: MakeSettings, *made: str) -> AsyncIterator[Bench]:
    async with Proxy(engines.sqs) as proxy, opened(make_settings().aws) as direct:
        settings = make_settings(endpoints={"sqs": proxy.url}).aws
        async with opened(settings) as cloud:
            clock = ShiftedClock()
            queue = SqsQueue(cloud, clock, Impatient())
            bench = Bench(queue, proxy, await direct.client("sqs"), settings.pool, clock)
            for resource_class in made or ("small",):
                await queue.ensure(resource_class)
            proxy.counts.clear()
            yield bench


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives up at once: its waits are not what is tested."""
    monkeypatch.setattr("bullpen.engines.aws.session.ATTEMPTS", 1)


async def test_many_are_taken_and_sent_by_tens(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bodies = sorted(f"body {n}" for n in range(35))
        await bench.queue.send("small", messages(bodies))
        assert sorted(await bench.queue.take("small", 40)) == bodies
        assert bench.proxy.counts == {"SendMessageBatch": 4, "ReceiveMessage": 4, "DeleteMessageBatch": 4}


async def test_a_look_at_an_empty_queue_costs_one_request(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        assert await bench.queue.take("small", 10) == []
        assert bench.proxy.counts == {"ReceiveMessage": 1}


async def test_no_two_takers_get_the_same_message(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench, opened(aws_settings().aws) as elsewhere:
        other = SqsQueue(elsewhere, bench.clock, SystemChance())
        bodies = sorted(f"body {n}" for n in range(100))
        await bench.queue.send("small", messages(bodies))
        takers = [(bench.queue, other)[n % 2].take("small", 15) for n in range(12)]
        assert sorted(body for share in await asyncio.gather(*takers) for body in share) == bodies


async def test_a_message_that_expired_in_the_queue_is_dropped(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.queue.send("small", messages(["over"], expires=bench.clock.now() + timedelta(seconds=60)))
        await bench.queue.send("small", messages(["lasts"], expires=bench.clock.now() + timedelta(seconds=120)))
        bench.clock.shift = timedelta(seconds=90)
        assert await bench.queue.take("small", 10) == ["lasts"]
        assert await bench.queue.count("small") == 0


async def test_a_message_that_expired_counts_until_it_is_received(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        now = bench.clock.now()
        await bench.queue.send("small", [Message("over", now + timedelta(seconds=60)), Message("stays")])
        bench.clock.shift = timedelta(seconds=90)
        assert bench.queue.counts_expired
        assert await bench.queue.count("small") == 2
        assert await bench.queue.take("small", 10) == ["stays"]
        assert await bench.queue.count("small") == 0


async def test_a_message_of_another_program_need_not_say_when_it_expires(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        strange = {"expires": {"DataType": "String", "StringValue": "soon"}}
        await bench.sqs.send_message(QueueUrl=await bench.url(), MessageBody="plain")
        await bench.sqs.send_message(QueueUrl=await bench.url(), MessageBody="strange", MessageAttributes=strange)
        assert sorted(await bench.queue.take("small", 10)) == ["plain", "strange"]


@pytest.mark.parametrize(("delay", "seconds"), [(0.0, 0), (0.2, 1), (3.0, 3), (5000.0, 900)])
async def test_a_delay_is_whole_seconds_and_never_shorter(
    engines: Engines, aws_settings: MakeSettings, delay: float, seconds: int
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bench.proxy.fail("SendMessageBatch", heard := Overhear())
        await bench.queue.send("small", messages(["a"]), delay=delay)
        assert [entry["DelaySeconds"] for entry in heard.asked[0]["Entries"]] == [seconds]


async def test_what_sqs_leaves_out_of_a_batch_is_sent_again(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bench.proxy.fail("SendMessageBatch", LeaveOut(4), times=2)
        await bench.queue.send("small", messages(["a", "b", "c", "d", "e"]))
        assert sorted(await bench.queue.take("small", 10)) == ["a", "b", "c", "d", "e"]
        assert bench.proxy.counts["SendMessageBatch"] == 3


async def test_what_sqs_keeps_leaving_out_is_reported_and_the_rest_is_sent(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bench.proxy.fail("SendMessageBatch", LeaveOut(1), times=None)
        with pytest.raises(
            Unavailable, match=rf"SQS SendMessageBatch: queue {bench.pool}-small did not take 1 message"
        ):
            await bench.queue.send("small", messages([f"body {n}" for n in range(12)]))
        assert await bench.queue.count("small") == 10


async def test_what_sqs_refuses_is_refused_by_name_and_the_rest_is_sent(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        with pytest.raises(Refused, match="refused 1 messages: InvalidMessageContents"):
            await bench.queue.send("small", messages(["good", "bad \x01", "good too"]))
        assert bench.proxy.counts["SendMessageBatch"] == 1
        assert sorted(await bench.queue.take("small", 10)) == ["good", "good too"]


async def test_deleted_messages_are_handed_out_though_the_answer_was_lost(
    engines: Engines, aws_settings: MakeSettings, one_attempt: None
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.queue.send("small", messages(["a", "b"]))
        bench.proxy.fail("DeleteMessageBatch", Drop())
        assert sorted(await bench.queue.take("small", 10)) == ["a", "b"]
        assert await bench.queue.count("small") == 0


async def test_a_message_that_was_not_deleted_comes_twice_and_is_gone_then(
    engines: Engines, aws_settings: MakeSettings, one_attempt: None
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.set(VisibilityTimeout="0")
        await bench.queue.send("small", messages(["a", "b"]))
        bench.proxy.fail("DeleteMessageBatch", Refuse())
        bench.proxy.fail("DeleteMessageBatch", LeaveOut(1), after=1)
        assert sorted(await bench.queue.take("small", 10)) == ["a", "b"]
        assert sorted(await bench.queue.take("small", 10)) == ["a", "b"]
        assert len(await bench.queue.take("small", 10)) == 1
        assert await bench.queue.take("small", 10) == []


async def test_messages_of_one_request_are_returned_although_another_request_failed(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.queue.send("small", messages([f"body {n}" for n in range(20)]))
        bench.proxy.fail("ReceiveMessage", Failure("AccessDenied", 403))
        assert len(await bench.queue.take("small", 20)) == 10
        bench.proxy.fail("ReceiveMessage", Failure("AccessDenied", 403), times=2)
        with pytest.raises(PermissionDenied, match="SQS ReceiveMessage"):
            await bench.queue.take("small", 20)
        assert len(await bench.queue.take("small", 20)) == 10


async def test_a_queue_deleted_underneath_is_named_with_the_call_and_the_remedy(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.sqs.delete_queue(QueueUrl=await bench.url())
        for call in ("ReceiveMessage", "GetQueueUrl"):
            with pytest.raises(Refused, match=f"SQS {call}: queue {bench.pool}-small in region") as refused:
                await bench.queue.take("small", 1)
            assert "`bullpen refresh`" in refused.value.remedy
        assert await bench.queue.count("small") == 0
        await bench.queue.ensure("small")
        await bench.queue.send("small", messages(["a"]))
        assert await bench.queue.take("small", 1) == ["a"]


async def test_tickets_for_a_queue_deleted_underneath_are_lost_with_a_warning(
    engines: Engines, aws_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.sqs.delete_queue(QueueUrl=await bench.url())
        for call in ("SendMessageBatch", "GetQueueUrl"):
            caplog.clear()
            await bench.queue.send("small", messages(["a", "b"]))
            assert f"SQS {call}: queue {bench.pool}-small" in caplog.text
            assert "tickets lost tickets=2" in caplog.text


async def test_a_queue_is_made_with_its_attributes_and_our_tag(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bench.proxy.fail("CreateQueue", heard := Overhear())
        await bench.queue.ensure("v1.2_arm-64")
        assert heard.asked == [
            {
                "QueueName": f"{bench.pool}-v1_2E2_5Farm-64",
                "Attributes": {
                    "MessageRetentionPeriod": "1209600",
                    "VisibilityTimeout": "30",
                    "DelaySeconds": "0",
                    "SqsManagedSseEnabled": "true",
                },
                "tags": {"bullpen:pool": bench.pool},
            }
        ]
        assert await bench.queue.names() == ["small", "v1.2_arm-64"]


async def test_an_edited_queue_is_named_and_corrected(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings, "small", "large") as bench:
        assert await bench.queue.misfits() == {}
        await bench.set(VisibilityTimeout="600")
        assert await bench.queue.misfits() == {"small": "VisibilityTimeout is 600 and should be 30"}
        await bench.queue.ensure("small")
        assert await bench.queue.misfits() == {}
        assert bench.proxy.counts["SetQueueAttributes"] == 1


async def test_a_redrive_policy_is_named_and_removed(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings, "small", "graveyard") as bench:
        target = f"arn:aws:sqs:elasticmq:000000000000:{bench.pool}-graveyard"
        await bench.set(RedrivePolicy=json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": "3"}))
        assert "redrive policy" in (await bench.queue.misfits())["small"]
        bench.proxy.fail("SetQueueAttributes", heard := Overhear({}))  # ElasticMQ does not know how one is removed
        await bench.queue.ensure("small")
        assert [asked["Attributes"] for asked in heard.asked] == [{"RedrivePolicy": ""}]


def test_a_shorter_retention_is_a_misfit() -> None:
    (wrong,) = corrections({**ATTRIBUTES, "MessageRetentionPeriod": "345600"}).values()
    assert wrong == ("1209600", "MessageRetentionPeriod is 345600 and should be 1209600")


async def test_a_name_that_sqs_still_keeps_is_worth_a_retry_after_a_minute(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        bench.proxy.fail("CreateQueue", Failure("AWS.SimpleQueueService.QueueDeletedRecently"))
        with pytest.raises(Unavailable, match=f"SQS CreateQueue: queue {bench.pool}-large .* 60 s"):
            await bench.queue.ensure("large")


async def test_a_queue_without_our_tag_is_not_touched(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        others = {
            "events": {},
            "x-small": {"bullpen:pool": f"{bench.pool}-x"},
            "a_b": {"bullpen:pool": bench.pool},  # tagged by hand: no class has a queue of this name
        }
        for name, tags in others.items():
            await bench.sqs.create_queue(QueueName=f"{bench.pool}-{name}", tags=tags)
        assert await bench.queue.names() == ["small"]
        for touch in (bench.queue.retire, bench.queue.ensure):
            with pytest.raises(Refused, match=f"queue {bench.pool}-events: it does not belong to this pool"):
                await touch("events")
        assert len((await bench.sqs.list_queues(QueueNamePrefix=bench.pool))["QueueUrls"]) == 4
        assert {"DeleteQueue", "SetQueueAttributes"}.isdisjoint(bench.proxy.counts)


async def test_all_pages_of_the_list_are_read(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings, "small", "large") as bench:
        urls = [await bench.url("small"), await bench.url("large")]
        heard = Overhear({"QueueUrls": urls[:1], "NextToken": "more"}, {"QueueUrls": urls[1:]})
        bench.proxy.fail("ListQueues", heard, times=None)
        assert await bench.queue.names() == ["large", "small"]
        assert [(asked["MaxResults"], asked.get("NextToken")) for asked in heard.asked] == [
            (1000, None),
            (1000, "more"),
        ]


@given(NAMES, NAMES)
def test_every_class_has_a_name_of_its_own_that_sqs_allows(one: str, other: str) -> None:
    name = queue_name("pool", one)
    assert name.replace("-", "").replace("_", "").isalnum()
    assert class_of("pool", name) == one
    assert (queue_name("pool", other) == name) is (other == one)


def test_a_queue_is_encrypted_by_a_key_of_sqs_or_of_the_account() -> None:
    plain = {**ATTRIBUTES, "SqsManagedSseEnabled": "false"}
    assert corrections(plain) == {"SqsManagedSseEnabled": ("true", "SqsManagedSseEnabled is false and should be true")}
    assert corrections({**plain, "KmsMasterKeyId": "alias/ci"}) == {}
