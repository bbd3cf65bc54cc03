"""The story of a machine as time with owners."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from builders import NOW, an_instance, later
from bullpen.history.spans import booking
from bullpen.model.instance import Instance
from bullpen.model.times import MICROSECOND
from bullpen.model.transition import StoryLine
from bullpen.model.usage import ROWS_TOGETHER, Booking, Meter, Owner

LIFE = (  # a machine that is launched ahead of any run, serves two runs and is ended
    ("register", "created", 0, ""),
    ("adopt", "idle", 40, ""),
    ("claim", "claimed", 100, "run-1"),
    ("commit", "running", 103, ""),
    ("release", "idle", 400, ""),
    ("offer", "idle", 410, ""),
    ("keep", "idle", 500, ""),
    ("claim", "claimed", 600, "run-2"),
    ("roll_back", "idle", 605, ""),
    ("offer", "idle", 607, ""),
    ("expire", "terminated", 1000, ""),
    ("done", "terminated", 1030, ""),
)
OWNED = {
    (Owner.BOOT, ""): 40,
    (Owner.IDLE, ""): 60 + 190 + 393,
    (Owner.RUN, "run-1"): 300,
    (Owner.CLEANING, "run-1"): 10,
    (Owner.RUN, "run-2"): 5,
    (Owner.CLEANING, "run-2"): 2,
    (Owner.CLEANING, ""): 30,
}


def a_story(steps: Sequence[tuple[str, str, float, str]] = LIFE) -> list[StoryLine]:
    return [
        StoryLine(n, step, state, later(at), "a test", "", run_id, "acme/widgets" if run_id else "")
        for n, (step, state, at, run_id) in enumerate(steps, 1)
    ]


def a_record(version: int = len(LIFE)) -> Instance:
    return replace(an_instance(), version=version)


def owned(bookings: Sequence[Booking]) -> dict[tuple[Owner, str], float]:
    found: Counter[tuple[Owner, str]] = Counter()
    for row in (row for one in bookings for row in one.rows):
        found[row.owner, row.run_id] += row.microseconds
    return {key: micros / 1e6 for key, micros in found.items()}


def all_bookings(record: Instance, story: list[StoryLine], moments: Sequence[datetime]) -> list[Booking]:
    """As a bookkeeper that looks at these moments books, of which the last one is after the end of the story."""
    done: list[Booking] = []
    meter: Meter | None = None
    for at in moments:
        known = [line for line in story if line.at <= at][-16:]
        seen = replace(record, version=known[-1].version if known else 1)
        while (meter is None or not meter.over) and (one := booking(meter, seen, known, at)) is not None:
            assert len(one.rows) <= ROWS_TOGETHER
            assert one.before == meter
            assert one.after.revision == (meter.revision if meter else 0) + 1
            meter = one.after
            done.append(one)
    return done


def test_each_second_of_a_life_has_its_owner() -> None:
    (one,) = all_bookings(a_record(), a_story(), [later(5000)])
    assert owned([one]) == OWNED
    assert one.after.over
    assert one.after.until == later(1030)


@given(st.lists(st.floats(0, 1100), max_size=8))
def test_it_does_not_matter_when_the_time_is_booked(moments: list[float]) -> None:
    looks = [later(round(at, 3)) for at in sorted(moments)]
    assert owned(all_bookings(a_record(), a_story(), [*looks, later(5000)])) == OWNED


def test_a_machine_that_lives_is_booked_up_to_now() -> None:
    story = a_story(LIFE[:4])
    (one,) = all_bookings(a_record(), story, [later(150.000001)])
    assert owned([one]) == {(Owner.BOOT, ""): 40, (Owner.IDLE, ""): 60, (Owner.RUN, "run-1"): 50.000001}
    assert (one.after.owner, one.after.run_id, one.after.over) == (Owner.RUN, "run-1", False)
    assert booking(one.after, replace(a_record(), version=4), story, later(150.000001)) is None


def test_a_clock_that_is_behind_takes_no_time_back() -> None:
    steps = [*LIFE[:4], ("release", "idle", 90, ""), ("expire", "terminated", 80, ""), ("done", "terminated", 200, "")]
    found = owned(all_bookings(a_record(), a_story(steps), [later(5000)]))
    assert sum(found.values()) == 200
    assert all(seconds >= 0 for seconds in found.values())


def test_time_is_split_at_the_hours() -> None:
    steps = [("register", "created", 0, "run-1"), ("done", "terminated", 3 * 3600 + 0.5, "")]
    (one,) = all_bookings(a_record(), a_story(steps), [later(9e4)])
    assert [row.hour for row in one.rows] == [NOW + n * timedelta(hours=1) for n in range(4)]
    assert [row.microseconds for row in one.rows] == [3600 * 10**6] * 3 + [500_000]


def test_a_long_time_is_booked_in_parts() -> None:
    hours = 4 * ROWS_TOGETHER
    steps = [("register", "created", 0, ""), ("adopt", "idle", 60, ""), ("expire", "terminated", hours * 3600, "")]
    bookings = all_bookings(a_record(), a_story(steps), [later(hours * 3600 + 7)])
    assert len(bookings) == 5
    assert owned(bookings) == {(Owner.BOOT, ""): 60, (Owner.IDLE, ""): hours * 3600 - 60, (Owner.CLEANING, ""): 7}


def test_what_the_story_has_forgotten_belongs_to_the_owner_that_is_known() -> None:
    (first,) = all_bookings(a_record(), a_story(LIFE[:4]), [later(150)])
    late = a_story()[8:]
    second = booking(first.after, a_record(), late, later(5000))
    assert second is not None
    assert owned([second]) == {(Owner.RUN, "run-1"): 605 - 150, (Owner.CLEANING, "run-1"): 2} | {
        (Owner.IDLE, ""): 393,
        (Owner.CLEANING, ""): 30,
    }


def test_a_machine_of_an_older_version_counts_from_the_oldest_step_that_is_known() -> None:
    story = [replace(line, run_id="", repository="") for line in a_story(LIFE[2:4])]
    record = replace(an_instance(run_id="run-1", repository="acme/widgets"), version=4)
    one = booking(None, replace(record, state=record.state), story, later(200))
    assert one is not None
    assert sum(row.microseconds for row in one.rows) == 100 * 10**6
    assert {row.owner for row in one.rows} == {Owner.RUN}


def test_a_story_that_is_gone_books_nothing() -> None:
    assert booking(None, a_record(), [], NOW) is None


def test_a_step_that_is_not_known_changes_no_owner() -> None:
    story = a_story([*LIFE[:2], ("polish", "idle", 50, ""), *LIFE[10:12]])
    assert owned(all_bookings(a_record(), story, [later(5000)])) == {
        (Owner.BOOT, ""): 40,
        (Owner.IDLE, ""): 960,
        (Owner.CLEANING, ""): 30,
    }


def test_microseconds_are_whole() -> None:
    assert (later(0.000001) - NOW) // MICROSECOND == 1
