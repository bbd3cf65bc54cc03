"""The infrastructure on AWS: what is missing is created, what differs in meaning is left alone."""

import json
import random
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bullpen.config import Agent, ResourceClass, Settings
from bullpen.engines.aws import session
from bullpen.engines.aws.boot.userdata import own_user_data, told
from bullpen.engines.aws.dynamodb.schema import SCHEMA_KEY, indexes, table_definition
from bullpen.engines.aws.infrastructure.setup import CERTAIN, AwsInfrastructure
from bullpen.engines.aws.sqs.queue import SqsQueue
from bullpen.engines.system import SystemChance, SystemClock
from bullpen.errors import ConfigError
from bullpen.ports import Gap
from engines.aws.tables import Overhear, Says
from fakes.aws_fixtures import MakeSettings
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, SUBNETS
from fakes.java_engines import Engines, running
from fakes.proxy import Failure, Proxy

pytestmark = pytest.mark.real_loop
ONE_CLASS = {"small": ResourceClass(cpu=1, mem=1024)}


@dataclass(frozen=True)
class Site:
    """The infrastructure, and the clients of the same account to look behind its back."""

    infrastructure: AwsInfrastructure
    queue: SqsQueue
    pool: str
    dynamodb: Any
    sqs: Any
    ec2: Any

    async def mended(self) -> list[str]:
        """Close all gaps as refresh does: what there was to do."""
        gaps = await self.infrastructure.gaps()
        for gap in gaps:
            await self.infrastructure.mend(gap)
        return [gap.what for gap in gaps]

    async def founded(self) -> None:
        await self.mended()
        await self.queue.ensure("small")

    async def table(self) -> dict[str, Any]:
        described: dict[str, Any] = (await self.dynamodb.describe_table(TableName=self.pool))["Table"]
        return described


@asynccontextmanager
async def a_site(settings: Settings) -> AsyncIterator[Site]:
    clock = SystemClock()
    async with session.opened(settings.aws) as cloud:
        queue = SqsQueue(cloud, clock, SystemChance())
        clients = [await cloud.client(name) for name in ("dynamodb", "sqs", "ec2")]
        yield Site(AwsInfrastructure(cloud, settings, queue, clock), queue, settings.aws.pool, *clients)


@pytest.fixture
def settings(aws_settings: MakeSettings, cloud: Control) -> Settings:
    return aws_settings(**on(cloud))


def on(cloud: Control, **changed: Any) -> dict[str, Any]:
    ground = {"region": "us-east-1", "image": AMAZON_LINUX.id, "instance_profile": PROFILE}
    subnets = tuple(subnet.id for subnet in SUBNETS[:2])
    endpoints = dict.fromkeys(("ec2", "sts", "iam", "service-quotas"), cloud.url)
    return {"classes": ONE_CLASS, "endpoints": endpoints, "subnets": subnets, **ground, **changed}


async def test_an_empty_account_gets_everything_and_then_there_is_nothing_to_do(settings: Settings) -> None:
    async with a_site(settings) as site:
        made = ["make table", "let expire", "enable recovery", "mark table", "store agent", "make template"]
        assert await site.mended() == made
        assert await site.infrastructure.gaps() == []
        assert (await site.table())["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


async def test_looking_changes_nothing(settings: Settings, cloud: Control) -> None:
    async with a_site(settings) as site:
        before = await site.infrastructure.gaps()
        assert await site.infrastructure.gaps() == before
        assert (await site.dynamodb.list_tables(ExclusiveStartTableName=f"{site.pool[:-1]}", Limit=1))[
            "TableNames"
        ] != [site.pool]
        assert cloud.look()["templates"] == {}


async def test_a_missing_index_is_made_and_waited_for_even_if_the_table_is_in_use_at_first(
    aws_settings: MakeSettings, cloud: Control, tmp_path: Path
) -> None:
    # An engine of its own: where others work meanwhile, DynamoDB Local has been seen to never finish an index.
    with running(tmp_path) as engines:
        await make_the_missing_index(aws_settings, cloud, engines)


async def make_the_missing_index(aws_settings: MakeSettings, cloud: Control, engines: Engines) -> None:
    async with Proxy(engines.dynamodb) as proxy:
        known = on(cloud)
        settings = aws_settings(**{**known, "endpoints": {**known["endpoints"], "dynamodb": proxy.url}})
        wanted = table_definition(settings.aws.pool)
        wanted["GlobalSecondaryIndexes"] = [one for one in indexes() if one["IndexName"] != "due"]
        names = {key["AttributeName"] for one in wanted["GlobalSecondaryIndexes"] for key in one["KeySchema"]}
        known_names = names | {"PK", "SK"}
        wanted["AttributeDefinitions"] = [
            d for d in wanted["AttributeDefinitions"] if d["AttributeName"] in known_names
        ]
        async with a_site(settings) as site:
            await site.dynamodb.create_table(**wanted)
            gaps = await site.infrastructure.gaps()
            assert [gap.subject for gap in gaps if gap.what == "make index"] == [f"{site.pool}/due"]
            proxy.fail("UpdateTable", Failure("ResourceInUseException", 400))
            for gap in gaps:
                await site.infrastructure.mend(gap)
            states = {one["IndexName"]: one["IndexStatus"] for one in (await site.table())["GlobalSecondaryIndexes"]}
            assert states == dict.fromkeys(("run", "pool", "due", "todo", "live"), "ACTIVE")
            assert proxy.counts["UpdateTable"] == 2
            assert await site.infrastructure.gaps() == []


async def test_a_fixed_throughput_becomes_on_demand(settings: Settings) -> None:
    throughput = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
    definition = table_definition(settings.aws.pool) | {
        "BillingMode": "PROVISIONED",
        "ProvisionedThroughput": throughput,
    }
    definition["GlobalSecondaryIndexes"] = [{**one, "ProvisionedThroughput": throughput} for one in indexes()]
    async with a_site(settings) as site:
        await site.dynamodb.create_table(**definition)
        assert "switch billing" in await site.mended()
        assert await site.infrastructure.gaps() == []


def with_other_keys(definition: dict[str, Any]) -> dict[str, Any]:
    keys = [{"AttributeName": "id", "KeyType": "HASH"}]
    kept = {name: definition[name] for name in ("TableName", "BillingMode")}
    return {**kept, "KeySchema": keys, "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}


def with_another_projection(definition: dict[str, Any]) -> dict[str, Any]:
    all_of_it = {"ProjectionType": "ALL"}
    changed = [{**one, "Projection": all_of_it} if one["IndexName"] == "pool" else one for one in indexes()]
    return {**definition, "GlobalSecondaryIndexes": changed}


def with_another_key_of_an_index(definition: dict[str, Any]) -> dict[str, Any]:
    keys = [{"AttributeName": "dueKey", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}]
    changed = [{**one, "KeySchema": keys} if one["IndexName"] == "due" else one for one in indexes()]
    types = [one for one in definition["AttributeDefinitions"] if one["AttributeName"] != "dueSort"]
    return {**definition, "GlobalSecondaryIndexes": changed, "AttributeDefinitions": types}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (with_other_keys, "its keys are id instead of PK, SK"),
        (with_another_projection, "its index pool has other keys or attributes"),
        (with_another_key_of_an_index, "its index due has other keys or attributes"),
    ],
)
async def test_a_table_of_another_schema_is_named_and_left_as_it_is(
    settings: Settings, changed: Any, named: str
) -> None:
    async with a_site(settings) as site:
        await site.dynamodb.create_table(**changed(table_definition(site.pool)))
        before = await site.table()
        with pytest.raises(ConfigError, match="has another schema") as caught:
            await site.infrastructure.gaps()
        assert named in str(caught.value)
        assert await site.table() == before


async def test_an_older_program_never_marks_over_a_newer_one(settings: Settings) -> None:
    async with a_site(settings) as site:
        await site.founded()
        newer = {**SCHEMA_KEY, "schema": {"N": "2"}}
        await site.dynamodb.put_item(TableName=site.pool, Item=newer)
        with pytest.raises(ConfigError, match="says 2, this program knows 1"):
            await site.infrastructure.gaps()
        with pytest.raises(ConfigError, match="says 2"):
            await site.infrastructure.mend(Gap("mark table", site.pool, "as seen before"))
        assert (await site.dynamodb.get_item(TableName=site.pool, Key=SCHEMA_KEY))["Item"] == newer


async def test_a_queue_with_other_attributes_is_corrected(settings: Settings) -> None:
    async with a_site(settings) as site:
        await site.founded()
        url = (await site.sqs.get_queue_url(QueueName=f"{site.pool}-small"))["QueueUrl"]
        await site.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "600"})
        assert await site.mended() == ["correct queue"]
        assert await site.infrastructure.gaps() == []


async def test_an_edited_template_is_created_again(settings: Settings, cloud: Control) -> None:
    async with a_site(settings) as site:
        await site.founded()
        ((name, before),) = cloud.look()["templates"].items()
        tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "bullpen:pool", "Value": site.pool}]}]
        await site.ec2.delete_launch_template(LaunchTemplateName=name)
        data = {"ImageId": AMAZON_LINUX.id, "InstanceType": "c5.large"}
        await site.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, TagSpecifications=tags)
        (gap,) = await site.infrastructure.gaps()
        assert (gap.what, gap.subject) == ("make template", name)
        assert "UserData" in gap.reason
        await site.infrastructure.mend(gap)
        assert await site.infrastructure.gaps() == []
        assert cloud.look()["templates"][name] != before


async def test_two_refreshes_at_once_make_one_of_each(settings: Settings, cloud: Control) -> None:
    async with a_site(settings) as one, a_site(settings) as other:
        gaps = await one.infrastructure.gaps()
        for gap in gaps:
            await one.infrastructure.mend(gap)
            await other.infrastructure.mend(gap)
        assert await other.infrastructure.gaps() == []
        assert len(cloud.look()["templates"]) == 1


async def test_where_another_tool_creates_everything_all_that_is_missing_is_named_at_once(
    aws_settings: MakeSettings, cloud: Control
) -> None:
    settings = aws_settings(**on(cloud, manage="external"))
    async with a_site(settings) as site:
        with pytest.raises(ConfigError) as caught:
            await site.infrastructure.gaps()
        for named in (f"make table {site.pool}", "make queue small", f"make template {site.pool}-"):
            assert named in str(caught.value)
        assert "Terraform" in caught.value.remedy


async def test_where_another_tool_creates_everything_refresh_still_stores_the_agent(
    aws_settings: MakeSettings, cloud: Control
) -> None:
    async with a_site(aws_settings(**on(cloud))) as site:
        await site.queue.ensure("small")
        for gap in await site.infrastructure.gaps():
            if gap.what not in ("store agent", "mark table"):
                await site.infrastructure.mend(gap)
    async with a_site(aws_settings(**on(cloud, manage="external"))) as site:
        assert await site.mended() == ["mark table", "store agent"]
        assert await site.infrastructure.gaps() == []


async def test_user_data_that_ec2_would_refuse_is_refused_before_any_call(
    aws_settings: MakeSettings, cloud: Control
) -> None:
    script = "".join(sha256(bytes([n // 256, n % 256])).hexdigest() for n in range(600))  # as dense as text can be
    settings = aws_settings(**on(cloud, agent=Agent(pre_runner_script=script)))
    async with a_site(settings) as site:
        with pytest.raises(ConfigError, match=r"agent\.pre-runner-script"):
            await site.infrastructure.gaps()
    assert cloud.calls() == {}


def test_user_data_of_settings_that_are_not_measured_fits_whatever_they_are() -> None:
    room = CERTAIN - len(json.dumps(told(Settings())))
    noise = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=room))
    settings = Settings(agent=Agent(pre_runner_script=noise))
    assert len(json.dumps(told(settings))) == CERTAIN
    own_user_data(settings)  # raises if EC2 would not take it


def backups(status: str) -> Says:
    recovery = {"PointInTimeRecoveryStatus": status}
    described = {"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": recovery}
    return Says({"ContinuousBackupsDescription": described})


async def test_a_table_that_could_not_be_restored_gets_point_in_time_recovery(
    aws_settings: MakeSettings, cloud: Control, engines: Engines
) -> None:
    """DynamoDB Local knows no backups: the proxy answers as DynamoDB does."""
    async with Proxy(engines.dynamodb) as proxy:
        known = on(cloud)
        settings = aws_settings(**{**known, "endpoints": {**known["endpoints"], "dynamodb": proxy.url}})
        async with a_site(settings) as site:
            await site.founded()
            proxy.fail("DescribeContinuousBackups", backups("DISABLED"))
            proxy.fail("UpdateContinuousBackups", heard := Overhear({}))
            (gap,) = await site.infrastructure.gaps()
            assert (gap.what, gap.subject) == ("enable recovery", site.pool)
            await site.infrastructure.mend(gap)
            wanted = {"PointInTimeRecoveryEnabled": True}
            assert heard.asked == [{"TableName": site.pool, "PointInTimeRecoverySpecification": wanted}]
            proxy.fail("DescribeContinuousBackups", backups("ENABLED"))
            assert await site.infrastructure.gaps() == []


@pytest.mark.parametrize("answer", [Failure("AccessDeniedException"), Failure("UnknownOperationException")])
async def test_credentials_that_may_not_see_backups_can_do_everything_else(
    aws_settings: MakeSettings, cloud: Control, engines: Engines, answer: Failure
) -> None:
    async with Proxy(engines.dynamodb) as proxy:
        known = on(cloud)
        settings = aws_settings(**{**known, "endpoints": {**known["endpoints"], "dynamodb": proxy.url}})
        async with a_site(settings) as site:
            await site.founded()
            proxy.fail("DescribeContinuousBackups", answer)
            assert await site.infrastructure.gaps() == []


async def test_where_another_tool_creates_the_table_refresh_leaves_backups_alone(
    aws_settings: MakeSettings, cloud: Control, engines: Engines
) -> None:
    async with Proxy(engines.dynamodb) as proxy:
        known = on(cloud)
        known["endpoints"] = {**known["endpoints"], "dynamodb": proxy.url}
        async with a_site(aws_settings(**known)) as site:
            await site.founded()
        proxy.counts.clear()
        proxy.fail("DescribeContinuousBackups", backups("DISABLED"), times=None)
        async with a_site(aws_settings(**known, manage="external")) as site:
            assert await site.infrastructure.gaps() == []
        assert proxy.counts["DescribeContinuousBackups"] == 0
