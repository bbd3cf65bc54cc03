"""A served machine without an agent says why in a partition of its own, and `read` shows it."""

from pathlib import Path

import pytest

from builders import register
from bullpen.config import Agent
from bullpen.engines.aws.dynamodb.items import encode, key_of, raw_key, text
from bullpen.engines.aws.dynamodb.signals import BootFailures, DynamoSignals
from bullpen.engines.aws.dynamodb.table import TableClient
from bullpen.engines.system import SystemClock
from bullpen.model.boot import ITEM, failure_kind, machine_arn
from bullpen.model.instance import CLAIMED, Instance
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import Kind, Pulse, Signal
from bullpen.pool.watcher import SignalFailed, reaching
from engines.aws.counted import a_bench
from engines.aws.tables import a_table
from engines.aws.test_served import launch
from fakes.aws_fixtures import MakeSettings
from fakes.ec2 import ground
from fakes.ec2.control import Control
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop
REGION = "eu-central-1"
ID = "i-0123456789abcdef0"
RECORD = register(ID, run_id="run-1").after


def served(table: TableClient) -> DynamoSignals:
    return DynamoSignals(table, SystemClock(), BootFailures(table, ground.ROLE_ARN))


async def leave_word(table: TableClient, id: str, said: str, account: str = ground.ACCOUNT) -> None:
    key = raw_key(failure_kind(machine_arn(REGION, account, id)), ITEM)
    await table.put({**key, "text": text(said)})


async def test_a_boot_that_failed_is_a_failure_of_the_round_that_waits_for_it(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.table.put({**key_of(Instance, ID), **encode(RECORD)})
        await leave_word(bench.table, ID, "no Python")
        (pulse,) = (await served(bench.table).read([ID])).values()
        assert pulse == Pulse(Signal(ID, Kind.FAILED, "run-1", RECORD.round, 1, "no Python"))
        assert reaching(Kind.OK, RECORD.round)(pulse) == SignalFailed("UD_FAILED: no Python")


async def test_a_failure_of_a_machine_without_a_record_that_boots_is_ignored(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        claimed = encode(RECORD) | {"state": text(CLAIMED.value)}
        await bench.table.put({**key_of(Instance, ID), **claimed})
        await leave_word(bench.table, ID, "too late")
        await leave_word(bench.table, "i-1", "of no record")
        await leave_word(bench.table, "i-2", "of another account", account="999999999999")
        assert await served(bench.table).read([ID, "i-1", "i-2"]) == dict.fromkeys([ID, "i-1", "i-2"], Pulse())


async def test_only_machines_that_never_reported_are_asked_about(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = served(bench.table)
        await signals.report(Signal("i-1", Kind.OK, "", "round-1", 1))
        bench.requests()
        await signals.read(["i-1"])
        assert bench.requests() == {"BatchGetItem": 1}
        await signals.read(["i-1", "i-2"])
        assert bench.requests() == {"BatchGetItem": 2}


async def test_a_machine_that_writes_anything_spoils_no_read(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.table.put({**key_of(Instance, ID), **encode(RECORD)})
        await leave_word(bench.table, ID, "x" * 10_000)
        (long,) = (await served(bench.table).read([ID])).values()
        assert long.signal is not None
        assert len(long.signal.text) == REASON_LENGTH
        key = raw_key(failure_kind(machine_arn(REGION, ground.ACCOUNT, ID)), ITEM)
        await bench.table.put({**key, "text": {"N": "1"}})
        (other,) = (await served(bench.table).read([ID])).values()
        assert other.signal is not None
        assert other.signal.text == "the boot failed and gave no reason"


@pytest.mark.slow
async def test_a_provision_that_waits_for_a_machine_without_an_agent_reads_why(
    tmp_path: Path, cloud: Control, aws_settings: MakeSettings
) -> None:
    """A real boot, from the real user data; nothing is served, so no agent could report."""
    settings = aws_settings(
        endpoints={"sts": cloud.url, "ec2": cloud.url},
        agent=Agent(serve_url="http://127.0.0.1:1"),
        region=ground.REGION,
        instance_role=ground.ROLE_ARN,
    )
    async with a_table(settings.aws) as table:
        id = await launch(cloud, tmp_path / "machines", settings)
        await table.put({**key_of(Instance, id), **encode(register(id).after)})
        signals = served(table)
        while (signal := (await signals.read([id]))[id].signal) is None:
            await signals.wait(0.1)
    assert signal.kind is Kind.FAILED
    assert "has no agent" in signal.text
    assert "run `bullpen refresh`" in signal.text
