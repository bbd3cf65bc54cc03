"""A workflow that may only claim gets warm machines, and asks nothing of AWS that its policy denies."""

import json
import re
import signal
from collections.abc import Iterator
from typing import Any

from bullpen.config import Aws, Engines, Settings
from bullpen.engines.aws.infrastructure.policies import place_of, workflow
from bullpen.model.boot import BOOT_FAILURE
from fakes.ec2 import ground
from fakes.iam_simulator import AwsRequest, Judge
from fakes.proxy import Forward, ProxiedAnswer, ProxiedCall, proxy_in_thread
from scenario.aws.pool import CloudPool, endpoints
from scenario.aws.test_served import served
from scenario.test_everyday import ids

WORKFLOW = f"arn:aws:iam::{ground.ACCOUNT}:role/workflows"
VERBS = {"Put": "Item", "Update": "Key", "Delete": "Key", "ConditionCheck": "Key"}


class Recorder:
    """No fault: it keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, call: ProxiedCall, forward: Forward) -> ProxiedAnswer | None:
        self.asked.append((call.operation, json.loads(call.body)))
        return await forward(call.body)


def judged(table: str, operation: str, body: dict[str, Any]) -> Iterator[AwsRequest]:
    """The requests behind a call, as IAM judges them."""
    if operation == "TransactWriteItems":
        for action in body["TransactItems"]:
            ((verb, one),) = action.items()
            yield _on(table, f"{verb}Item", [one[VERBS[verb]]["PK"]["S"]])
    elif operation == "BatchGetItem":
        for asked in body["RequestItems"].values():
            yield _on(table, operation, sorted({key["PK"]["S"] for key in asked["Keys"]}))
    elif operation == "Query" and "IndexName" in body:
        yield AwsRequest("dynamodb:Query", f"{table}/index/{body['IndexName']}")
    elif operation == "Query":
        (name,) = re.findall(r"= (:\w+)", body["KeyConditionExpression"])
        yield _on(table, operation, [body["ExpressionAttributeValues"][name]["S"]])
    else:
        yield _on(table, operation, [(body.get("Item") or body["Key"])["PK"]["S"]])


def _on(table: str, verb: str, keys: list[str]) -> AwsRequest:
    return AwsRequest(f"dynamodb:{verb}", table, {"dynamodb:LeadingKeys": keys})


def requests(pool: CloudPool, recorder: Recorder) -> list[AwsRequest]:
    """All that was asked of the table, once each."""
    table = f"arn:aws:dynamodb:{ground.REGION}:{ground.ACCOUNT}:table/{pool.name}"
    return list({repr(one): one for said in recorder.asked for one in judged(table, *said)}.values())


def denied(pool: CloudPool, iam: Judge, asked: list[AwsRequest]) -> list[AwsRequest]:
    """What the policy of a workflow that only claims denies."""
    aws = Aws(pool=pool.name, region=ground.REGION, instance_profile=ground.PROFILE)
    policy = workflow(place_of(Settings(engines=Engines(pool="aws"), aws=aws), ground.ACCOUNT))
    return [one for one, is_allowed in zip(asked, iam(policy, asked, WORKFLOW), strict=True) if not is_allowed]


def test_claims_and_releases_ask_nothing_that_the_policy_denies(pool: CloudPool, iam: Judge) -> None:
    pool.warm(2)
    for action in ("CreateFleet", "RunInstances", "CreateLaunchTemplate", "DescribeLaunchTemplateVersions"):
        pool.cloud.deny(f"ec2:{action}")
    recorder, before = Recorder(), pool.cloud.calls()
    with proxy_in_thread(pool.engines.dynamodb) as proxy:
        proxy.fail("*", recorder, times=None)
        pool.environ |= endpoints({"dynamodb": proxy.url})
        claimed = pool.provision("run-1", 2)
        assert (claimed["selected"], claimed["created"]) == (2, 0)
        short = pool.refused("run-2", 1)
        assert "DescribeLaunchTemplateVersions" in short["reason"]
        assert "bullpen iam-policy workflow --launch" in short["remedy"]
        assert sorted(pool.release("run-1")["offered"]) == ids(claimed)
        pool.release("run-2")
        pool.environ |= endpoints({"dynamodb": pool.engines.dynamodb})
    assert pool.audit() == []
    after = pool.cloud.calls()
    assert {name for name in after if after[name] > before.get(name, 0)} == {"DescribeLaunchTemplateVersions"}
    asked = requests(pool, recorder)
    assert {"dynamodb:UpdateItem", "dynamodb:BatchGetItem", "dynamodb:Query"} <= {one.action for one in asked}
    assert denied(pool, iam, asked) == []


def test_a_look_at_a_served_machine_that_still_boots_is_not_denied(pool: CloudPool, iam: Judge) -> None:
    """It may have left word why it has no agent. Without a server it is not heard, however long the command takes."""
    serving = served(pool)
    serving.send(signal.SIGTERM)
    serving.wait()
    pool.settings["classes.small.idle-target"] = 1
    pool.refresh()
    del pool.settings["classes.small.idle-target"]
    pool.cloud.deny("ec2:DescribeLaunchTemplateVersions")
    recorder = Recorder()
    with proxy_in_thread(pool.engines.dynamodb) as proxy:
        proxy.fail("*", recorder, times=None)
        pool.environ |= endpoints({"dynamodb": proxy.url})
        pool.refused("run-1", 1)
        pool.environ |= endpoints({"dynamodb": pool.engines.dynamodb})
    asked = requests(pool, recorder)
    assert any(BOOT_FAILURE in repr(one.context) for one in asked)
    assert denied(pool, iam, asked) == []
