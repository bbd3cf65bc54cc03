"""The settings of schedules: read once, and each mistake named with its field, value and what is allowed."""

import json
from pathlib import Path

import pytest

from bullpen.config import ResourceClass, ScheduleEntry
from bullpen.errors import ConfigError
from bullpen.settings import Loaded, load
from bullpen.settings.schedule import largest_sum
from bullpen.settings.setting import TABLES

GOOD = """
[[classes.small.schedule]]
days = "weekdays"
hours = "08:00-18:30"
time-zone = "Europe/Berlin"
idle-target = 8
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str, *assignments: str, **environ: str) -> Loaded:
    Path("bullpen.toml").write_text(text)
    return load(environ, assignments=assignments)


def refused(text: str, *assignments: str, **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loaded(text, *assignments, **environ)
    return caught.value


def entry(**changed: object) -> str:
    values = {"days": "weekdays", "hours": "08:00-18:30", "time-zone": "Europe/Berlin", "idle-target": 8} | {
        key.replace("_", "-"): value for key, value in changed.items()
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    return "\n".join(["[[classes.small.schedule]]", *lines, ""])


def test_a_schedule_is_read_from_the_file() -> None:
    found = loaded(GOOD).settings.classes["small"]
    assert found.schedule == (ScheduleEntry(8, "weekdays", "08:00-18:30", "Europe/Berlin"),)
    assert found.cpu == ResourceClass(cpu=1, mem=1024).cpu
    (one,) = found.entries
    assert one.text == "weekdays 08:00-18:30 Europe/Berlin"
    assert found.entries[0] is one  # parsed once


def test_days_hours_and_time_zone_have_defaults() -> None:
    (one,) = loaded(entry(days=None, hours=None, time_zone=None)).settings.classes["small"].entries
    assert one.text == "mon-sun 00:00-24:00 UTC"


def test_days_may_be_a_list() -> None:
    (one,) = loaded(entry(days=["mon-wed", "sat"])).settings.classes["small"].entries
    assert one.text == "mon-wed,sat 08:00-18:30 Europe/Berlin"


def test_a_variable_and_an_option_take_the_list_as_toml() -> None:
    written = '[{days = "weekend", idle-target = 3}, {days = "mon", idle-target = 1}]'
    expected = (ScheduleEntry(3, "weekend"), ScheduleEntry(1, "mon"))
    of_variable = loaded(GOOD, BULLPEN_CLASSES_SMALL_SCHEDULE=written)
    assert of_variable.settings.classes["small"].schedule == expected
    assert of_variable.values["classes.small.schedule"].origin == "BULLPEN_CLASSES_SMALL_SCHEDULE"
    assert loaded(GOOD, f"classes.small.schedule={written}").settings.classes["small"].schedule == expected
    assert loaded(GOOD, "classes.small.schedule=[]").settings.classes["small"].schedule == ()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            entry(days="monday"),
            ["classes.small.schedule[1].days ('monday') must be mon, tue", "a range such as mon-thu"],
        ),
        (entry(days=["mon", "tuseday"]), ["schedule[1].days (['mon', 'tuseday']) must be"]),
        (entry(days=[]), ["schedule[1].days ([]) must be"]),
        (entry(hours="8-18"), ["classes.small.schedule[1].hours ('8-18') must be a time", "08:00-18:30"]),
        (entry(hours="08:00-08:00"), ["schedule[1].hours ('08:00-08:00') must not be empty"]),
        (
            entry(time_zone="Europe/Berln"),
            ["schedule[1].time-zone ('Europe/Berln') must be", "did you mean Europe/Berlin?"],
        ),
        (entry(time_zone="Europe"), ["schedule[1].time-zone ('Europe') must be the name of an IANA time zone"]),
        (
            entry(idle_target=-1),
            ["classes.small.schedule[1].idle-target = -1: must be a whole number from 0 to 100000"],
        ),
        (entry(idle_target="8"), ["schedule[1].idle-target = '8': must be a whole number"]),
        (entry(idle_target=None), ["classes.small.schedule[1].idle-target is required and not set"]),
        (entry(hours=8), ["schedule[1].hours = 8: must be a text"]),
        (entry(days=1), ["schedule[1].days = 1: must be a text or a list of texts"]),
        (entry(timezone="UTC"), ["classes.small.schedule[1].timezone: no such setting"]),
        (entry() + entry(days="sat", hours="x"), ["classes.small.schedule[2].hours ('x') must be"]),
        (
            entry(idle_target=101),
            ["classes.small.schedule[1].idle-target (101) must be at most limits.max-instances (100)"],
        ),
        (
            "[classes.small]\nmax-instances = 5\n" + entry(),
            ["classes.small.schedule[1].idle-target (8) must be at most classes.small.max-instances (5)"],
        ),
        ("[classes.small]\nschedule = 5", ["classes.small.schedule = 5: must be a list of tables"]),
        ("[classes.small]\nschedule = [5]", ["classes.small.schedule = [5]: must be a list of tables"]),
        ("[classes.small.schedule]\nidle-target = 5", ["classes.small.schedule = {'idle-target': 5}: must be a list"]),
        (entry() * (TABLES + 1), [f"classes.small.schedule has {TABLES + 1} entries: must be at most {TABLES}"]),
    ],
)
def test_a_mistake_names_field_value_and_what_is_allowed(text: str, parts: list[str]) -> None:
    error = refused(text)
    assert str(error).startswith("bullpen.toml: ")
    for part in parts:
        assert part in str(error)


def test_a_single_table_is_told_how_to_write_a_list() -> None:
    assert "[[classes.small.schedule]]" in refused("[classes.small.schedule]\nidle-target = 5").remedy


def test_a_misspelt_field_gets_the_right_one() -> None:
    assert "Did you mean time-zone?" in refused(entry(timezone="UTC")).remedy


def test_overlapping_entries_are_refused_with_both_and_a_moment() -> None:
    text = str(refused(entry(days="weekdays") + entry(days="fri", hours="18:00-20:00")))
    assert "classes.small.schedule[1] (weekdays 08:00-18:30 Europe/Berlin) must not overlap" in text
    assert "classes.small.schedule[2] (fri 18:00-20:00 Europe/Berlin)" in text
    assert "both hold, for example, on Fri 2026-01-02 at 17:00 UTC" in text


def test_entries_of_different_classes_may_hold_together() -> None:
    found = loaded(GOOD + GOOD.replace("small", "large")).settings.classes
    assert found["large"].schedule == found["small"].schedule


def test_targets_that_never_hold_together_may_exceed_the_cap_in_sum() -> None:
    night = entry(hours="18:30-08:00", days="mon-sun", idle_target=60).replace("small", "large")
    day = entry(hours="08:00-18:30", days="mon-sun", idle_target=60)
    assert largest_sum(loaded(day + night).settings.classes)[0] == 60
    longer = night.replace("18:30-08:00", "18:29-08:00")
    text = str(refused(day + longer))
    assert "the sum of the idle targets of all classes on Thu 2026-01-01 at 17:29 UTC (120)" in text
    assert "must be at most limits.max-instances (100)" in text
