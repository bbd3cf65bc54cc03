"""Every port in memory: what the simulator and most tests run on.

`Memory` is the services, shared by all simulated processes; `Memory.ports()` is one process's access to them, with the
faults on its own way there. It runs on any event loop; on the virtual one every history repeats exactly.
"""

from datetime import datetime

from bullpen.engines.memory.ci import MemoryCI
from bullpen.engines.memory.clock import LoopClock, SeededChance
from bullpen.engines.memory.compute import MemoryCompute, Yard
from bullpen.engines.memory.faults import Failure, Faults, Rates
from bullpen.engines.memory.github import MemoryGithub
from bullpen.engines.memory.health import MemoryHealth, Notes
from bullpen.engines.memory.history import Ledger, MemoryHistory
from bullpen.engines.memory.jobs import MemoryJobs
from bullpen.engines.memory.logs import MemoryLogs
from bullpen.engines.memory.observations import MemoryObservations
from bullpen.engines.memory.queue import MemoryQueue, Messages
from bullpen.engines.memory.records import MemoryRecords
from bullpen.engines.memory.scale_sets import MemoryScaleSets
from bullpen.engines.memory.set_messages import SetTroubles
from bullpen.engines.memory.signals import MemorySignals, Reports
from bullpen.engines.memory.sources import MemoryArtifacts, MemorySources, StoredSources
from bullpen.engines.memory.tables import Tables
from bullpen.engines.memory.tokens import MemoryTokens, Shelf
from bullpen.engines.memory.vault import MemoryVault
from bullpen.engines.memory.workers import MemoryWorkers
from bullpen.engines.memory.workflows import MemoryWorkflows
from bullpen.ports import Chance, Clock, NoScaleSets, NoStoreClock, NoWorkflows, Ports, Registration, Secret

__all__ = ["Failure", "Faults", "LoopClock", "Memory", "MemoryGithub", "Rates", "SeededChance", "SetTroubles", "Yard"]


class Memory:
    """The services. `index_lag` is by how many seconds the queries of records stay behind the records. With `github`
    the CI has runs and jobs of its own; `seed` decides what goes wrong there."""

    def __init__(
        self, *, index_lag: float = 0.0, yard: Yard | None = None, github: bool = False, seed: int = 0
    ) -> None:
        self.reports = Reports()
        self.tables = Tables(self.reports.bell, index_lag)
        self.queues: dict[str, Messages] = {}
        self.yard = yard or Yard()
        self.registrations: dict[str, Registration] = {}
        self.hub = MemoryGithub(self.registrations, seed=seed) if github else None
        self.refused: dict[str, datetime] = {}
        """Versions of a runner's program that the CI refuses, and from when."""
        self.topics: dict[str, dict[str, datetime]] = {}
        self.notes: Notes = {}
        self.secrets: dict[str, Secret] = {}
        self.shelf = Shelf()
        self.ledger = Ledger()
        self.stored_sources = StoredSources()

    def ports(self, clock: Clock | None = None, chance: Chance | None = None, faults: Faults | None = None) -> Ports:
        """The access of one process. Processes that share no `chance` need seeds of their own."""
        clock = clock or LoopClock()
        faults = faults or Faults()
        return Ports(
            clock=clock,
            chance=chance or SeededChance(),
            records=MemoryRecords(self.tables, self.reports, faults),
            signals=MemorySignals(self.reports, self.tables, faults),
            queue=MemoryQueue(self.queues, faults),
            compute=MemoryCompute(self.yard, clock, faults),
            ci=MemoryCI(self.registrations, self.refused, faults, self.hub),
            observations=MemoryObservations(self.topics, faults),
            workers=MemoryWorkers(self.tables, faults),
            jobs=MemoryJobs(self.tables, faults),
            logs=MemoryLogs(self.tables, faults),
            health=MemoryHealth(self.notes, faults),
            workflows=NoWorkflows() if self.hub is None else MemoryWorkflows(self.hub, faults),
            scale_sets=NoScaleSets() if self.hub is None else MemoryScaleSets(self.hub, faults),
            vault=MemoryVault(self.secrets, clock, faults),
            tokens=MemoryTokens(self.shelf, faults),
            sources=MemorySources(self.stored_sources, clock, faults),
            artifacts=MemoryArtifacts(self.stored_sources, clock, faults),
            history=MemoryHistory(self.ledger, self.tables, faults),
            store_clock=clock if isinstance(clock, LoopClock) else NoStoreClock(),
        )
