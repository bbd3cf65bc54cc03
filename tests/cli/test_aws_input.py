"""Failures of AWS on the command line: the error names call and remedy, and nothing is left half done."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any

import pytest

from bullpen.config import Settings
from bullpen.engines.aws import session
from bullpen.engines.aws.dynamodb.schema import SCHEMA_KEY
from command_line import CommandLine, CommandResult
from fakes.aws_fixtures import MakeSettings
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, PROFILE, SECOND_SUBNET, SUBNETS
from fakes.java_engines import Engines
from fakes.proxy import Failure, Proxy, proxy_in_thread

ZONES = f'"{SUBNETS[0].id}", "{SUBNETS[1].id}"'
QUICK = ("--set", "timings.validation=2", "--set", "timings.registration=1.5", "--set", "timings.hedge=1")
PROVISION = ("provision", "--run-id", "run-1", "--count", "1", *QUICK)


class Account:
    """A pool of the test's own in an account of the test's own."""

    def __init__(self, bullpen: CommandLine, settings: Settings, proxy: Proxy, cloud: Control) -> None:
        self.bullpen = bullpen
        self.settings = settings
        self.pool = settings.aws.pool
        self.proxy = proxy
        self.cloud = cloud

    def configure(self, more: str = "", **aws: str) -> None:
        """Write the settings; values as TOML spells them."""
        told = {
            "pool": f'"{self.pool}"',
            "region": '"us-east-1"',
            "image": f'"{AMAZON_LINUX.id}"',
            "instance-profile": f'"{PROFILE}"',
            "subnets": f"[{ZONES}]",
        } | {name.replace("_", "-"): value for name, value in aws.items()}
        endpoints = {
            **self.settings.aws.endpoints,
            **dict.fromkeys(("ec2", "sts", "iam", "service-quotas"), self.cloud.url),
        }
        lines = ["[engines]", 'pool = "aws"', "[aws]", *(f"{name} = {value}" for name, value in told.items())]
        lines += ["[aws.endpoints]", *(f'{name} = "{url}"' for name, url in endpoints.items()), more]
        self.bullpen.write_settings("\n".join(lines))

    def behind_its_back(self, service: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def done() -> Any:
            async with session.opened(self.settings.aws) as cloud:
                return await work(await cloud.client(service))

        return asyncio.run(done())

    def items(self, kind: str) -> list[dict[str, Any]]:
        request = {
            "TableName": self.pool,
            "KeyConditionExpression": "PK = :kind",
            "ExpressionAttributeValues": {":kind": {"S": f"TYPE#{kind}"}},
        }
        found: list[dict[str, Any]] = self.behind_its_back("dynamodb", lambda client: client.query(**request))["Items"]
        return found


@pytest.fixture
def account(bullpen: CommandLine, engines: Engines, aws_settings: MakeSettings, cloud: Control) -> Iterator[Account]:
    with proxy_in_thread(engines.dynamodb) as proxy:
        settings = aws_settings(endpoints={"dynamodb": proxy.url}, region="us-east-1")
        account = Account(bullpen, settings, proxy, cloud)
        account.configure()
        yield account


@pytest.fixture
def founded(account: Account) -> Account:
    ran = account.bullpen("refresh", "--json")
    assert ran.code == 0, ran.err
    return account


def assert_refused(ran: CommandResult, code: int, *words: str) -> None:
    assert ran.code == code, ran.err
    told = ran.err.rpartition("bullpen: error:")[2]
    assert "Traceback" not in ran.err
    assert "→" in told, "no remedy"
    assert [word for word in words if word not in told] == []


def test_without_credentials_nothing_is_tried_and_the_remedy_is_to_sign_in(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert_refused(account.bullpen("refresh"), 1, "DynamoDB DescribeTable", "no AWS credentials", "Sign in again")
    assert not account.proxy.counts
    assert account.cloud.calls() == {}


def test_the_error_for_expired_credentials_names_the_call(account: Account) -> None:
    expired = Failure("ExpiredTokenException", message="The security token is expired")
    account.proxy.fail("DescribeTable", expired, times=None)
    assert_refused(account.bullpen("refresh"), 1, "DynamoDB DescribeTable", "expired", "Sign in again")


def test_without_a_region_the_setting_is_named(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    account.configure(region='""')
    assert_refused(account.bullpen("status"), 2, "no region", "aws.region")


def test_in_the_wrong_region_there_is_no_table_and_the_region_is_named(account: Account) -> None:
    ran = account.bullpen("status")
    assert_refused(ran, 2, f"table {account.pool}", "region us-east-1", "bullpen refresh")
    assert account.bullpen.left_behind == []


def test_a_call_that_is_not_allowed_is_named_with_the_policy_and_leaves_nothing(founded: Account) -> None:
    founded.cloud.deny("ec2:CreateFleet")
    assert_refused(founded.bullpen(*PROVISION), 1, "EC2 CreateFleet", "iam-policy control-plane")
    assert founded.cloud.instances() == {}
    assert founded.items("Instance") == []
    (provision,) = founded.items("Provision")
    assert provision["state"] == {"S": "aborted"}
    assert "owes" not in provision


def test_a_write_that_is_not_allowed_is_named_with_the_policy_and_nothing_is_launched(founded: Account) -> None:
    founded.proxy.fail("UpdateItem", Failure("AccessDeniedException", message="not authorized"), times=None)
    assert_refused(founded.bullpen(*PROVISION), 1, "DynamoDB UpdateItem", "iam-policy control-plane")
    assert founded.cloud.calls().get("CreateFleet", 0) == 0


def test_a_table_of_another_schema_is_refused_and_left_alone(account: Account) -> None:
    request = {
        "TableName": account.pool,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    }
    account.behind_its_back("dynamodb", lambda client: client.create_table(**request))
    assert_refused(account.bullpen("refresh"), 2, f"table {account.pool} has another schema", "aws.pool")
    assert account.cloud.look()["templates"] == {}
    assert_refused(account.bullpen("status"), 2, f"table {account.pool}", "not a table of Bullpen", "aws.pool")


def test_a_table_of_a_newer_program_is_refused_and_left_alone(founded: Account) -> None:
    newer = {**SCHEMA_KEY, "schema": {"N": "7"}}
    founded.behind_its_back("dynamodb", lambda client: client.put_item(TableName=founded.pool, Item=newer))
    assert_refused(
        founded.bullpen("refresh"), 2, "says 7, this program knows 1", "Use the version of Bullpen that created it"
    )
    assert founded.items("Meta") == [newer]
    assert_refused(founded.bullpen(*PROVISION), 2, f"table {founded.pool} was created by a newer Bullpen", "aws.pool")
    assert (founded.items("Provision"), founded.cloud.instances()) == ([], {})


def test_a_deleted_queue_is_named_and_refresh_creates_it_again(founded: Account) -> None:
    async def delete(client: Any) -> None:
        url = (await client.get_queue_url(QueueName=f"{founded.pool}-small"))["QueueUrl"]
        await client.delete_queue(QueueUrl=url)

    founded.behind_its_back("sqs", delete)
    assert_refused(founded.bullpen(*PROVISION), 1, f"queue {founded.pool}-small", "does not exist", "bullpen refresh")
    assert founded.cloud.instances() == {}
    done = founded.bullpen("refresh", "--json").answer["actions"]
    assert [(action["what"], action["subject"]) for action in done] == [("make queue", "small")]


def test_an_edited_template_is_shown_by_a_dry_run_and_created_again(founded: Account) -> None:
    name = sorted(founded.cloud.look()["templates"])[0]

    async def edit(client: Any) -> None:
        await client.delete_launch_template(LaunchTemplateName=name)
        tags = [{"Key": "bullpen:pool", "Value": founded.pool}]
        await client.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": AMAZON_LINUX.id, "InstanceType": "c5.large"},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        )

    founded.settings.aws.endpoints["ec2"] = founded.cloud.url
    founded.behind_its_back("ec2", edit)
    edited = founded.cloud.look()["templates"][name]
    (planned,) = founded.bullpen("refresh", "--dry-run", "--json").answer["actions"]
    assert (planned["what"], planned["subject"]) == ("make template", name)
    assert founded.cloud.look()["templates"][name] == edited
    assert founded.bullpen("refresh").code == 0
    assert founded.cloud.look()["templates"][name] != edited


def checks(account: Account) -> dict[str, tuple[str, str, str]]:
    answer = account.bullpen("doctor", "--json").answer
    return {one["name"]: (one["state"], one["found"], one["remedy"]) for one in answer["checks"]}


def test_doctor_reports_all_problems_of_an_empty_account_at_once(account: Account) -> None:
    account.configure(subnets=f'["{SUBNETS[0].id}"]')
    account.cloud.deny("ec2:CreateFleet")
    account.cloud.quota("spot", 0)
    found = checks(account)
    assert {name: state for name, (state, _, _) in found.items() if state != "ok"} == {
        "permissions": "failed",
        "table": "failed",
        "queues": "failed",
        "templates": "failed",
        "subnets": "warning",
        "spot quota": "failed",
    }
    assert "ec2:CreateFleet" in found["permissions"][1]
    assert "another availability zone" in found["subnets"][2]
    assert all(remedy for state, _, remedy in found.values() if state != "ok")
    assert set(account.proxy.counts) == {"DescribeTable"}


def test_doctor_on_a_sound_pool_finds_no_problem(founded: Account) -> None:
    ran = founded.bullpen("doctor", "--json")
    assert ran.code == 0
    assert {one["state"] for one in ran.answer["checks"]} == {"ok"}


def test_doctor_without_credentials_reports_only_that(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    ran = account.bullpen("doctor")
    assert ran.code == 1
    assert "Traceback" not in ran.out + ran.err
    assert "no AWS credentials" in ran.out
    assert "subnets" not in ran.out


def test_two_subnets_of_one_zone_and_patterns_without_a_type_are_found_by_doctor(account: Account) -> None:
    more = '[classes.small]\nallowed-instance-types = ["zz9.*"]'
    account.configure(more, subnets=f'["{SUBNETS[0].id}", "{SECOND_SUBNET.id}"]')
    found = checks(account)
    assert found["subnets"][0] == "failed"
    assert SUBNETS[0].zone in found["subnets"][2]
    assert found["types of small"][:2] == ("failed", "0 fit")
    assert "classes.small.allowed-instance-types" in found["types of small"][2]


def test_patterns_that_match_no_type_end_a_provision_with_the_reason(founded: Account) -> None:
    ran = founded.bullpen(*PROVISION, "--allowed-instance-types", "zz9.*")
    assert_refused(ran, 1, "run-1", "types")
    assert founded.items("Instance") == []


def test_user_data_that_is_too_long_is_refused_before_any_call(account: Account) -> None:
    script = "".join(sha256(bytes([n // 256, n % 256])).hexdigest() for n in range(600))
    account.configure(f"[agent]\npre-runner-script = {json.dumps(script)}")
    for command in (("refresh",), ("provision", "--run-id", "run-1", "--count", "1")):
        assert_refused(account.bullpen(*command), 2, "user data", "agent.pre-runner-script", "Shorten the script")
    assert not account.proxy.counts
    assert account.cloud.calls() == {}


def test_an_invalid_item_stops_no_command_and_is_named_by_a_query(founded: Account) -> None:
    item = {
        "PK": {"S": "TYPE#Instance"},
        "SK": {"S": "ID#i-strange"},
        "liveKey": {"S": "LIVE#Instance"},
        "state": {"S": "asleep"},
    }
    founded.behind_its_back("dynamodb", lambda client: client.put_item(TableName=founded.pool, Item=item))
    assert founded.bullpen("status", "--json").answer["instances"] == []
    ran = founded.bullpen("why", "i-strange")
    assert ran.code == 1
    assert "i-strange: there is a record, and this program cannot read it" in ran.err
    assert "repair or delete the item" in ran.err


@pytest.mark.parametrize(
    "command", [("run", "--count", "1", "--", "true"), ("job", "submit", "--run-id", "x", "--", "true")]
)
def test_jobs_without_serve_are_refused_before_any_call(account: Account, command: tuple[str, ...]) -> None:
    assert_refused(account.bullpen(*command), 2, "agent.serve-url", "bullpen serve")
    assert not account.proxy.counts


def test_resources_that_terraform_manages_are_named_and_not_created(account: Account) -> None:
    account.configure(manage='"external"')
    ran = account.bullpen("refresh")
    assert_refused(ran, 2, f"make table {account.pool}", "make queue small", "make template", "Terraform")
    assert account.cloud.look()["templates"] == {}
    assert set(account.proxy.counts) == {"DescribeTable"}
