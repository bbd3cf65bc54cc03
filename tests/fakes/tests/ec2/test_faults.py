"""What goes wrong on demand, each as the unmodified AWS client meets it."""

import asyncio

import pytest
from botocore.config import Config
from botocore.exceptions import HTTPClientError, ReadTimeoutError

from fakes.ec2.calling import a_fleet, a_template, client_of, codes_of, ids_of, refused, session
from fakes.ec2.control import Control
from fakes.ec2.ground import REGION, SUBNETS

pytestmark = pytest.mark.real_loop
PATIENCE = 120.0  # seconds; what is waited for takes milliseconds
CODES = {
    "capacity": (
        "InsufficientInstanceCapacity",
        "InsufficientFreeAddressesInSubnet",
        "SpotMaxPriceTooLow",
        "Unsupported",
    ),
    "quota": ("VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "InstanceLimitExceeded", "MaxFleetCountExceeded"),
    "throttle": ("RequestLimitExceeded", "EC2ThrottledException"),
    "permission": ("UnauthorizedOperation", "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
    "configuration": ("InvalidAMIID.NotFound", "InvalidSubnetID.NotFound", "InvalidUserData.Malformed"),
}


async def counted(cloud: Control, action: str, calls: int) -> None:
    """Wait until so many calls have arrived: they are counted in another process."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + PATIENCE
    while (found := cloud.calls().get(action, 0)) != calls:
        assert loop.time() < ends, f"{action} was called {found} times, not {calls}"
        await asyncio.sleep(0)


async def test_a_fleet_may_be_partial(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.capacity(3)
        answer = await ec2.create_fleet(**a_fleet(5))
        assert len(ids_of(answer)) == 3
        assert codes_of(answer) == {"InsufficientInstanceCapacity"}
        none = await ec2.create_fleet(**a_fleet(5))
        assert ids_of(none) == []
        assert "Instances" not in none


async def test_capacity_is_kept_by_type_zone_and_market(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.capacity(0, market="spot")
        cloud.capacity(0, zone=SUBNETS[0].zone)
        cloud.capacity(1, instance_type="c6a.*")
        spot = await ec2.create_fleet(**a_fleet(2, market="spot"))
        assert codes_of(spot) == {"UnfulfillableCapacity"}
        assert len(ids_of(await ec2.create_fleet(**a_fleet(2)))) == 2
        found = sorted((one["type"], one["zone"]) for one in cloud.instances().values())
        assert found == [("c5.large", SUBNETS[1].zone), ("c6a.large", SUBNETS[1].zone)]


async def test_a_minimum_makes_a_short_fleet_launch_nothing(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.capacity(3)
        options = {"MinTargetCapacity": 5, "SingleAvailabilityZone": True}
        answer = await ec2.create_fleet(**a_fleet(5, OnDemandOptions=options))
        assert ids_of(answer) == []
        assert "UnfulfillableCapacity" in codes_of(answer)
        assert len(ids_of(await ec2.create_fleet(**a_fleet(3)))) == 3


async def test_quotas_of_both_markets_are_separate_and_counted_in_vcpus(cloud: Control) -> None:
    async with client_of(cloud) as ec2, client_of(cloud, "service-quotas") as quotas:
        await a_template(ec2)
        cloud.quota("on-demand", 5)
        answer = await ec2.create_fleet(**a_fleet(3))
        assert len(ids_of(answer)) == 2
        assert codes_of(answer) == {"VcpuLimitExceeded"}
        assert len(ids_of(await ec2.create_fleet(**a_fleet(3, market="spot")))) == 3
        told = await quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-1216C47A")
        assert told["Quota"]["Value"] == 5
        assert len((await quotas.list_service_quotas(ServiceCode="ec2"))["Quotas"]) == 2


async def test_throttling_comes_as_an_error_and_inside_an_answer(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.refuse("CreateFleet", "RequestLimitExceeded")
        async with refused("RequestLimitExceeded"):
            await ec2.create_fleet(**a_fleet())
        cloud.spoil("RequestLimitExceeded", launches=1)
        answer = await ec2.create_fleet(**a_fleet(4))
        assert codes_of(answer) == {"RequestLimitExceeded"}
        assert len(ids_of(answer)) == 1
        assert "Errors" not in await ec2.create_fleet(**a_fleet())


async def test_every_class_of_error_comes_both_ways(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        for code in [code for codes in CODES.values() for code in codes]:
            cloud.refuse("CreateFleet", code, "so it is")
            async with refused(code):
                await ec2.create_fleet(**a_fleet())
            cloud.spoil(code)
            assert codes_of(await ec2.create_fleet(**a_fleet())) == {code}
    assert cloud.instances() == {}


async def test_errors_may_accompany_full_success(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.spoil("InsufficientInstanceCapacity", launches=None)
        answer = await ec2.create_fleet(**a_fleet(4))
        assert len(ids_of(answer)) == 4
        assert codes_of(answer) == {"InsufficientInstanceCapacity"}


async def test_a_client_with_retries_gets_over_a_few_throttles(cloud: Control) -> None:
    async with session().create_client("ec2", endpoint_url=cloud.url, region_name=REGION) as ec2:
        cloud.refuse("DescribeInstances", "RequestLimitExceeded", times=1)
        assert (await ec2.describe_instances())["Reservations"] == []
    assert cloud.calls()["DescribeInstances"] == 2


async def test_a_denied_action_is_denied_by_name_and_shown_by_the_policy_simulator(cloud: Control) -> None:
    cloud.deny("ec2:TerminateInstances")
    async with client_of(cloud) as ec2, client_of(cloud, "iam") as iam:
        async with refused("UnauthorizedOperation"):
            await ec2.terminate_instances(InstanceIds=["i-00000000000000000"], DryRun=True)
        answer = await iam.simulate_principal_policy(
            PolicySourceArn="arn:aws:iam::123456789012:user/operator",
            ActionNames=["ec2:TerminateInstances", "ec2:CreateFleet"],
        )
        assert [one["EvalDecision"] for one in answer["EvaluationResults"]] == ["implicitDeny", "allowed"]
        cloud.allow("ec2:TerminateInstances")
        async with refused("DryRunOperation"):
            await ec2.terminate_instances(InstanceIds=["i-00000000000000000"], DryRun=True)


async def test_a_lost_answer_leaves_the_work_done(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        await a_template(ec2)
        cloud.lose_answer("CreateFleet")
        with pytest.raises(HTTPClientError):
            await ec2.create_fleet(**a_fleet(2, ClientToken="kept"))
        assert len(cloud.instances()) == 2
        answer = await ec2.create_fleet(**a_fleet(2, ClientToken="kept"))
        assert sorted(ids_of(answer)) == sorted(cloud.instances())


async def test_a_slow_action_is_done_before_its_answer_or_begun_late(cloud: Control) -> None:
    impatient = Config(read_timeout=0.3, retries={"total_max_attempts": 1})
    where = {"endpoint_url": cloud.url, "region_name": REGION}
    async with client_of(cloud) as patient, session().create_client("ec2", config=impatient, **where) as ec2:
        await a_template(patient)
        for launched, is_before in ((0, True), (1, False)):
            cloud.slow("CreateFleet", 60, before=is_before)
            with pytest.raises(ReadTimeoutError):
                await ec2.create_fleet(**a_fleet())
            await counted(cloud, "CreateFleet", launched + 1)
            assert len(cloud.instances()) == launched


async def test_what_comes_too_late_for_its_test_does_nothing_to_the_next(cloud: Control) -> None:
    async with client_of(cloud) as ec2:
        cloud.slow("DescribeInstances", 60, before=True)
        late = asyncio.create_task(ec2.describe_instances())
        await counted(cloud, "DescribeInstances", 1)
        cloud.reset()
        async with refused("InternalError"):
            await late


async def test_other_services_spell_their_errors_their_own_way(cloud: Control) -> None:
    async with client_of(cloud, "iam") as iam, client_of(cloud, "service-quotas") as quotas:
        async with refused("NoSuchEntity"):
            await iam.get_instance_profile(InstanceProfileName="other")
        async with refused("NoSuchResourceException"):
            await quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-0")
        profile = await iam.get_instance_profile(InstanceProfileName="bullpen-instance")
        assert profile["InstanceProfile"]["Roles"][0]["RoleName"] == "bullpen-instance"


def test_an_order_that_makes_no_sense_is_refused(cloud: Control) -> None:
    with pytest.raises(ValueError, match="no timing"):
        cloud.timing(moon=1)
