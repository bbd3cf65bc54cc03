"""Settings that stand where others find them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Publication:
    """`document` has tables and keys as the file has, and is empty if nothing was published; `version` is that of the
    Bullpen which did."""

    document: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
