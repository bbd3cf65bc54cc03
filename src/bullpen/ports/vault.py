"""Secrets that agents need and that change while machines live: kept apart from records, and shown by nothing."""

from dataclasses import field
from datetime import datetime
from typing import Protocol

from bullpen.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Secret:
    content: str = field(repr=False)
    expires: datetime


class Vault(Protocol):
    """Agents that use the store directly read it with their own means; besides them only the control plane can."""

    async def read(self, name: str) -> Secret | None:
        """Consistent. None if there is none, also after its time."""

    async def write(self, name: str, secret: Secret) -> None:
        """Whole or not at all; what stood there before is gone."""
