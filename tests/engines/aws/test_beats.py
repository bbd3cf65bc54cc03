"""What beats cost on DynamoDB, and that none is lost or counted twice when an answer is."""

import pytest

from builders import later
from bullpen.engines.aws.dynamodb.beats import renewal
from bullpen.engines.aws.dynamodb.forgotten import LASTS
from bullpen.engines.aws.dynamodb.items import key_of, raw_key, text
from bullpen.engines.aws.dynamodb.records import DynamoRecords
from bullpen.engines.aws.dynamodb.schema import indexes
from bullpen.engines.aws.dynamodb.signals import DynamoSignals
from bullpen.engines.aws.dynamodb.workers import DynamoWorkers
from bullpen.engines.system import SystemClock
from bullpen.errors import PermissionDenied
from bullpen.model.worker import ABSENT, Accepted, Code, Rejected, Worker
from conformance.leases import KEY, a_beat, accepted, beaten, clean_up, lost, stored
from engines.aws.counted import a_bench
from fakes.aws_fixtures import MakeSettings
from fakes.java_engines import Engines
from fakes.proxy import Drop, Failure

pytestmark = pytest.mark.real_loop


async def test_an_accepted_beat_is_one_write(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await beaten(workers)
        assert bench.requests() == {"BatchGetItem": 1, "TransactWriteItems": 1}  # the epoch after all forgotten ones
        await beaten(workers, "i-2/other", instance_id="i-2", at=later(LASTS - 1))
        assert bench.requests() == {"TransactWriteItems": 1}  # which is remembered for some seconds
        for token in (1, 2):
            await beaten(workers, token=token, at=later(token))
            assert bench.requests() == {"UpdateItem": 1}


async def test_a_rejected_beat_is_one_write_too(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await beaten(workers)
        bench.requests()
        (late,) = await workers.beat([(KEY, a_beat(7))])
        assert isinstance(late, Rejected)
        assert bench.requests() == {"UpdateItem": 1}


async def test_a_first_beat_with_a_key_whose_tombstone_dynamodb_removed_begins_in_a_later_epoch(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, epochs = DynamoRecords(bench.table), []
        for _ in range(2):
            workers = DynamoWorkers(bench.table)  # another process, which remembers nothing
            worker = await lost(records, workers)
            await records.apply(clean_up(worker, later(9000)))
            await bench.table.delete(key_of(Worker, KEY))  # as DynamoDB does, by its time to live
            epochs.append(worker.epoch)
        assert epochs == [1, 2]


async def test_what_is_known_of_forgotten_epochs_is_not_written_again(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        records, workers = DynamoRecords(bench.table), DynamoWorkers(bench.table)
        worn = [await lost(records, workers, f"i-{number}/key") for number in range(3)]
        bench.requests()
        await records.apply_each([clean_up(worn[0], later(9000)), clean_up(worn[1], later(9000))])
        assert bench.requests() == {"UpdateItem": 1, "TransactWriteItems": 1}
        await records.apply(clean_up(worn[2], later(9000)))
        assert bench.requests() == {"UpdateItem": 1}


def test_a_beat_writes_no_attribute_of_an_index() -> None:
    keyed = {key["AttributeName"] for index in indexes() for key in index["KeySchema"]}
    projected = {name for index in indexes()[-1:] for name in index["Projection"]["NonKeyAttributes"]}
    request = renewal(KEY, a_beat(1))
    written = {name for alias, name in request["ExpressionAttributeNames"].items() if alias in _set(request)}
    assert written == {"rev", "seq", "deadline", "lease", "updatedAt", "requestId", "activity"}
    assert written.isdisjoint(keyed | projected)


def _set(request: dict[str, str]) -> set[str]:
    return {word.strip(",") for word in request["UpdateExpression"].split() if word.startswith("#")}


async def test_a_lease_that_gets_shorter_moves_its_timer_with_one_more_write(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await beaten(workers)
        bench.requests()
        await beaten(workers, token=1, lease=5.0)
        assert bench.requests() == {"UpdateItem": 2}
        assert (await bench.item(key_of(Worker, KEY)))["dueSort"] == text("2030-01-01T00:00:05.000000Z")


async def test_a_batch_is_one_write_for_each_beat(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        keys = [f"i-{number}/x" for number in range(40)]
        await workers.beat([(key, a_beat(instance_id=key.partition("/")[0])) for key in keys])
        bench.requests()
        answers = await workers.beat([(key, a_beat(1, instance_id=key.partition("/")[0])) for key in keys])
        assert all(isinstance(answer, Accepted) for answer in answers)
        assert bench.requests() == {"UpdateItem": 40}


@pytest.mark.parametrize(("token", "operation"), [(0, "TransactWriteItems"), (1, "UpdateItem")])
async def test_a_beat_whose_answer_was_lost_counts_once(
    engines: Engines, aws_settings: MakeSettings, token: int, operation: str
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        for earlier in range(token):
            await beaten(workers, token=earlier)
        bench.proxy.fail(operation, Drop())
        worker = await accepted(workers, token=token)
        assert (worker.token, worker.epoch) == (token + 1, 1)
        assert await stored(workers) == worker


async def test_a_beat_that_meets_an_item_of_another_program_fails_alone(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await bench.table.put({**key_of(Worker, KEY), "seq": text("many"), "rev": text("1")})
        answers = await workers.beat([(KEY, a_beat(1)), ("i-2/x", a_beat(instance_id="i-2"))])
        assert answers[0] == Rejected(Code.UNKNOWN, ABSENT, 0)
        assert isinstance(answers[1], Accepted)


async def test_credentials_that_ran_out_cost_no_worker_its_key(engines: Engines, aws_settings: MakeSettings) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers = DynamoWorkers(bench.table)
        await beaten(workers)
        bench.proxy.fail("UpdateItem", Failure("ExpiredTokenException"), times=None)
        with pytest.raises(PermissionDenied):
            await workers.beat([(KEY, a_beat(1))])


async def test_an_instance_points_to_the_worker_that_began_to_beat_for_it_last(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, signals = DynamoWorkers(bench.table), DynamoSignals(bench.table, SystemClock())
        await beaten(workers, "i-1/old", at=later(1))
        assert (await signals.read(["i-1"]))["i-1"].heartbeat is not None
        await beaten(workers, "i-1/new", at=later(2))
        bench.requests()
        found = (await signals.read(["i-1"]))["i-1"].heartbeat
        assert found is not None
        assert (found.at, found.seq) == (later(2), 1)
        assert bench.requests() == {"BatchGetItem": 2}  # it pointed elsewhere when we last looked
        await beaten(workers, "i-1/new", token=1, at=later(3))
        bench.requests()
        found = (await signals.read(["i-1"]))["i-1"].heartbeat
        assert found is not None
        assert found.at == later(3)
        assert bench.requests() == {"BatchGetItem": 1}


async def test_an_instance_of_many_keys_is_heard_by_the_last_and_costs_a_few_reads(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, signals = DynamoWorkers(bench.table), DynamoSignals(bench.table, SystemClock())
        spent = [f"i-1/{number:03}" for number in range(300)]
        await bench.table.put({**raw_key("Heartbeat", "i-1"), "worker": text(spent[0]), "workers": {"SS": spent}})
        await beaten(workers, "i-1/last", at=later(99))
        bench.requests()
        found = (await signals.read(["i-1"]))["i-1"].heartbeat
        assert found is not None
        assert found.at == later(99)
        assert bench.requests() == {"BatchGetItem": 2}


async def test_a_worker_that_moves_to_another_instance_is_found_there(
    engines: Engines, aws_settings: MakeSettings
) -> None:
    async with a_bench(engines, aws_settings) as bench:
        workers, signals = DynamoWorkers(bench.table), DynamoSignals(bench.table, SystemClock())
        await beaten(workers)
        await beaten(workers, token=1, at=later(1), instance_id="i-2")
        found = (await signals.read(["i-2"]))["i-2"].heartbeat
        assert found is not None
        assert found.at == later(1)
