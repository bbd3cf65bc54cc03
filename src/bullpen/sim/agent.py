"""A simulated agent: the real `decide()`, with virtual deeds."""

import asyncio
from dataclasses import dataclass

from bullpen.agent.decide import ABSENT, Clean, Limits, Report, Sight, Step, Stop, Wait, decide
from bullpen.agent.progress import Progress, Record, State
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.engines.memory.ci import MemoryCI
from bullpen.engines.memory.records import MemoryRecords
from bullpen.model.instance import Instance
from bullpen.model.signal import Heartbeat, Kind, Signal
from bullpen.ports import Ports


@dataclass(slots=True)
class Temper:
    """How long an agent takes, and what goes wrong with it."""

    boots_in: float = 1.0
    registers_in: float = 0.2
    cleans_in: float = 0.1
    boot_failure: str = ""
    registration_failure: str = ""
    cleaning_failure: str = ""
    skew: float = 0.0  # seconds by which its clock is wrong


class SimulatedAgent:
    def __init__(self, id: str, memory: Memory, ports: Ports, settings: Settings, temper: Temper) -> None:
        assert isinstance(ports.ci, MemoryCI)
        assert isinstance(ports.records, MemoryRecords)
        self._id = id
        self._memory = memory
        self._ports = ports
        self._ci = ports.ci
        self._bell = ports.records.listener(id)
        self._settings = settings
        self._temper = temper
        self._seq = 0
        timings = settings.timings
        self._limits = Limits(timings.provision + timings.claim_grace, timings.max_runtime)

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        pulse = loop.create_task(self._beat())
        progress = Progress(began=loop.time())
        while True:
            found = (await self._ports.records.instances([self._id])).get(self._id)
            seen = _as_read(found) if found else None
            progress = progress.saw(seen) if seen else progress
            now = self._ports.clock.now().timestamp()
            action = decide(Sight(now, loop.time(), seen or ABSENT), progress, self._limits)
            match action:
                case Stop():
                    pulse.cancel()
                    self._memory.yard.end(self._id)
                    return
                case Wait(seconds):
                    await self._bell.wait(3600.0 if seconds is None else max(seconds, 0.001))
                case _:
                    progress = await self._do(action, seen, progress)

    async def _do(self, action: Step | Report | Clean, record: Record | None, progress: Progress) -> Progress:
        temper = self._temper
        if action is Step.RUN_SCRIPT:
            await asyncio.sleep(temper.boots_in)
            return progress.booting().booted(temper.boot_failure)
        assert record is not None, f"{action} without a record"
        match action:
            case Report(kind, text):
                self._seq += 1
                signal = Signal(self._id, Kind(kind.value), record.run_id, record.round, self._seq, text)
                await self._ports.signals.report(signal)
                return progress.reported(kind, record.round)
            case Step.REGISTER:
                await asyncio.sleep(temper.registers_in)
                if not temper.registration_failure:
                    await self._ci.register(self._id, record.run_id)
                return progress.registered(record, temper.registration_failure)
            case Step.DEREGISTER:
                await self._ci.remove(self._id)
                return progress.deregistered(record)
            case Clean(keep):
                progress = progress.cleaning_began(record)
                await asyncio.sleep(temper.cleans_in)
                return progress.cleaned(temper.cleaning_failure, keep=keep)
            case _:
                raise AssertionError(f"no jobs here: {action}")

    async def _beat(self) -> None:
        seq = 0
        while True:
            seq += 1
            await self._ports.signals.beat(Heartbeat(self._id, self._ports.clock.now(), seq))
            await asyncio.sleep(self._settings.timings.heartbeat)


def _as_read(found: Instance) -> Record:
    return Record(
        state=State(found.state.value),
        run_id=found.run_id,
        round=found.round,
        threshold=found.threshold.timestamp(),
        attested=found.attested,
        trust_domain=found.trust_domain,
    )
