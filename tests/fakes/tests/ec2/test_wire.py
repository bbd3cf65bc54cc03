"""The wire below the client: what only a client that is not AWS's own would send, and what there is to launch on."""

import urllib.error
import urllib.parse
import urllib.request

import pytest

from fakes.ec2.calling import client_of, refused
from fakes.ec2.control import Control
from fakes.ec2.ground import AMAZON_LINUX, SECURITY_GROUP, SUBNETS, UBUNTU

SCOPE = "Credential=AKIA/20261115/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"


def post(cloud: Control, form: dict[str, str], authorization: str = f"AWS4-HMAC-SHA256 {SCOPE}") -> str:
    body = urllib.parse.urlencode(form).encode()
    try:
        request = urllib.request.Request(cloud.url, body, {"Authorization": authorization})
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("UnknownParameter", {"Action": "DescribeInstances", "Moon": "1"}),
        ("UnknownParameter", {"Action": "DescribeInstances", "Filter.1.Moon": "1"}),
        ("InvalidParameterValue", {"Action": "DescribeInstances", "MaxResults": "many"}),
        ("InvalidParameterValue", {"Action": "DescribeInstances", "InstanceId.x": "i-1"}),
        ("InvalidParameterValue", {"Action": "CreateFleet", "Type": "sometimes"}),
        ("MissingParameter", {"Action": "TerminateInstances"}),
        (
            "MissingParameter",
            {
                "Action": "CreateLaunchTemplate",
                "LaunchTemplateName": "pool-1",
                "LaunchTemplateData.InstanceRequirements.VCpuCount.Max": "2",
            },
        ),
        ("InvalidAction", {"Action": "RunInstances"}),
    ],
)
def test_what_the_services_description_does_not_know_is_refused(
    cloud: Control, code: str, form: dict[str, str]
) -> None:
    assert f"<Code>{code}</Code>" in post(cloud, form)


def test_a_request_without_a_signature_is_refused(cloud: Control) -> None:
    assert "<Code>MissingAuthenticationToken</Code>" in post(cloud, {"Action": "DescribeInstances"}, "")


@pytest.mark.real_loop
async def test_the_ground_is_described(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        ids = [subnet.id for subnet in SUBNETS]
        subnets = (await ec2.describe_subnets(SubnetIds=ids))["Subnets"]
        assert len({one["AvailabilityZone"] for one in subnets}) == 6
        async with refused("InvalidSubnetID.NotFound"):
            await ec2.describe_subnets(SubnetIds=[*ids, "subnet-0"])
        assert len((await ec2.describe_availability_zones())["AvailabilityZones"]) == 6
        images = (await ec2.describe_images(ImageIds=[AMAZON_LINUX.id, UBUNTU.id]))["Images"]
        assert [one["RootDeviceName"] for one in images] == ["/dev/xvda", "/dev/sda1"]
        async with refused("InvalidAMIID.NotFound"):
            await ec2.describe_images(ImageIds=["ami-0"])
        assert (await ec2.describe_security_groups(GroupIds=[SECURITY_GROUP]))["SecurityGroups"]
        async with refused("InvalidGroup.NotFound"):
            await ec2.describe_security_groups(GroupIds=["sg-0"])


@pytest.mark.real_loop
async def test_types_are_described_with_what_they_have(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        [kind] = (await ec2.describe_instance_types(InstanceTypes=["t3.medium"]))["InstanceTypes"]
        assert (kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"]) == (2, 4096)
        assert kind["BurstablePerformanceSupported"]
        async with refused("InvalidInstanceType"):
            await ec2.describe_instance_types(InstanceTypes=["m5.large", "x1.tiny"])
