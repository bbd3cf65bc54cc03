"""What an instance learns of itself, and how it proves its identity."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from aiobotocore.session import get_session

from fakes.ec2.calling import a_fleet, a_template, client_of, ids_of, refused
from fakes.ec2.control import Control
from fakes.ec2.ground import REGION, ROLE, SUBNETS

pytestmark = pytest.mark.real_loop
LASTS = "X-aws-ec2-metadata-token-ttl-seconds"


def ask(cloud: Control, id: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{cloud.url}/imds/{id}/latest/{path}", method=method, headers=named)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def token_of(cloud: Control, id: str, seconds: str = "21600") -> tuple[int, str]:
    return ask(cloud, id, "api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds=seconds)


def told(cloud: Control, id: str, path: str) -> str | None:
    status, text = ask(cloud, id, path, X_aws_ec2_metadata_token=token_of(cloud, id)[1])
    assert status in (200, 404)
    return text if status == 200 else None


async def an_instance(ec2: Any, market: str = "spot") -> str:
    await a_template(ec2, MetadataOptions={"InstanceMetadataTags": "enabled"})
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "bullpen:pool", "Value": "p"}]}]
    [id] = ids_of(await ec2.create_fleet(**a_fleet(market=market, TagSpecifications=tags)))
    return id


async def test_an_instance_learns_its_identity_and_its_zone(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        id = await an_instance(ec2)
    expected = {
        "instance-id": id,
        "instance-type": "c6a.large",
        "instance-life-cycle": "spot",
        "placement/region": REGION,
        "placement/availability-zone": SUBNETS[0].zone,
        "tags/instance/bullpen:pool": "p",
        "tags/instance/other": None,
        "iam/security-credentials/": ROLE,
    }
    assert {path: told(cloud, id, f"meta-data/{path}") for path in expected} == expected
    assert json.loads(told(cloud, id, "dynamic/instance-identity/document") or "")["instanceId"] == id


async def test_the_metadata_service_answers_only_with_a_valid_token(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        id, other = ids_of(await _two(ec2))
    assert ask(cloud, id, "meta-data/instance-id")[0] == 401
    assert token_of(cloud, id, "21601")[0] == 400
    _, token = token_of(cloud, id, "60")
    assert ask(cloud, id, "meta-data/instance-id", X_aws_ec2_metadata_token=token) == (200, id)
    assert ask(cloud, other, "meta-data/instance-id", X_aws_ec2_metadata_token=token)[0] == 401
    cloud.advance(61)
    assert ask(cloud, id, "meta-data/instance-id", X_aws_ec2_metadata_token=token)[0] == 401


async def test_tags_are_in_the_metadata_only_where_the_template_says_so(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        id, _ = ids_of(await _two(ec2))
        await ec2.create_tags(Resources=[id], Tags=[{"Key": "bullpen:pool", "Value": "p"}])
    assert told(cloud, id, "meta-data/tags/instance/bullpen:pool") is None


async def _two(ec2: Any) -> dict[str, Any]:
    await a_template(ec2)
    answer: dict[str, Any] = await ec2.create_fleet(**a_fleet(2))
    return answer


async def test_a_spot_instance_gets_a_notice_and_is_taken_when_its_time_is_over(cloud: Control) -> None:
    notice, advice = "meta-data/spot/instance-action", "meta-data/events/recommendations/rebalance"
    async with client_of(cloud) as ec2:
        id = await an_instance(ec2)
        assert (told(cloud, id, notice), told(cloud, id, advice)) == (None, None)
        cloud.rebalance(id)
        assert "noticeTime" in json.loads(told(cloud, id, advice) or "")
        cloud.interrupt(id)
        assert json.loads(told(cloud, id, notice) or "")["action"] == "terminate"
        cloud.advance(119)
        assert cloud.instances("running")
        cloud.advance(2)
        assert cloud.instances()[id]["reason"] == "Server.SpotInstanceTermination"


async def test_an_instance_proves_its_identity_and_no_other_can(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        id = await an_instance(ec2)
    got = json.loads(told(cloud, id, f"meta-data/iam/security-credentials/{ROLE}") or "")
    own = {
        "aws_access_key_id": got["AccessKeyId"],
        "aws_secret_access_key": got["SecretAccessKey"],
        "aws_session_token": got["Token"],
    }
    async with client_of(cloud, "sts", **own) as sts:
        answer = await sts.get_caller_identity()
        assert answer["Arn"] == f"arn:aws:sts::123456789012:assumed-role/{ROLE}/{id}"
    forged = {
        "SignatureDoesNotMatch": {"aws_secret_access_key": "guessed"},
        "InvalidClientTokenId": {"aws_session_token": "guessed"},
    }
    for code, change in forged.items():
        async with client_of(cloud, "sts", **{**own, **change}) as sts, refused(code):
            await sts.get_caller_identity()
    cloud.advance(6 * 3600)
    async with client_of(cloud, "sts", **own) as sts, refused("ExpiredToken"):
        await sts.get_caller_identity()


async def test_botocore_itself_finds_the_instances_role(cloud: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client_of(cloud) as ec2:
        id = await an_instance(ec2)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{cloud.url}/imds/{id}/")
    async with get_session().create_client("sts", endpoint_url=cloud.url, region_name=REGION) as sts:
        assert (await sts.get_caller_identity())["Arn"].endswith(id)
