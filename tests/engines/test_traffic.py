"""Requests to the services behind the engines are counted by call and result; no name from outside becomes a call."""

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from builders import NOW, open_provision
from bullpen.config import Github, Settings
from bullpen.engines.aws.dynamodb.items import key_of
from bullpen.engines.aws.dynamodb.schema import table_definition
from bullpen.engines.aws.dynamodb.table import TableClient, Unmet
from bullpen.engines.aws.errors import call
from bullpen.engines.aws.session import opened
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.endpoints import endpoint
from bullpen.engines.memory import LoopClock
from bullpen.engines.system import SystemChance
from bullpen.errors import BullpenError
from bullpen.model.provision import Provision
from bullpen.ports.traffic import MOST_CALLS, OTHER, RequestResult, Traffic
from bullpen.wiring import embedded
from fakes.aws_fixtures import MakeSettings


def test_more_names_than_there_may_be_are_counted_together() -> None:
    traffic = Traffic()
    for number in range(3 * MOST_CALLS):
        traffic.note("github", f"GET {number}", RequestResult.OK)
    assert len(traffic.requests) == MOST_CALLS + 1
    assert sum(traffic.requests.values()) == 3 * MOST_CALLS
    assert traffic.requests["github", OTHER, RequestResult.OK] == 2 * MOST_CALLS


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/repos/acme/web/actions/runners/12", "actions/runners"),
        ("/repos/actions/runners/actions/runs/5/attempts/1/jobs", "actions/runs/attempts/jobs"),
        ("/orgs/acme/actions/runners/registration-token", "actions/runners/registration-token"),
        ("/repos/acme/web", "repos"),
        ("/app/installations/7/access_tokens", "app/installations/access_tokens"),
        ("/rate_limit", "rate_limit"),
        ("/_apis/runtime/runnerscalesets/1/sessions/0a-b1", "_apis/runtime/runnerscalesets/sessions"),
        ("/message queue of scale set 1", "messages"),
        ("/message 12 of scale set 1", "messages"),
        ('/x"} 1\nforged_metric 5', OTHER),
    ],
)
def test_a_call_of_github_is_counted_by_the_fixed_words_of_its_path(path: str, named: str) -> None:
    assert endpoint(GithubCall("GET", path)) == f"GET {named}"


async def test_answers_of_github_are_counted_by_what_they_amount_to() -> None:
    statuses = iter([200, 404, 429])

    def answer(request: httpx.Request) -> httpx.Response:
        if (status := next(statuses, 0)) == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status, json={}, headers={"retry-after": "900"} if status == 429 else {})

    traffic = Traffic()
    settings = Github(scope="acme/web", token="t")
    client = GithubClient(settings, LoopClock(), httpx.MockTransport(answer), traffic)
    for _ in range(3):
        with suppress(BullpenError):
            await client.ask(GithubCall("POST", "/repos/acme/web/actions/runners"))
    await client.aclose()
    named = ("github", "POST actions/runners")
    assert traffic.requests == {
        (*named, RequestResult.OK): 1,
        (*named, RequestResult.REFUSED): 1,
        (*named, RequestResult.THROTTLED): 1,
    }


@pytest.mark.real_loop
async def test_commits_and_reads_of_the_database_are_counted(tmp_path: Path) -> None:
    async with embedded(tmp_path / "home", Settings()) as ports:
        await ports.records.apply(open_provision())
        await asyncio.gather(*(ports.records.count() for _ in range(3)))
        requests = ports.traffic.requests
        assert requests["sqlite", "commit", RequestResult.OK] >= 1
        assert requests["sqlite", "read", RequestResult.OK] == 3


@pytest.mark.real_loop
async def test_calls_of_aws_are_counted_and_a_condition_that_does_not_hold_is_a_conflict(
    aws_settings: MakeSettings,
) -> None:
    traffic = Traffic()
    settings = aws_settings()
    async with opened(settings.aws, traffic) as cloud:
        dynamodb = await cloud.client("dynamodb", repeats=False)
        await call(dynamodb, "create_table", **table_definition(settings.aws.pool))
        table = TableClient(cloud, SystemChance())
        key = key_of(Provision, f"p-{NOW:%H%M%S}")
        assert await table.get(key) is None
        condition = {"UpdateExpression": "SET a = b", "ConditionExpression": "attribute_exists(PK)"}
        with pytest.raises(Unmet):
            await table.update({"Key": key, **condition})
        assert traffic.requests["dynamodb", "BatchGetItem", RequestResult.OK] >= 1
        assert traffic.requests["dynamodb", "UpdateItem", RequestResult.CONFLICT] == 1
        await call(dynamodb, "delete_table", TableName=settings.aws.pool)
