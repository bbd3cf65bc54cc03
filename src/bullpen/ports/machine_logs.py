"""What machines wrote themselves, apart from what their agents report: for people who look for a cause."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MachineLog:
    """The end of a log. `size` is how long the whole is, in bytes."""

    content: bytes
    size: int


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """Logs by name, such as `agent.log`, and why others are missing."""

    logs: Mapping[str, MachineLog] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


class MachineLogs(Protocol):
    async def read(self, instance_id: str, limit: int) -> FoundLogs:
        """The last `limit` bytes of every log of a machine of this pool that can be read from here. Never raises: what
        cannot be read is among the missing ones."""


class NoMachineLogs:
    """Where nothing of a machine can be read."""

    async def read(self, instance_id: str, limit: int) -> FoundLogs:
        return FoundLogs(missing={"agent.log": "this engine keeps no logs of machines"})
