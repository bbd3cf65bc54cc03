"""The console output of a machine on EC2, and why it is missing."""

import pytest

from builders import a_plan
from bullpen.engines.aws.ec2.console import ConsoleLogs
from bullpen.ports import FoundLogs
from engines.aws.pools import AwsPool, a_pool
from fakes.ec2.control import Control

pytestmark = pytest.mark.real_loop


async def a_machine(pool: AwsPool) -> str:
    answer = await pool.process().create_fleet(a_plan(count=1))
    return answer.machines[0].id


async def read(pool: AwsPool, id: str, limit: int = 1000) -> FoundLogs:
    return await ConsoleLogs(pool.session).read(id, limit)


async def test_what_a_machine_printed_is_read(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        id = await a_machine(pool)
        cloud.console(id, "booted\nagent started\n")
        found = await read(pool, id)
        assert found.logs["console.log"].content == b"booted\nagent started\n"
        assert found.missing == {"agent.log": "it is on the machine, to which Bullpen opens no connection"}
        end = (await read(pool, id, 8)).logs["console.log"]
        assert (end.content, end.size) == (b"started\n", 21)


async def test_a_machine_that_has_printed_nothing_says_so(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        found = await read(pool, await a_machine(pool))
        assert found.logs == {}
        assert "some minutes after the launch" in found.missing["console.log"]


async def test_a_machine_that_ec2_does_not_know_says_so(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        found = await read(pool, "i-0123456789abcdef0")
        assert "does not know this machine any more" in found.missing["console.log"]


async def test_an_older_type_has_only_the_output_of_its_boot(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        id = await a_machine(pool)
        cloud.console(id, "booted\n")
        cloud.refuse("GetConsoleOutput", "UnsupportedOperation", "latest is not supported", times=1)
        assert (await read(pool, id)).logs["console.log"].content == b"booted\n"


async def test_a_missing_permission_is_named_with_the_policy_that_grants_it(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        id = await a_machine(pool)
        cloud.deny("ec2:GetConsoleOutput")
        assert "`bullpen iam-policy control-plane`" in (await read(pool, id)).missing["console.log"]


async def test_a_service_that_fails_is_a_reason_and_no_error(cloud: Control) -> None:
    async with a_pool(cloud) as pool:
        id = await a_machine(pool)
        cloud.refuse("GetConsoleOutput", "InternalError", "try later", times=None)
        found = await read(pool, id)
        assert found.logs == {}
        assert "GetConsoleOutput" in found.missing["console.log"]
