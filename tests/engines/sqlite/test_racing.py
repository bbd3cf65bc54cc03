"""Several processes on one home: one winner for each claim, nothing lost, nothing half done."""

import asyncio
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders import claim, on_offer
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.errors import Conflict
from bullpen.model.instance import CLAIMED
from conformance.landing import land, land_all
from engines.sqlite.processes import a_line_of, a_process

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]

IDS = [f"i-{number:03}" for number in range(100)]

CLAIMS_ALL = """
import asyncio, pathlib, random, sys
sys.path.append(sys.argv[3])
from builders import claim
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords
from bullpen.errors import Conflict

async def main():
    async with Database.open(pathlib.Path(sys.argv[1]), patience=60) as database:
        records = SqliteRecords(database)
        seen = list((await records.instances([f"i-{number:03}" for number in range(100)])).values())
        random.Random(sys.argv[2]).shuffle(seen)
        print("ready", flush=True)
        sys.stdin.readline()
        won = []
        for instance in seen:
            change = claim(instance, run_id=sys.argv[2], round=f"{instance.id} {sys.argv[2]}")
            try:
                await records.apply(change)
            except Conflict:
                continue
            won.append(instance.id)
        print(*won, flush=True)

asyncio.run(main())
"""

CLAIMS_TOGETHER_FOR_EVER = """
import asyncio, pathlib, sys
sys.path.append(sys.argv[2])
from builders import claim, on_offer
from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.records import SqliteRecords

async def main():
    async with Database.open(pathlib.Path(sys.argv[1])) as database:
        records = SqliteRecords(database)
        batch = 0
        while True:
            walks = [on_offer(f"i-{batch}-{number}") for number in range(20)]
            await records.apply(*[walk[0] for walk in walks])
            offered = await records.apply(*[walk[1] for walk in walks])
            await records.apply(*[claim(instance) for instance in offered])
            print(batch, flush=True)
            batch += 1

asyncio.run(main())
"""

TESTS = Path(__file__).parents[2]


async def test_of_claimers_in_two_databases_exactly_one_wins_each_instance(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as one, Database.open(tmp_path) as other:
        sides = [SqliteRecords(one), SqliteRecords(other)]
        pool = await land_all(sides[0], [on_offer(id_) for id_ in IDS])
        claims = [side.apply(claim(instance)) for instance in pool for side in sides]
        outcomes = await asyncio.gather(*claims, return_exceptions=True)
        lost = [isinstance(outcome, Conflict) for outcome in outcomes]
        assert all(lost[at] + lost[at + 1] == 1 for at in range(0, len(lost), 2))


async def test_a_conflict_carries_what_another_process_wrote(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as one, Database.open(tmp_path) as other:
        offered = await land(SqliteRecords(one), on_offer())
        (winner,) = await SqliteRecords(one).apply(claim(offered))
        with pytest.raises(Conflict, match="i-1: claim needs it idle at version 2; it is claimed at version 3") as lost:
            await SqliteRecords(other).apply(claim(offered))
        assert lost.value.found == winner


async def test_four_processes_claim_a_hundred_instances_and_each_has_one_winner(tmp_path: Path) -> None:
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        await land_all(records, [on_offer(id_) for id_ in IDS])
        with ExitStack() as stack:
            runs = ["run-a", "run-b", "run-c", "run-d"]
            claimers = [stack.enter_context(a_process(CLAIMS_ALL, tmp_path, run, TESTS)) for run in runs]
            assert [a_line_of(claimer) for claimer in claimers] == ["ready"] * 4
            for claimer in claimers:
                assert claimer.stdin is not None
                claimer.stdin.write("go\n")
                claimer.stdin.flush()
            won = {run: a_line_of(claimer).split() for run, claimer in zip(runs, claimers, strict=True)}
        stored = await records.instances(IDS)
        assert Counter(id_ for ids in won.values() for id_ in ids) == dict.fromkeys(IDS, 1)
        assert {id_: stored[id_].run_id for id_ in IDS} == {id_: run for run, ids in won.items() for id_ in ids}
        assert {(found.state, found.version) for found in stored.values()} == {(CLAIMED, 3)}


@pytest.mark.parametrize("batches", range(1, 6))
async def test_a_writer_killed_at_any_moment_leaves_whole_transactions_with_their_stories(
    tmp_path: Path, batches: int
) -> None:
    with a_process(CLAIMS_TOGETHER_FOR_EVER, tmp_path, TESTS) as writer:
        told = [int(a_line_of(writer)) for _ in range(batches)]
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    async with Database.open(tmp_path) as database:
        records = SqliteRecords(database)
        found = {instance.id: instance for instance in await records.live(10_000)}
        stories = await records.stories(list(found))
        assert all(stories[id_][-1].version == instance.version for id_, instance in found.items())
        sizes = Counter((id_.rpartition("-")[0], instance.state) for id_, instance in found.items())
        assert set(sizes.values()) == {20}
        assert [sizes[f"i-{batch}", CLAIMED] for batch in told] == [20] * batches
        await land(records, on_offer("i-after"))  # and the home goes on working
