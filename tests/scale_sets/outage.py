"""GitHub does not answer: neither processes of `serve`, nor agents that ask for a registration."""

from typing import Any

from bullpen.engines.memory import Failure
from bullpen.errors import Unavailable
from bullpen.ports import Ports
from bullpen.sim.world import World
from fixtures import faults
from scale_sets.fixtures import hub_of

PORTS = ("ci", "scale_sets", "workflows")


class Outage:
    def __init__(self, world: World) -> None:
        self._is_on = False
        hub = hub_of(world)
        self._configure, hub.configure = hub.configure, self._refuse  # type: ignore[assignment, method-assign]

    def begin(self) -> None:
        self._is_on = True

    def end(self) -> None:
        self._is_on = False

    def between(self, ports: Ports) -> Ports:
        """The access of a process, which loses every request to GitHub in the meantime."""
        found = faults(ports)
        usual = found._failure

        def failure(kind: str) -> Failure | None:
            is_lost = self._is_on and kind.partition(".")[0] in PORTS
            return Failure.LOST_REQUEST if is_lost else usual(kind)

        found._failure = failure  # type: ignore[method-assign]
        return ports

    def _refuse(self, *asked: Any) -> Any:
        if self._is_on:
            raise Unavailable("GitHub does not answer")
        return self._configure(*asked)
