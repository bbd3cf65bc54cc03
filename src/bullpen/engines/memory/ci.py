"""The CI in memory: which runner serves which label."""

from dataclasses import replace

from bullpen.engines.memory.faults import Faults
from bullpen.ports import Pass, Registration, Removal


class MemoryCI:
    """One process's access to the registrations, which are shared. Agents register here, the control plane removes."""

    def __init__(self, registered: dict[str, Registration], faults: Faults) -> None:
        self._registered = registered
        self._faults = faults

    async def registrations(self) -> list[Registration]:
        return await self._faults.call("ci.registrations", lambda: list(self._registered.values()))

    async def remove(self, handle: str) -> Removal:
        return await self._faults.call("ci.remove", lambda: self._remove(handle))

    async def register(self, name: str, label: str, round: str = "") -> Pass:
        """One of the same name is replaced. It knows no records: what the round says is for the caller to check."""
        runner = Registration(name, label, busy=False)
        await self._faults.call("ci.register", lambda: self._registered.__setitem__(name, runner))
        return Pass(name, label)

    async def set_busy(self, name: str, busy: bool) -> None:
        """A job begins or ends on a runner that is registered."""
        await self._faults.call("ci.set_busy", lambda: self._set_busy(name, busy))

    def _remove(self, name: str) -> Removal:
        runner = self._registered.get(name)
        if runner and runner.busy:
            return Removal.BUSY
        self._registered.pop(name, None)
        return Removal.REMOVED

    def _set_busy(self, name: str, busy: bool) -> None:
        if name in self._registered:
            self._registered[name] = replace(self._registered[name], busy=busy)
