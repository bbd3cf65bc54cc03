"""What commands show of a schedule: `config show` prints it, `status` the target now and its next change."""

import re
from datetime import UTC, datetime
from pathlib import Path

from bullpen.cli.status_text import target_text
from bullpen.schema.status import PoolAnswer
from command_line import CommandLine

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
GOOD = """
[[classes.small.schedule]]
days = "weekdays"
hours = "08:00-18:30"
time-zone = "Europe/Berlin"
idle-target = 8
"""


def test_config_show_prints_a_schedule_with_its_origin(bullpen: CommandLine) -> None:
    Path("bullpen.toml").write_text(GOOD)
    lines = bullpen("config", "show", "--origin").out.splitlines()
    (line,) = [line for line in lines if line.startswith("classes.small.schedule")]
    assert line.startswith("classes.small.schedule[1] ")
    assert '= {idle-target = 8, days = "weekdays", hours = "08:00-18:30", time-zone = "Europe/Berlin"}' in line
    assert line.endswith("# bullpen.toml")
    listed = bullpen("config", "show", "--json").answer["settings"]
    (value,) = [one["value"] for one in listed if one["name"] == "classes.small.schedule"]
    assert value == [{"idle-target": 8, "days": "weekdays", "hours": "08:00-18:30", "time-zone": "Europe/Berlin"}]


def test_status_shows_the_target_now_its_entry_and_the_next_change() -> None:
    scheduled = PoolAnswer("small", 0, False, 0, 8, "weekdays 08:00-18:30 Europe/Berlin", 2, "2026-11-19T17:30:00Z")
    assert target_text(scheduled, NOW) == "8 (weekdays 08:00-18:30 Europe/Berlin), then 2 in 5h"
    assert target_text(PoolAnswer("small", 0, False, 0, 2, "", 8, "2026-11-19T12:01:00Z"), NOW) == "2, then 8 in 60s"
    assert target_text(PoolAnswer("small", 0, False, 0, 2), NOW) == "2"


def test_status_has_the_targets_of_the_settings(bullpen: CommandLine) -> None:
    Path("bullpen.toml").write_text(
        "[classes.large]\nidle-target = 3\n" + GOOD.replace('hours = "08:00-18:30"', "").replace("weekdays", "mon-sun")
    )
    assert bullpen("refresh", "--set", "classes.large.idle-target=0", "--set", "classes.small.schedule=[]").code == 0
    pools = {one["resourceClass"]: one for one in bullpen("status", "--json").answer["pools"]}
    assert pools["small"]["idleTarget"] == 8
    assert pools["small"]["scheduleEntry"] == "mon-sun 00:00-24:00 Europe/Berlin"
    assert (pools["small"]["nextTarget"], pools["small"]["nextTargetAt"]) == (None, None)
    assert pools["large"]["idleTarget"] == 3
    assert (pools["medium"]["idleTarget"], pools["medium"]["scheduleEntry"]) == (0, "")
    lines = bullpen("status").out.splitlines()
    assert "POOL    TICKETS  CLAIMABLE  TARGET" in lines
    assert "small   0        0          8 (mon-sun 00:00-24:00 Europe/Berlin)" in lines


def test_status_without_targets_has_no_column_for_them(bullpen: CommandLine) -> None:
    assert bullpen("refresh").code == 0
    assert "TARGET" not in bullpen("status").out


def test_a_plan_shows_the_target_its_entry_and_the_next_change(bullpen: CommandLine) -> None:
    Path("bullpen.toml").write_text(GOOD.replace('hours = "08:00-18:30"', 'hours = "00:00-23:59"'))
    assert bullpen("refresh", "--set", "classes.small.schedule=[]").code == 0
    answer = bullpen("plan", "--run-id", "4711", "--count", "1", "--json").answer["idleTarget"]
    assert answer["nextTarget"] == 8 - answer["target"]  # whatever day and time it is
    assert answer["nextTargetAt"].endswith("Z")
    text = " ".join(bullpen("plan", "--run-id", "4711", "--count", "1").out.split())
    assert re.search(r"the idle target is [08]( \(weekdays .*\))?, then [80] from \d{4}-", text)
