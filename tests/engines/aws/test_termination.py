"""Machines on EC2 are ended for certain, one bad id spoils nothing, and machines of others are not touched."""

from datetime import timedelta

import pytest

from builders import a_plan
from bullpen.errors import PermissionDenied
from engines.aws.pools import UNKNOWN, a_pool, running
from fakes.ec2.calling import a_fleet, a_template, client_of, ids_of
from fakes.ec2.control import Control
from fakes.ec2.ground import REGION

pytestmark = pytest.mark.real_loop


async def test_what_was_launched_here_is_ended_without_a_look(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        ids = [machine.id for machine in (await one.create_fleet(a_plan(count=3))).machines]
        assert await one.terminate(ids) == ids
        assert running(cloud) == set()
        assert "DescribeInstances" not in cloud.calls()
        assert await one.terminate(ids) == ids  # and again


async def test_hundreds_are_ended_in_chunks(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        ids = [machine.id for machine in (await pool.process().create_fleet(a_plan(count=250))).machines]
        assert await pool.process().terminate([*ids, *ids]) == ids
        assert cloud.calls()["TerminateInstances"] == 3
        assert running(cloud) == set()


async def test_one_bad_id_does_not_spoil_the_batch(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        ids = [machine.id for machine in (await one.create_fleet(a_plan(count=9))).machines]
        certain = await one.terminate([*ids[:5], "no-id", UNKNOWN, *ids[5:]])
        assert certain == [*ids[:5], "no-id", *ids[5:]]  # the unknown one may just not be seen yet
        assert running(cloud) == set()
        assert cloud.calls()["TerminateInstances"] == 3  # those that are known, the others, the others without "no-id"


async def test_a_bad_id_that_ec2_does_not_name_is_found_by_halving(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        ids = [machine.id for machine in (await one.create_fleet(a_plan(count=4))).machines]
        cloud.refuse("TerminateInstances", "OperationNotPermitted", "one of them is protected", times=3)
        # All four, then the last two, then the last one: that is it. Only the owner of its protection can let it end.
        assert await one.terminate(ids) == ids[:3]
        assert running(cloud) == {ids[3]}


async def test_a_protected_machine_stays_and_sightings_show_the_remedy_until_it_has_ended(
    cloud: Control, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        (machine,) = (await one.create_fleet(a_plan())).machines
        cloud.refuse("TerminateInstances", "OperationNotPermitted", "may not be terminated", times=1)
        assert await one.terminate([machine.id]) == []
        (seen,) = await one.sightings()
        remedy = "switch termination protection (DisableApiTermination) off"
        assert seen.stays == f"EC2 TerminateInstances: may not be terminated; {remedy}"
        assert f'instance={machine.id} reason="{seen.stays}"' in caplog.text
        assert await one.terminate([machine.id]) == [machine.id]
        assert [seen.stays for seen in await one.sightings()] == [""]


async def test_a_protected_machine_causes_one_warning_however_often_it_is_to_end(
    cloud: Control, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        (machine,) = (await one.create_fleet(a_plan())).machines
        cloud.refuse("TerminateInstances", "OperationNotPermitted", "may not be terminated", times=20)
        for _ in range(20):
            assert await one.terminate([machine.id]) == []
        assert [record.levelname for record in caplog.records].count("WARNING") == 1
        assert await one.terminate([machine.id]) == [machine.id]


async def test_machines_of_another_pool_or_without_a_tag_are_not_touched_and_count_as_gone(cloud: Control) -> None:
    async with a_pool(cloud, pool="other") as other, a_pool(cloud) as pool, client_of(cloud) as ec2:
        (theirs,) = (await other.process().create_fleet(a_plan())).machines
        (ours,) = (await pool.process().create_fleet(a_plan())).machines
        await a_template(ec2)
        (untagged,) = ids_of(await ec2.create_fleet(**a_fleet()))
        assert await pool.process().terminate([theirs.id, ours.id, untagged]) == [theirs.id, ours.id, untagged]
        assert running(cloud) == {theirs.id, untagged}


async def test_a_machine_just_launched_by_another_process_and_not_listed_yet_is_ended_too(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        cloud.timing(describe_lag=3600.0)
        (machine,) = (await pool.process().create_fleet(a_plan())).machines
        assert await pool.process().sightings() == []
        assert await pool.process().terminate([machine.id]) == [machine.id]
        assert running(cloud) == set()


async def test_a_machine_that_ec2_does_not_know_yet_is_not_gone_until_a_minute_has_passed(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        assert await pool.process().terminate([UNKNOWN]) == []
        pool.clock.time += timedelta(seconds=59)
        assert await pool.process().terminate([UNKNOWN]) == []
        pool.clock.time += timedelta(seconds=1)
        assert await pool.process().terminate([UNKNOWN]) == [UNKNOWN]


async def test_a_machine_that_was_missed_and_then_appears_is_ended(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        (machine,) = (await one.create_fleet(a_plan())).machines
        said = f"The instance ID '{machine.id}' does not exist"
        cloud.refuse("TerminateInstances", "InvalidInstanceID.NotFound", said)
        assert await one.terminate([machine.id]) == []
        pool.clock.time += timedelta(seconds=90)
        assert await one.terminate([machine.id]) == [machine.id]
        assert running(cloud) == set()


async def test_what_is_ending_already_needs_no_call(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        (machine,) = (await pool.process().create_fleet(a_plan())).machines
        await pool.process().terminate([machine.id])
        before = cloud.calls()["TerminateInstances"]
        assert await pool.process().terminate([machine.id]) == [machine.id]
        assert cloud.calls()["TerminateInstances"] == before


async def test_without_permission_to_end_machines_the_call_is_named(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        one = pool.process()
        (machine,) = (await one.create_fleet(a_plan())).machines
        cloud.deny("ec2:TerminateInstances")
        with pytest.raises(PermissionDenied, match="EC2 TerminateInstances") as denial:
            await one.terminate([machine.id])
        assert "bullpen iam-policy control-plane" in denial.value.remedy


async def test_a_denial_for_a_machine_that_is_not_listed_says_only_that_it_is_missing(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        said = f"not authorized: ec2:TerminateInstances on resource arn:aws:ec2:{REGION}:1:instance/{UNKNOWN}"
        other = UNKNOWN.replace("0", "1")
        cloud.refuse("TerminateInstances", "UnauthorizedOperation", said)
        assert await pool.process().terminate([UNKNOWN, other]) == []
        assert list(pool.notes.since) == [UNKNOWN, other]
