"""A pause: of a class, or of the whole pool, with the note of who paused it."""

import pytest

from builders import NOW, later, pause, resume
from bullpen.errors import InvalidTransition
from bullpen.model import pause as pauses
from bullpen.model.limits import NOTE_LENGTH, is_note
from bullpen.model.pause import absent, pause_key, paused_by, subject_of


def test_a_pause_says_who_paused_what_since_when_and_why() -> None:
    paused = pause(resource_class="large", note="image is broken").after
    assert (paused.resource_class, paused.note, paused.operator, paused.since) == (
        "large",
        "image is broken",
        "ada",
        NOW,
    )


def test_another_note_does_not_change_since_when_it_is_paused() -> None:
    event = pauses.PoolPaused(at=later(60), by="a test", note="still broken", operator="bob")
    again = pauses.pause(pause().after, event).after
    assert (again.note, again.operator, again.since) == ("still broken", "bob", NOW)


def test_a_pause_after_a_resume_counts_from_its_own_time() -> None:
    event = pauses.PoolPaused(at=later(60), by="a test", note="again", operator="bob")
    assert pauses.pause(resume(pause().after).after, event).after.since == later(60)


def test_resuming_takes_the_note_away() -> None:
    resumed = resume(pause().after).after
    assert (resumed.is_on, resumed.note, resumed.operator, resumed.since) == (False, "", "", None)


def test_what_is_not_paused_cannot_be_resumed() -> None:
    for one in (absent("small"), resume(pause().after).after):
        with pytest.raises(InvalidTransition):
            pauses.resume(one, pauses.PoolResumed(at=NOW, by="a test"))


def test_a_class_and_the_whole_pool_have_records_of_their_own() -> None:
    assert pause_key("small") == "pause:small"
    assert pause_key("") == "pause:*"
    assert (subject_of("small"), subject_of("")) == ("class small", "the whole pool")


def test_a_pause_of_the_pool_covers_every_class_and_one_of_a_class_only_itself() -> None:
    pool, large = pause().after, pause(resource_class="large").after
    assert pool.covers("small")
    assert large.covers("large")
    assert not large.covers("small")
    assert not resume(pool).after.covers("small")
    assert paused_by([large, pool], "large") is pool
    assert paused_by([large], "small") is None


@pytest.mark.parametrize("note", ["image is broken", "größer", "", "a" * NOTE_LENGTH])
def test_a_note_is_one_line_of_printable_characters(note: str) -> None:
    assert is_note(note)


@pytest.mark.parametrize("note", ["two\nlines", "\x1b[31mred", "nul\0", "tab\t", "a" * (NOTE_LENGTH + 1), "bidi\u202e"])
def test_what_could_change_a_terminal_is_no_note(note: str) -> None:
    assert not is_note(note)
