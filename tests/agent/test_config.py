"""agent.json among versions: control planes and agents of a pool are not replaced at the same moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bullpen.agent.config import Config, load
from bullpen.config import Liveness, Settings
from bullpen.engines.local import launch
from bullpen.model.job import LOSSES

BEFORE_LOSSES = {
    *("instance_id", "home", "heartbeat", "appears_within", "max_runtime", "idle", "pre_runner_script"),
    *("pre_runner_timeout", "keep", "lease", "verify", "purge", "capabilities"),
}
"""The keys of a local machine's agent.json before agents knew `losses`."""


def told(**liveness: Any) -> dict[str, Any]:
    return launch._told(Path("/home"), "i-1", Settings(liveness=Liveness(**liveness)), "", "")


def loaded(directory: Path, content: object) -> Config:
    path = directory / "agent.json"
    path.write_text(json.dumps(content))
    return load(path)


def test_an_earlier_control_plane_wrote_nothing_of_losses_and_its_agents_go_by_the_default(tmp_path: Path) -> None:
    content = {name: value for name, value in told(losses=2).items() if name in BEFORE_LOSSES}
    assert loaded(tmp_path, content).losses == LOSSES


def test_an_agent_learns_how_many_workers_a_job_may_lose(tmp_path: Path) -> None:
    assert loaded(tmp_path, told(losses=1)).losses == 1


def test_an_earlier_agent_gets_no_key_that_it_would_refuse_unless_a_setting_asks_for_it() -> None:
    assert told().keys() == BEFORE_LOSSES
    assert told(losses=2).keys() == BEFORE_LOSSES | {"losses"}


def test_a_later_control_plane_may_write_what_this_agent_does_not_know(tmp_path: Path) -> None:
    config = loaded(tmp_path, {**told(), "of_the_future": True})
    assert config.instance_id == "i-1"


@pytest.mark.parametrize("content", [[], {}, {"home": "/home"}, "text"])
def test_what_is_no_configuration_is_refused_by_the_name_of_its_file(tmp_path: Path, content: object) -> None:
    with pytest.raises(ValueError, match=r"agent\.json is not an agent configuration"):
        loaded(tmp_path, content)


def test_the_settings_do_not_allow_more_losses_than_the_model() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"losses": LOSSES + 1}, Liveness)
