"""Compute in memory."""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from bullpen.engines.memory.faults import Faults, request
from bullpen.errors import BullpenError, InsufficientCapacity
from bullpen.model.fleet import FleetAnswer, FleetError, FleetPlan, LaunchedMachine, MachineType
from bullpen.model.ticket import UsageClass, matches
from bullpen.ports import Clock, Sighting

NO_CAPACITY = "InsufficientInstanceCapacity"


CATALOGUE = (
    MachineType("sim.small", 1, 1024),
    MachineType("sim.medium", 2, 4096),
    MachineType("sim.large", 4, 16384),
)


class Yard:
    """All machines, shared by all simulated processes. Nothing here awaits.

    `on_launch` gets each machine with its plan, `on_end` each id: there the simulator starts and kills agents.
    """

    def __init__(
        self,
        capacity: int = 1000,
        on_launch: Callable[[LaunchedMachine, FleetPlan], None] = lambda machine, plan: None,
        on_end: Callable[[str], None] = lambda machine_id: None,
    ) -> None:
        self.capacity = capacity
        self.spot_capacity = 1000
        self.on_launch = on_launch
        self.on_end = on_end
        self.machines: dict[str, LaunchedMachine] = {}
        """Those that run."""
        self.sightings: dict[str, Sighting] = {}
        self.answers: dict[str, FleetAnswer] = {}
        """What each client token was answered: asked again, it is answered the same."""
        self.troubles: deque[tuple[int, FleetError | BullpenError]] = deque()
        """What the next fleets meet, one each: at most so many machines, and why; or the error that they fail with."""

    def room(self, usage_class: UsageClass) -> int:
        """How many more machines there is capacity for."""
        room = self.capacity - len(self.machines)
        if usage_class is UsageClass.SPOT:
            spot = sum(machine.usage_class is UsageClass.SPOT for machine in self.machines.values())
            room = min(room, self.spot_capacity - spot)
        return max(room, 0)

    def launch(self, plan: FleetPlan, count: int, clock: Clock) -> FleetAnswer:
        """Launch `count` machines, fewer than `plan.count` if there are no more, and remember the answer."""
        kind = self._type_for(plan)
        trouble: FleetError | BullpenError = FleetError(NO_CAPACITY, f"no more {kind.name} available")
        if self.troubles:
            most, trouble = self.troubles.popleft()
            count = min(count, most)
        if isinstance(trouble, BullpenError):
            raise trouble
        machines = tuple(
            LaunchedMachine(_machine_id(plan.client_token, n), kind.name, plan.usage_class, kind.cpu, kind.mem)
            for n in range(count)
        )
        errors = () if count >= plan.count else (trouble,)
        self.answers[plan.client_token] = answer = FleetAnswer(machines, errors)
        for machine in machines:
            self.machines[machine.id] = machine
            self.sightings[machine.id] = Sighting(machine.id, plan.provision_id, clock.now(), alive=True)
            self.on_launch(machine, plan)
        return answer

    def end(self, machine_id: str) -> None:
        """End a machine, on behalf of `terminate` or of its own agent."""
        if self.machines.pop(machine_id, None):
            self.sightings[machine_id] = replace(self.sightings[machine_id], alive=False)
            self.on_end(machine_id)

    def _type_for(self, plan: FleetPlan) -> MachineType:
        for kind in CATALOGUE:
            if matches(kind.name, plan.allowed_types) and kind.cpu >= plan.cpu and kind.mem >= plan.mem:
                return kind
        raise InsufficientCapacity(
            f"no machine type fits {' '.join(plan.allowed_types)} with {plan.cpu} cpu and {plan.mem} MiB",
            remedy="Allow more instance types, or ask for less.",
        )


class MemoryCompute:
    def __init__(self, yard: Yard, clock: Clock, faults: Faults) -> None:
        self._yard = yard
        self._clock = clock
        self._faults = faults

    @request("compute.create_fleet")
    def create_fleet(self, plan: FleetPlan) -> FleetAnswer:
        if plan.client_token in self._yard.answers:
            return self._yard.answers[plan.client_token]
        rates = self._faults.rates
        if self._faults.happens(rates.refused_fleet):
            raise InsufficientCapacity(f"{NO_CAPACITY}: no machine of class {plan.resource_class} is available")
        count = min(plan.count, self._yard.room(plan.usage_class))
        if count and self._faults.happens(rates.short_fleet):
            count = self._faults.random.randrange(count)
        return self._yard.launch(plan, count, self._clock)

    @request("compute.terminate")
    def terminate(self, ids: Sequence[str]) -> list[str]:
        return [id for id in ids if self._end(id)]

    @request("compute.sightings")
    def sightings(self) -> list[Sighting]:
        return list(self._yard.sightings.values())

    def _end(self, machine_id: str) -> bool:
        """True if its end is certain; a slow one is so when asked again."""
        running = machine_id in self._yard.machines
        self._yard.end(machine_id)
        return not (running and self._faults.happens(self._faults.rates.slow_end))


def _machine_id(client_token: str, number: int) -> str:
    """An id like any other, in no order, and the same in every repetition of a simulated history."""
    return "i-" + hashlib.sha256(f"{client_token}/{number}".encode()).hexdigest()[:16]
