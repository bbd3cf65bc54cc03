"""Activity and reports: noted without waiting, written many together, and never in the way of other work."""

import asyncio
from dataclasses import replace

from builders import NOW
from bullpen.engines.memory import Failure, Rates
from bullpen.engines.memory.history import MemoryHistory
from bullpen.errors import Unavailable
from bullpen.history.activity import WAITING, ActivityLog, note_of
from bullpen.model.activity_note import NOTE_LENGTH
from bullpen.model.report import REASON_LENGTH
from bullpen.refresh.action import Action
from bullpen.sim.agent import Temper
from bullpen.sim.loop import virtual_run
from bullpen.sim.world import World
from histories import provisions


def test_a_note_keeps_what_a_store_takes() -> None:
    found = note_of(NOW, "serve/reap", Action("end\ud800", "i-1", "€" * 1000))
    assert (found.did, found.subject) == ("end?", "i-1")
    assert len(found.reason.encode()) <= NOTE_LENGTH
    assert set(found.reason) == {"€"}


def test_what_could_not_be_done_and_an_alarm_are_trouble() -> None:
    action = Action("terminate", "i-1", "past its threshold")
    assert not note_of(NOW, "refresh", action).trouble
    assert note_of(NOW, "refresh", replace(action, is_done=False)).trouble
    assert note_of(NOW, "refresh", replace(action, what="alarm")).trouble


def subjects(world: World) -> list[str]:
    return [one.subject for one in world.memory.ledger.notes]


def test_what_is_noted_while_the_store_is_away_is_written_later_and_no_more_than_there_is_room_for() -> None:
    async def main() -> None:
        world = World()
        ports = world.ports(rates=Rates(latency=(0.01, 0.01)))
        assert isinstance(ports.history, MemoryHistory)
        log = ActivityLog(ports, "serve")
        log.note("reap", [Action("terminate", f"i-{n}", "") for n in range(WAITING)])
        ports.history._faults.fail_next("history.note_actions", Failure.LOST_REQUEST)
        try:
            await log.flush()
        except Unavailable:
            pass
        else:
            raise AssertionError("the first write fails")
        log.note("reap", [Action("terminate", "later", "")])
        flushed = asyncio.ensure_future(log.flush())
        await asyncio.sleep(0.001)
        log.note("reap", [Action("terminate", "meanwhile", "")])
        await flushed
        await log.flush()
        await log.flush()
        assert subjects(world) == [*(f"i-{n}" for n in range(1, WAITING)), "later", "meanwhile"]

    virtual_run(main(), allow_left_behind=True)


def test_a_report_keeps_of_long_reasons_what_a_store_takes() -> None:
    async def main() -> None:
        world = World(temper=lambda n: Temper(boot_failure="€" * 2000))
        ports = world.ports(rates=Rates())
        assert not (await provisions(world, ports, "run-1", 2)).succeeded
        (report,) = world.memory.ledger.reports.values()
        reasons = [report.reason, *(lane.reason for lane in report.lanes)]
        assert len(reasons) == 3
        assert all(REASON_LENGTH - 3 < len(one.encode()) <= REASON_LENGTH for one in reasons)

    virtual_run(main(), allow_left_behind=True)
