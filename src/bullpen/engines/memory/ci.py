"""The CI in memory: which runner serves which label."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bullpen.engines.memory.faults import Faults, request
from bullpen.engines.memory.github import CONFIGURE, MemoryGithub
from bullpen.errors import PermissionDenied
from bullpen.model.registration_failure import RegistrationFailure, refused
from bullpen.model.scale_set import set_of_run_id
from bullpen.ports import Registration, RegistrationCredentials, Removal


class MemoryCI:
    """One process's access to the registrations, which are shared. Agents register here, the control plane removes.

    With a `hub` the CI has jobs of its own, gives runners names of its own, and knows which are online.
    """

    def __init__(
        self,
        registered: dict[str, Registration],
        refused: dict[str, datetime],
        faults: Faults,
        hub: MemoryGithub | None = None,
    ) -> None:
        self._registered = registered
        self._refused = refused
        self._faults = faults
        self._hub = hub
        self._failures: dict[str, RegistrationFailure] = {}  # by label of a scale set

    @request("ci.registrations")
    def registrations(self) -> list[Registration]:
        return list(self._registered.values())

    @request("ci.remove")
    def remove(self, handle: str) -> Removal:
        """Under the name of the instance, all that it left behind, whatever they are called."""
        found = {key: one for key, one in self._registered.items() if handle in (one.name, one.handle)}
        for key, one in found.items():
            if not one.busy:
                del self._registered[key]
                if self._hub is not None:
                    self._hub.set_runners.drop(one.handle)
        return Removal.BUSY if any(one.busy for one in found.values()) else Removal.REMOVED

    @request("ci.register")
    def register(self, name: str, label: str, round: str = "") -> RegistrationCredentials:
        """One of the same name is replaced. It knows no records: what the round says is for the caller to check."""
        if self._hub is not None and (set_name := set_of_run_id(label)) is not None:
            made = self._hub.configure(set_name, name, round)
            return RegistrationCredentials(made.runner.name, label, jit=made.encoded, id=made.runner.id)
        if self._hub is not None:
            return RegistrationCredentials(self._hub.register(name, label, round).handle, label)
        self._registered[name] = Registration(name, label, busy=False)
        return RegistrationCredentials(name, label)

    def prepare(self, name: str, label: str, round: str) -> None:
        """Nothing is made before an agent asks, but whether the CI refuses it is known from now on."""
        if self._hub is None:
            return
        time, before = asyncio.get_running_loop().time(), self._failures.pop(label, None)
        try:
            self._hub.allows(CONFIGURE)
        except PermissionDenied as exc:
            self._failures[label] = refused(before.attempted(time) if before is not None else None, str(exc), time)

    def failing(self, label: str) -> RegistrationFailure | None:
        return self._failures.get(label)

    def instance_of(self, handle: str) -> str | None:
        return handle if self._hub is None else self._hub.instance_of(handle)

    @request("ci.refusals")
    def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return {one: self._refused[one] for one in versions if one in self._refused}

    @request("ci.set_busy")
    def set_busy(self, name: str, busy: bool) -> None:
        """A job begins or ends on a runner that is registered."""
        if name in self._registered:
            self._registered[name] = replace(self._registered[name], busy=busy)
