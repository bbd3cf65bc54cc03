"""Records that one answer reads: each list at most once, however many waits it explains."""

from typing import Any, cast

from bullpen.ports.store import Records

REMEMBERED = (
    "live",
    "count",
    "open_provisions",
    "waiting_provisions",
    "run_provisions",
    "run_instances",
    "told_provisions",
    "scale_sets",
    "set_sessions",
    "repositories",
    "pauses",
    "ahead",
)
FORBIDDEN = ("apply", "apply_each", "purge")
"""An explanation changes nothing."""


class ReadOnce:
    """`Records` whose answers to the same question are the same. It refuses every write."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._answers: dict[tuple[Any, ...], Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name in FORBIDDEN:
            raise AssertionError(f"an explanation must not call {name}")
        method = getattr(self._records, name)
        if name not in REMEMBERED:
            return method

        async def ask(*args: Any, **kwargs: Any) -> Any:
            key = (name, *map(repr, args), repr(sorted(kwargs.items())))
            if key not in self._answers:
                self._answers[key] = await method(*args, **kwargs)
            return self._answers[key]

        return ask


def read_once(records: Records) -> Records:
    return cast(Records, ReadOnce(records))
