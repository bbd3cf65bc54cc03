"""What the configuration of an agent says about GitHub, on every engine that launches agents."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from bullpen.agent.config import Config
from bullpen.config import Engines, Github, Settings
from bullpen.engines.aws.boot.userdata import own_user_data, told
from bullpen.engines.local.launch import environment
from bullpen.settings.github import agent_settings

HUB = Github(scope="acme/widgets", token="s3cret", webhook_secret="hush", runner_directory="/opt/runner")
SETTINGS = Settings(engines=Engines(pool="aws", ci="github"), github=HUB)


def test_where_jobs_are_bullpen_s_own_the_configuration_says_nothing_about_github() -> None:
    assert agent_settings(Settings()) == {}


def test_the_configuration_says_where_the_runner_lies() -> None:
    assert agent_settings(SETTINGS) == {
        "ci": "github",
        "runner_directory": "/opt/runner",
        "runner_url": "",
        "runner_sha256": "",
    }


def test_every_key_of_the_configuration_is_known_to_agents() -> None:
    assert set(told(SETTINGS)) <= {field.name for field in fields(Config)}


def test_no_secret_of_github_is_in_the_configuration_of_a_machine() -> None:
    for content in (json.dumps(told(SETTINGS)), own_user_data(SETTINGS)):
        assert "s3cret" not in content
        assert "hush" not in content


def test_the_way_out_to_github_is_passed_on_where_jobs_are_github_s(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {"https_proxy": "http://proxy:3128", "NO_PROXY": "localhost"}
    for name, value in {**ways, "GITHUB_TOKEN": "s3cret"}.items():
        monkeypatch.setenv(name, value)
    passed_on, plain = environment("i-1", SETTINGS), environment("i-1", Settings())
    assert {name: passed_on.get(name) for name in ways} == ways
    assert "GITHUB_TOKEN" not in passed_on
    assert not plain.keys() & ways.keys()
