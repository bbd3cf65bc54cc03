"""Secrets in memory."""

from bullpen.engines.memory.faults import Faults, request
from bullpen.ports import Clock, Secret


class MemoryVault:
    def __init__(self, secrets: dict[str, Secret], clock: Clock, faults: Faults) -> None:
        self._secrets = secrets
        self._clock = clock
        self._faults = faults

    @request("vault.read")
    def read(self, name: str) -> Secret | None:
        found = self._secrets.get(name)
        return found if found is not None and found.expires > self._clock.now() else None

    @request("vault.write")
    def write(self, name: str, secret: Secret) -> None:
        self._secrets[name] = secret
