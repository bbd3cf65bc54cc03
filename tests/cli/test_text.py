"""Tables on a terminal of any width."""

from bullpen.cli.text import columns


def test_the_last_column_is_wrapped_below_itself_where_it_does_not_fit() -> None:
    rows = [("disk", "ok", "free"), ("home", "failed", "cannot be written to by this user, who owns nothing there")]
    assert columns(rows, width=50).splitlines() == [
        "disk  ok      free",
        "home  failed  cannot be written to by this user,",
        "              who owns nothing there",
    ]
    assert columns(rows, width=200) == columns(rows)


def test_the_last_column_goes_below_its_row_where_it_would_be_too_narrow() -> None:
    rows = [("a" * 40, "one two three four five six"), ("b", "")]
    assert columns(rows, indent="  ", width=60).splitlines() == [
        f"  {'a' * 40}",
        "      one two three four five six",
        "  b",
    ]
