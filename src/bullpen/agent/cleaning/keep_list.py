"""Which entries may outlive a run."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from bullpen.host.sweep import Path
from bullpen.lazy_dataclass import dataclass
from bullpen.model.keep import names_of


@dataclass(frozen=True, slots=True)
class KeepList:
    """Entries that may outlive a run, such as tool caches: glob patterns like `home/.cache/pip` or `work/_tool/*`.

    The first part names a place; `*`, `?` and `[…]` stay inside one part; everything below a match is kept with it.
    What is kept passes from one run to the next, so a keep-list is only for runs that trust each other.
    """

    patterns: tuple[Path, ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str]) -> KeepList:
        return cls(tuple(map(_parsed, patterns)))

    def covers(self, path: Path) -> bool:
        return any(len(pattern) <= len(path) and _fits(path, pattern) for pattern in self.patterns)

    def leads_on(self, path: Path) -> bool:
        """Whether something kept may lie further down."""
        return any(len(pattern) > len(path) and _fits(path, pattern) for pattern in self.patterns)


def _parsed(pattern: str) -> Path:
    try:
        place, *below = names_of(pattern)
    except ValueError as exc:
        raise ValueError(f"keep pattern {pattern!r}: {exc}") from exc
    if not below:
        raise ValueError(f"keep pattern {pattern!r}: a whole directory cannot be kept; name an entry in it")
    return place, *below


def _fits(path: Path, pattern: Path) -> bool:
    """Whether they agree as far as both reach."""
    return all(fnmatchcase(part, wanted) for part, wanted in zip(path, pattern, strict=False))
