"""Tables and sentences on a terminal of any width."""

from bullpen.cli.text import columns, table, wrapped


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


def test_a_sentence_breaks_between_words_but_not_within_a_command_in_backticks() -> None:
    sentence = "Run `bullpen provision --help` to list the options, with examples."
    assert wrapped(sentence, 28, "  ") == [
        "Run",
        "  `bullpen provision --help`",
        "  to list the options, with",
        "  examples.",
    ]
    assert wrapped(sentence, 0) == [sentence]


def test_a_word_that_is_too_long_for_a_line_stays_whole() -> None:
    worker = "i-0123456789abcdef/0a1b2c3d"
    assert wrapped(f"see {worker}, the worker", 10) == ["see", f"{worker},", "the worker"]


def test_a_backtick_within_a_word_keeps_no_words_together() -> None:
    assert wrapped("/home/x/a`b cannot be read by this user, see `bullpen doctor`", 30) == [
        "/home/x/a`b cannot be read by",
        "this user, see",
        "`bullpen doctor`",
    ]


def test_a_table_keeps_its_columns_beside_a_sentence_and_wraps_the_sentence() -> None:
    titles, reason = ["SET", "HOLDER", "IDLE", "WAIT"], "71s: classes.large.max-instances is 3, and all of them work"
    rows = [("bullpen-large", "serve on web-1 (4711)", "0", reason), ("bullpen-small", "none", "2", "-")]
    assert table(titles, rows, 60, ["HOLDER", "IDLE"], wraps=True).splitlines() == [
        "SET            HOLDER                 IDLE  WAIT",
        "bullpen-large  serve on web-1 (4711)  0",
        "    71s: classes.large.max-instances is 3, and all of them",
        "    work",
        "bullpen-small  none                   2     -",
    ]
    assert table(titles, rows, 30, ["HOLDER", "IDLE"], wraps=True).splitlines()[0] == "SET            IDLE  WAIT"
