"""Settings that refresh published in the pool's table, for other processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Publication:
    """`document` has tables and keys as in the file, and is empty if nothing was published. `version` is the version of
    Bullpen that published it."""

    document: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
