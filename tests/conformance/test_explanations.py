"""Explanations and plans read every engine, and write to none."""

from typing import Any

import pytest

from builders import abort, needs, open_provision, pause, running, used_and_on_offer, wait
from bullpen.config import Limits, ResourceClass, Settings
from bullpen.errors import ConfigError, NotFound
from bullpen.explain import why
from bullpen.explain.plan import plan
from bullpen.explain.queue import queue as explained_queue
from bullpen.jobs import submit
from bullpen.jobs.request import JobRequest
from bullpen.model.wait import WaitCause
from bullpen.ports import History, Jobs, PoolQueue, Records, Signals, StoreHealth, Workers
from bullpen.provision import Request
from conformance.engines import Opened

SETTINGS = Settings(classes={"small": ResourceClass(cpu=1, mem=1024)}, limits=Limits(max_instances=3))
SUBJECTS = ("i-1", "i-2", "p-1", "run-1", "run-2", "run-3", "misspelt", "pause:large")


async def a_pool(records: Records) -> None:
    """An idle instance, one at work, a provision that waits at the cap, one that failed, and a pause."""
    for walk in (used_and_on_offer("i-1"), running("i-2", "run-2")):
        for change in walk:
            await records.apply(change)
    (opened,) = await records.apply(open_provision("p-1", run_id="run-1", want=9))
    await records.apply(wait(opened))
    (failed,) = await records.apply(open_provision("p-3", run_id="run-3"))
    await records.apply(abort(failed, "a machine was late"))
    await records.apply(pause(resource_class="large"))


async def test_what_is_explained_and_planned_leaves_every_byte_of_the_store_as_it_was(
    opened: Opened,
    records: Records,
    signals: Signals,
    workers: Workers,
    jobs: Jobs,
    health: StoreHealth,
    history: History,
    queue: PoolQueue,
) -> None:
    assert opened.contents is not None
    ports: Any = opened.ports
    await a_pool(records)
    found = await submit(ports, [JobRequest(run, ("true",)) for run in ("run-1", "run-3", "misspelt")], by="a test")
    before = await opened.contents()
    for subject in (*SUBJECTS, *(job.id for job in found)):
        await why(ports, SETTINGS, subject)
    for count, changed in ((1, {}), (3, {"trust_domain": "b"}), (9, {})):
        await plan(ports, SETTINGS, Request("run-4", count, needs(**changed), 1800.0))
    waits = (await explained_queue(ports, SETTINGS)).waits
    assert {one.cause for one in waits} >= {WaitCause.NO_MATCH, WaitCause.NO_SERVER}
    assert await opened.contents() == before
    await records.apply(pause())
    assert await opened.contents() != before, "a change is seen"


@pytest.mark.parametrize("subject", ["x" * 257, "i-" + "é" * 600, "", "a\nb", "i-\udc80", "a\x00b"])
async def test_what_no_id_can_be_is_refused_before_the_store_is_asked(
    opened: Opened, records: Records, signals: Signals, workers: Workers, jobs: Jobs, history: History, subject: str
) -> None:
    with pytest.raises(ConfigError, match=r"subject .*: must be 1 to 256 printable characters"):
        await why(opened.ports, SETTINGS, subject)
    with pytest.raises(NotFound):
        await why(opened.ports, SETTINGS, "é" * 256)
