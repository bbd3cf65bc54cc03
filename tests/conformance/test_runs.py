"""The runs of the pool, on every engine: listed from what lives, in the state that their records show."""

from typing import Any

import pytest

from builders import (
    NOW,
    abort,
    claim,
    commit,
    conclude,
    decide,
    needs,
    on_offer,
    open_provision,
    release,
    settle,
    wait,
)
from bullpen import inventory
from bullpen.inventory import run_list
from bullpen.jobs import JobRequest, submit
from bullpen.model.instance import Instance
from bullpen.model.provision import Provision, RunState
from bullpen.ports import Jobs, Ports, Records
from bullpen.schema.run import run_page_of


async def opened(records: Records, run_id: str, **changed: Any) -> Provision:
    (stored,) = await records.apply(open_provision(f"p-{run_id}", run_id=run_id, **changed))
    assert isinstance(stored, Provision)
    return stored


async def advanced(records: Records, change: Any) -> Provision:
    (stored,) = await records.apply(change)
    assert isinstance(stored, Provision)
    return stored


async def claimed_by(records: Records, provision: Provision, *ids: str) -> None:
    for id in ids:
        walk = on_offer(id, provision_id="p-warm", resource_class=provision.needs.resource_class)
        taken = claim(walk[-1].after, provision.run_id, provision_id=provision.id, needs=provision.needs)
        for change in (*walk, taken):
            await records.apply(change)


async def served(records: Records, run_id: str, *ids: str, want: int = 0, **changed: Any) -> Provision:
    """A run with these runners; the provision that it got them from is settled."""
    provision = await opened(records, run_id, want=want or len(ids), **changed)
    await claimed_by(records, provision, *ids)
    provision = await advanced(records, decide(provision, *ids))
    for one in (await records.instances(ids)).values():
        await records.apply(commit(one))
    return await advanced(records, settle(provision))


async def states(ports: Ports, **asked: Any) -> dict[str, RunState]:
    return {one.id: one.state for one in (await inventory.runs(ports, 100, **asked)).runs}


async def test_every_run_that_the_pool_serves_is_listed_with_its_state(
    ports: Ports, records: Records, jobs: Jobs
) -> None:
    await records.apply(open_provision("p-warm", run_id=""))
    await advanced(records, wait(await opened(records, "waits")))
    await opened(records, "acquires")
    await served(records, "runs", "i-1", "i-2")
    leaving = await served(records, "leaves", "i-3")
    await advanced(records, conclude(leaving))
    aborted = await opened(records, "fails")
    await advanced(records, abort(aborted, "no capacity"))
    await submit(ports, [JobRequest("only-jobs", ("true",))], by="a test")
    assert await states(ports) == {
        "acquires": RunState.PROVISIONING,
        "fails": RunState.RELEASING,
        "leaves": RunState.RELEASING,
        "only-jobs": RunState.WAITING,
        "runs": RunState.RUNNING,
        "waits": RunState.WAITING,
    }


async def test_a_run_whose_runners_are_back_is_not_listed_and_still_exists(
    ports: Ports, records: Records, jobs: Jobs
) -> None:
    provision = await advanced(records, conclude(await served(records, "over", "i-1")))
    await records.apply(release((await records.instances(["i-1"]))["i-1"]))
    await advanced(records, settle(provision))
    assert await states(ports) == {}
    assert await inventory.run_exists(ports, "over")
    assert not await inventory.run_exists(ports, "never")


async def test_a_run_that_tops_up_wants_what_it_has_and_what_it_asks_for(
    ports: Ports, records: Records, jobs: Jobs
) -> None:
    await served(records, "r", "i-1", "i-2", needs=needs(repository="acme/widgets"))
    second = open_provision("p-second", run_id="r", want=3, needs=needs(resource_class="large"))
    (provision,) = await records.apply(second)
    await claimed_by(records, provision, "i-3")
    (run,) = (await inventory.runs(ports, 10)).runs
    assert (run.state, run.wanted, run.held) == (RunState.PROVISIONING, 5, 3)
    assert run.classes == ("large", "small")
    assert run.since == NOW
    assert run.repository == "acme/widgets"


async def test_a_run_that_lost_a_runner_still_wants_it(ports: Ports, records: Records, jobs: Jobs) -> None:
    await served(records, "r", "i-1", want=2)
    (run,) = (await inventory.runs(ports, 10)).runs
    assert (run.state, run.wanted, run.held) == (RunState.RUNNING, 2, 1)


async def test_a_run_that_is_released_wants_none(ports: Ports, records: Records, jobs: Jobs) -> None:
    await advanced(records, conclude(await served(records, "r", "i-1")))
    (run,) = (await inventory.runs(ports, 10)).runs
    assert (run.state, run.wanted, run.held) == (RunState.RELEASING, 0, 1)


async def test_jobs_of_a_run_are_counted(ports: Ports, records: Records, jobs: Jobs) -> None:
    await served(records, "r", "i-1")
    await submit(ports, [JobRequest("r", ("true",))] * 3, by="a test")
    (run,) = (await inventory.runs(ports, 10)).runs
    assert (run.queued, run.running) == (3, 0)


async def test_runs_come_in_pages_that_a_cursor_joins(ports: Ports, records: Records, jobs: Jobs) -> None:
    for run_id in ("c", "a", "d"):
        await opened(records, run_id)
    await served(records, "b", "i-1")
    first = await inventory.runs(ports, 3)
    assert ([one.id for one in first.runs], first.next) == (["a", "b", "c"], "c")
    second = await inventory.runs(ports, 3, first.next)
    assert ([one.id for one in second.runs], second.next) == (["d"], "")


async def test_a_page_of_one_state_or_class_is_filled_from_all_runs(ports: Ports, records: Records, jobs: Jobs) -> None:
    for run_id in ("a", "c", "e"):
        await opened(records, run_id)
    await served(records, "b", "i-1", needs=needs(resource_class="large"))
    await served(records, "d", "i-2")
    found = await inventory.runs(ports, 2, state=RunState.RUNNING)
    assert ([one.id for one in found.runs], found.next) == (["b", "d"], "")
    assert await states(ports, resource_class="large") == {"b": RunState.RUNNING}
    assert await states(ports, resource_class="small", state=RunState.RUNNING) == {"d": RunState.RUNNING}


async def test_a_page_reads_the_instances_of_its_own_runs_only(
    ports: Ports, records: Records, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await served(records, f"run-{number}", f"i-{number}")
    read: list[str] = []
    found_by = type(records).served_runs

    async def watched(self: Any, limit: int, after: str = "") -> dict[str, list[Instance]]:
        found = await found_by(self, limit, after)
        read.extend(one.id for of_run in found.values() for one in of_run)
        return found

    monkeypatch.setattr(type(records), "served_runs", watched)
    monkeypatch.setattr(type(records), "live", None)  # the whole pool
    page = await inventory.runs(ports, 2, "run-0")
    assert [(one.id, one.held, one.state) for one in page.runs] == [
        ("run-1", 1, RunState.RUNNING),
        ("run-2", 1, RunState.RUNNING),
    ]
    assert (read, page.next) == (["i-1", "i-2", "i-3"], "run-2"), "and one more, to know whether others follow"


async def test_a_filter_looks_at_a_bounded_number_of_runs(
    ports: Ports, records: Records, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list, "LOOKED_AT", 3)
    for run_id in "abcd":
        await opened(records, run_id)
    await served(records, "e", "i-1")
    first = await inventory.runs(ports, 2, state=RunState.RUNNING)
    assert (first.runs, first.next) == ((), "c")
    second = await inventory.runs(ports, 2, first.next, state=RunState.RUNNING)
    assert ([one.id for one in second.runs], second.next) == (["e"], "")


async def test_a_run_as_json(ports: Ports, records: Records, jobs: Jobs) -> None:
    await advanced(records, wait(await opened(records, "r", want=2)))
    page = run_page_of(await inventory.runs(ports, 10))
    (run,) = page.runs
    assert page.next == ""
    assert (run.id, run.state, run.resource_classes, run.wanted, run.held) == ("r", "waiting", ["small"], 2, 0)
    assert (run.waits_for, run.since) == ("limits.max-instances", "2030-01-01T00:00:00Z")
