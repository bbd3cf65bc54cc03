"""The settings of liveness: what cannot be meant is refused at start, by name."""

from pathlib import Path
from typing import Any

import pytest

from bullpen.config import Liveness, Settings
from bullpen.errors import ConfigError
from bullpen.settings import load
from bullpen.settings.validation import contradictions


@pytest.mark.parametrize(
    ("rules", "one", "other"),
    [
        ({"min_lease": 61, "default_lease": 70}, "liveness.min-lease (61)", "timings.lease (15)"),
        ({"default_lease": 4}, "liveness.default-lease (4)", "liveness.min-lease (5)"),
        ({"default_lease": 3601}, "liveness.default-lease (3601)", "liveness.max-lease (3600)"),
        ({"confirm": 5}, "liveness.confirm (5)", "timings.heartbeat (5)"),
        ({"grace_gap": 5}, "liveness.grace-gap (5)", "timings.heartbeat (5)"),
        ({"tombstone": 3600}, "liveness.tombstone (3600)", "liveness.max-lease (3600)"),
    ],
)
def test_a_contradiction_is_named_with_both_settings(rules: dict[str, Any], one: str, other: str) -> None:
    (found,) = contradictions(Settings(liveness=Liveness(**rules)))
    assert one in found
    assert other in found


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("BULLPEN_LIVENESS_BRAKE_FRACTION", "55", "a number, more than 0 and at most 1"),
        ("BULLPEN_LIVENESS_RESCHEDULE", "perhaps", "true or false"),
        ("BULLPEN_LIVENESS_LOSSES", "4", "a whole number from 1 to 3"),
        ("BULLPEN_LIVENESS_CONFIRM", "-1", "seconds"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed):
        load({variable: text})


def test_rescheduling_can_be_switched_off_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load({"BULLPEN_LIVENESS_RESCHEDULE": "false"}).settings.liveness.reschedule is False
