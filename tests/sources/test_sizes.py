"""Sizes as messages show them: in the units of the settings."""

import pytest

from bullpen.host.stored_files import no_room, shown_size, told_apart

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (12 * 1024, "12 KiB"),
        (2 * MIB, "2 MiB"),
        (int(2.1 * MIB), "2.1 MiB"),
        (500 * MIB, "500 MiB"),
        (4096 * MIB, "4 GiB"),
        (4096 * 1024 * MIB, "4096 GiB"),
    ],
)
def test_a_size_is_shown_in_binary_units(size: int, shown: str) -> None:
    assert shown_size(size) == shown


def test_two_sizes_that_look_alike_are_told_apart() -> None:
    assert told_apart(2 * MIB + 1, 2 * MIB) == ("2097153 bytes", "2097152 bytes")
    assert told_apart(2 * MIB, MIB) == ("2 MiB", "1 MiB")


def test_a_full_store_says_what_is_needed_and_what_is_free() -> None:
    assert no_room(MIB + 5, 307, MIB) == (
        "the store for files has no room for 1048581 bytes more: 1048269 bytes of 1 MiB (sync.store-size) are free"
    )
