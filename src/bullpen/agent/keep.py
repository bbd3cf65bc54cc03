"""Which entries may outlive a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bullpen.agent.sweep import Path


@dataclass(frozen=True, slots=True)
class KeepList:
    """Entries that may outlive a run, such as tool caches: glob patterns like `home/.cache/pip` or `work/_tool/*`.

    The first part names a place; `*`, `?` and `[…]` stay inside one part; everything below a match is kept with it.
    What is kept passes from one run to the next, so a keep-list is only for runs that trust each other.
    """

    patterns: tuple[Path, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> KeepList:
        parsed = []
        for pattern in patterns:
            parts = tuple(pattern.split("/"))
            if len(parts) < 2 or not {"", ".", "..", "**"}.isdisjoint(parts):
                raise ValueError(
                    f"keep pattern {pattern!r}: write it as place/name/…, without '..', '**' or empty parts"
                )
            parsed.append(parts)
        return cls(tuple(parsed))

    def covers(self, path: Path) -> bool:
        return any(len(pattern) <= len(path) and _fits(path, pattern) for pattern in self.patterns)

    def leads_on(self, path: Path) -> bool:
        """Whether something kept may lie further down."""
        return any(len(pattern) > len(path) and _fits(path, pattern) for pattern in self.patterns)


def _fits(path: Path, pattern: Path) -> bool:
    """Whether they agree as far as both reach."""
    return all(fnmatchcase(part, wanted) for part, wanted in zip(path, pattern, strict=False))
