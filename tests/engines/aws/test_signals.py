"""What DynamoSignals promises beyond every Signals: batches that are not served whole, lost answers, foreign items."""

from dataclasses import replace

import pytest

from builders import NOW, later
from bullpen.agent.progress import InstanceRecord, InstanceState
from bullpen.agent.progress import SignalKind as AgentKind
from bullpen.engines.aws.dynamodb.beats import POINTERS_LAST
from bullpen.engines.aws.dynamodb.items import Item, number, raw_key, text
from bullpen.engines.aws.dynamodb.signals import SIGNALS_LAST, DynamoSignals
from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
from bullpen.engines.system import SystemClock
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.signal import SEQ_STEP, Heartbeat, Kind, Pulse, Signal
from conformance.leases import accepted
from engines.aws.counted import CountedTable, a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop, LeaveOut

pytestmark = pytest.mark.real_loop

SIGNAL = Signal("i-1", Kind.REG_OK, "run-1", "round-1", seq=5)


class Still:
    """A clock that stands at NOW."""

    now = staticmethod(lambda: NOW)


async def test_keys_that_a_batch_did_not_process_are_asked_for_again(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        told = [replace(SIGNAL, instance_id=f"i-{number}") for number in range(3)]
        for signal in told:
            await signals.report(signal)
        bench.requests()
        bench.proxy.fail("BatchGetItem", LeaveOut(2), times=2)
        found = await signals.read([signal.instance_id for signal in told])
        assert found == {signal.instance_id: Pulse(signal) for signal in told}
        assert bench.requests() == {"BatchGetItem": 3}


async def test_a_read_takes_a_request_for_fifty_instances(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await DynamoSignals(bench.table, SystemClock()).read([f"i-{number}" for number in range(101)])
        assert bench.requests() == {"BatchGetItem": 3}


async def test_a_signal_whose_answer_was_lost_was_stored(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        bench.proxy.fail("UpdateItem", Drop())
        assert await signals.report(SIGNAL)
        assert not await signals.report(SIGNAL)


async def test_an_item_of_another_program_counts_as_no_signal_and_hides_none(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await signals.report(SIGNAL)
        await bench.table.put({**raw_key("WS", "i-2"), "seq": number(1), "value": text("UD_OK")})
        await bench.table.put({**raw_key("Heartbeat", "i-2"), "seq": number(1), "updatedAt": text("yesterday")})
        assert await signals.read(["i-1", "i-2"]) == {"i-1": Pulse(SIGNAL), "i-2": Pulse()}


@pytest.mark.parametrize("said", ["0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_a_heartbeat_with_a_time_out_of_bounds_is_ignored(
    engines: Engines, aws_settings: MakeSettings, said: str
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await bench.table.put({**raw_key("Heartbeat", "i-1"), "seq": number(1), "updatedAt": text(said)})
        assert await signals.read(["i-1"]) == {"i-1": Pulse()}


async def test_a_pointer_that_is_no_key_is_not_followed(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await signals.report(SIGNAL)
        await bench.table.put({**raw_key("Heartbeat", "i-2"), "worker": text("ä" * 600)})
        await bench.table.put({**raw_key("Heartbeat", "i-3"), "worker": number(7)})
        for _ in range(2):  # what is pointed to is remembered
            found = await signals.read(["i-1", "i-2", "i-3"])
            assert found == {"i-1": Pulse(SIGNAL), "i-2": Pulse(), "i-3": Pulse()}


async def test_only_the_beginning_of_a_long_text_is_read(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await signals.report(replace(SIGNAL, text="x" * 300_000))
        signal = (await signals.read(["i-1"]))["i-1"].signal
        assert signal is not None
        assert signal.text == "x" * REASON_LENGTH


async def test_an_agent_and_the_server_write_a_signal_into_the_same_item(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, Still())
        await signals.report(SIGNAL)
        assert await bench.item(raw_key("WS", "i-1")) | {"stamp": text("")} == {
            **raw_key("WS", "i-1"),
            "value": {"M": {"signal": text("UD_REG_OK"), "runId": text("run-1")}},
            "round": text("round-1"),
            "seq": number(5),
            "text": text(""),
            "updatedAt": text("2030-01-01T00:00:00.000000Z"),
            "ttl": number(int(NOW.timestamp()) + SIGNALS_LAST),
            "stamp": text(""),
        }


async def test_a_pointer_goes_by_itself_and_leaves_a_direct_heartbeat_alone(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await accepted(DynamoWorkers(bench.table))
        pointer = await bench.item(raw_key("Heartbeat", "i-1"))
        assert pointer["ttl"] == number(int(NOW.timestamp()) + POINTERS_LAST)
        assert await signals.beat(Heartbeat("i-1", later(1), 5))
        assert (await signals.read(["i-1"]))["i-1"].heartbeat == Heartbeat("i-1", later(1), 5)
        await accepted(DynamoWorkers(bench.table), token=1, at=later(2))
        assert (await signals.read(["i-1"]))["i-1"].heartbeat == Heartbeat("i-1", later(2), 2)


def written(signal: Signal) -> Item:
    """As a machine writes it that has no service."""
    value = {"M": {"signal": text(signal.kind), "runId": text(signal.run_id)}}
    return {**raw_key("WS", signal.instance_id), "value": value, "round": text(signal.round), "seq": number(signal.seq)}


async def test_within_a_round_a_number_that_runs_far_ahead_is_not_believed(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await bench.table.put(written(SIGNAL))
        assert (await signals.read(["i-1"]))["i-1"].signal == SIGNAL
        forged = replace(SIGNAL, kind=Kind.REG_FAILED, seq=SIGNAL.seq + SEQ_STEP + 1)
        await bench.table.put(written(forged))
        assert (await signals.read(["i-1"]))["i-1"].signal == SIGNAL
        await bench.table.put(written(later_round := replace(forged, round="round-2")))
        assert (await signals.read(["i-1"]))["i-1"].signal == later_round


async def test_a_number_that_no_agent_reaches_counts_as_none_and_blocks_no_signal(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        signals = DynamoSignals(bench.table, SystemClock())
        await bench.table.put(written(replace(SIGNAL, seq=10**30)))
        assert (await signals.read(["i-1"]))["i-1"].signal is None
        assert await signals.report(replace(SIGNAL, seq=1))


def in_direct_mode(bench: CountedTable) -> None:
    record = InstanceRecord(InstanceState.CLAIMED, "run-1", "round-1", 0.0)
    bench.agent().report(AgentKind.CLAIM_SEEN, record, "")


@pytest.mark.parametrize("seq", [SEQ_STEP + 2, 10**37])
async def test_an_agent_is_not_silenced_by_a_number_that_another_machine_wrote(
    engines: Engines, aws_settings: MakeSettings, seq: int
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        await bench.table.put(written(replace(SIGNAL, kind=Kind.REG_FAILED, seq=seq)))
        in_direct_mode(bench)
        (found,) = (await DynamoSignals(bench.table, SystemClock()).read(["i-1"])).values()
        assert found.signal == replace(SIGNAL, kind=Kind.CLAIM_SEEN, seq=1)
