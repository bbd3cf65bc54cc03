"""Agents that write their own heartbeats: a sweeper gives them their lease, by its own clock.

Here the agent is the real one, and its clock is years behind that of the sweeper.
"""

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from builders import NOW, later
from bullpen import __version__
from bullpen.agent.build import build_id
from bullpen.engines.aws.dynamodb.items import Item, key_of, moment, text
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.signals import DynamoSignals
from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
from bullpen.engines.system import SystemClock
from bullpen.errors import Conflict
from bullpen.model.worker import ACTIVE, INACTIVE, Worker, WorkerFate
from conformance.leases import accepted, clean_up, lose, stored
from engines.aws.counted import CountedTable, a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines

pytestmark = pytest.mark.real_loop

DIRECT = "i-1/direct"


async def given_up(bench: CountedTable, workers: DynamoWorkers, **changed: WorkerFate) -> Worker:
    """A worker that was swept once, at NOW, and lost when its lease of 15 s ran out."""
    await workers.rearm(NOW, 10)
    (lost,) = await DynamoRecords(bench.table).apply(lose(await stored(workers, DIRECT), later(15), **changed))
    assert isinstance(lost, Worker)
    return lost


async def test_the_first_sweep_gives_the_lease_by_its_own_clock(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table, census_lasts=0), bench.agent()
        before = datetime.now(UTC)
        agent.beat(None)
        unseen = await stored(workers, DIRECT)
        assert (unseen.state, unseen.epoch, unseen.deadline) == (ACTIVE, 1, None)
        assert await workers.suspects(NOW, 10) == []  # a worker is not judged by a beat that no sweeper has seen
        assert await workers.census() == {("zone-a", "active"): 1}
        assert await workers.rearm(NOW, 10) == 1
        seen = await stored(workers, DIRECT)
        assert (seen.state, seen.epoch, seen.token) == (ACTIVE, 1, 1)
        assert (seen.deadline, seen.due_at, seen.instance_id) == (later(15), later(15), "i-1")
        assert seen.beat_at is not None
        assert before <= seen.beat_at <= datetime.now(UTC)  # when it beat is for the agent to say
        assert await workers.listed(10) == [seen]


async def test_an_agent_reports_its_activity_and_a_sweep_leaves_it_unchanged(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        for second, activity in enumerate(("", "build", "test", "")):
            agent.beat(None, activity=activity)
            assert (await stored(workers, DIRECT)).activity == activity
            assert await workers.rearm(later(20 * second), 10) == 1
            assert (await stored(workers, DIRECT)).activity == activity
            heartbeat = (await DynamoSignals(bench.table, SystemClock()).read(["i-1"]))["i-1"].heartbeat
            assert heartbeat is not None
            assert heartbeat.activity == activity


async def test_the_first_beat_of_an_agent_carries_its_identity(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        for _ in range(2):
            card = (await workers.cards([DIRECT]))[DIRECT]
            assert (card.build_id, card.agent_version) == (build_id(), __version__)
            assert card.pid == os.getpid()
            agent.beat(None)
            await workers.rearm(NOW, 10)


async def test_an_agent_that_goes_on_beating_is_no_suspect_whatever_its_clock_says(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        for second in range(0, 60, 5):
            agent.beat(None)
            await workers.rearm(later(second), 10)
            assert await workers.suspects(later(second), 10) == []
        assert (await stored(workers, DIRECT)).epoch == 1


async def test_an_agent_that_stops_beating_is_a_suspect_when_its_lease_is_out(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await workers.rearm(NOW, 10)
        assert await workers.rearm(later(15), 10) == 0
        assert await workers.suspects(later(14.999999), 10) == []
        assert [one.id for one in await workers.suspects(later(15), 10)] == [DIRECT]
        agent.beat(None)
        assert await workers.suspects(later(15), 10) == []
        assert await workers.rearm(later(16), 10) == 1
        seen = await stored(workers, DIRECT)
        assert (seen.deadline, seen.due_at) == (later(31), later(31))


async def test_no_sweeper_gives_up_an_agent_over_a_beat_that_it_has_not_seen(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await workers.rearm(NOW, 10)
        (suspect,) = await workers.suspects(later(15), 10)
        agent.beat(None)
        with pytest.raises(Conflict):
            await DynamoRecords(bench.table).apply(lose(suspect, later(15)))
        assert (await stored(workers, DIRECT)).state is ACTIVE


async def test_a_lost_agent_that_beats_again_comes_back_in_a_new_epoch(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await given_up(bench, workers)
        assert await workers.rearm(later(20), 10) == 0
        agent.beat(None)
        assert await workers.to_clean(later(9000), 10) == []  # it is back, and only has to be seen
        assert await workers.rearm(later(21), 10) == 1
        back = await stored(workers, DIRECT)
        assert (back.state, back.epoch, back.deadline, back.cleanup_at) == (ACTIVE, 2, later(36), None)
        assert back.owes_reschedule
        assert [one.id for one in await workers.suspects(later(36), 10)] == [DIRECT]
        assert agent.beat(None).holder.epoch == 2


async def test_an_agent_whose_instance_is_being_ended_does_not_come_back(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await given_up(bench, workers, fate=WorkerFate.RETIRE)
        assert agent.beat(None).retired
        assert await workers.rearm(later(20), 10) == 0
        assert (await stored(workers, DIRECT)).state is INACTIVE
        assert [one.id for one in await workers.to_clean(later(3600), 10)] == [DIRECT]


async def test_a_tombstone_expires_and_its_agent_is_asked_to_end(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table, census_lasts=0), bench.agent()
        agent.beat(None)
        lost = await given_up(bench, workers)
        (tombstone,) = await DynamoRecords(bench.table).apply(clean_up(lost, later(9000)))
        assert agent.beat(None).retired
        assert await stored(workers, DIRECT) == tombstone
        assert await workers.listed(10) == []
        assert await workers.census() == {}
        pulses = await DynamoSignals(bench.table, SystemClock()).read(["i-1"])
        assert pulses["i-1"].heartbeat is None


async def test_an_agent_that_slept_until_its_tombstone_was_removed_begins_in_a_later_epoch(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await DynamoRecords(bench.table).apply(clean_up(await given_up(bench, workers), later(9000)))
        await bench.table.delete(key_of(Worker, DIRECT))  # as DynamoDB does once its time to live is over
        agent.beat(None)
        assert await workers.rearm(later(9000), 10) == 1
        assert (await stored(workers, DIRECT)).epoch == 2
        assert agent.beat(None).holder.epoch == 2


async def test_an_absurd_epoch_that_an_agent_writes_of_itself_does_not_move_those_of_others(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        lost = await given_up(bench, workers)
        absurd = {"epoch": {"N": "1" + "0" * 20}}
        await bench.table.put({**await bench.item(key_of(Worker, DIRECT)), **absurd})
        await DynamoRecords(bench.table).apply(clean_up(replace(lost, epoch=10**20), later(9000)))
        assert (await accepted(DynamoWorkers(bench.table), "i-2/other")).epoch == 1


async def test_an_agent_that_says_it_is_leaving_is_listed_once_a_sweep_has_seen_it(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None, leaving=later(120))
        await workers.rearm(NOW, 10)
        (leaving,) = await workers.leaving(10)
        assert (leaving.id, leaving.leaving) == (DIRECT, later(120))


async def test_the_pulse_of_an_agent_is_read_without_knowing_any_key(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        agent, signals = bench.agent(), DynamoSignals(bench.table, SystemClock())
        agent.beat(None)
        first = (await signals.read(["i-1"]))["i-1"].heartbeat
        agent.beat(None)
        second = (await signals.read(["i-1"]))["i-1"].heartbeat
        assert first is not None
        assert second is not None
        assert (first.seq, second.seq) == (1, 2)
        assert text(moment(second.at)) == (await bench.item(key_of(Worker, DIRECT)))["updatedAt"]


# ---- what an agent may write of itself


@pytest.mark.parametrize(("asked", "granted"), [("1000000000000", 3600), ("1E+120", 3600), ("0.01", 5), ("-5", 60)])
async def test_an_agent_gives_itself_no_lease_out_of_bounds(
    engines: Engines, aws_settings: MakeSettings, asked: str, granted: int
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, agent = DynamoWorkers(bench.table), bench.agent()
        agent.beat(None)
        await bench.table.put({**await bench.item(key_of(Worker, DIRECT)), "lease": {"N": asked}})
        assert await workers.rearm(NOW, 10) == 1
        assert (await stored(workers, DIRECT)).deadline == later(granted)


@pytest.mark.parametrize(
    "absurd",
    [
        {"updatedAt": text("0001-01-01T00:00:00+14:00")},
        {"updatedAt": text("9999-12-31T23:59:59-14:00")},
        {"leaving": text("0001-01-01T00:00:00Z")},
        {"rev": {"N": "1" + "0" * 38}, "state": text("active"), "epoch": {"N": "1"}},
        {"lease": text("long")},
    ],
    ids=str,
)
async def test_an_agent_that_writes_nonsense_of_itself_stops_no_sweep(
    engines: Engines, aws_settings: MakeSettings, absurd: Item
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        bench.agent("i-1").beat(None)
        bench.agent("i-2").beat(None)
        await bench.table.put({**await bench.item(key_of(Worker, DIRECT)), **absurd})
        assert await workers.rearm(NOW, 10) == 1
        assert [one.id for one in await workers.suspects(later(15), 10)] == ["i-2/direct"]
