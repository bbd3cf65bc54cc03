"""The pool of a step without a server: its repository, the sources of its settings, and what refresh publishes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from action.asking import JOB, POOL, REFRESH
from bullpen import one_off_calls
from bullpen.action.inputs import read
from bullpen.action.load_settings import check_scope, published_of, settings_of
from bullpen.config import Settings
from bullpen.engines.memory import LoopClock, Memory, SeededChance
from bullpen.errors import ConfigError
from bullpen.ports import Ports, Secret
from bullpen.settings import Loaded, Publication

PROVISION = {"mode": "provision", **POOL}
GADGETS = replace(JOB, repository="acme/gadgets")
HOME = {"home": "here", "github-token": "ghp_of_an_admin"}
APP = """
[engines]
pool = "aws"
ci = "github"
[github]
scope = "acme"
app-id = "123"
private-key = "file:/etc/bullpen/app.pem"
installation-id = 7
[aws]
subnets = ["subnet-0123456789abcdef0"]
image = "ami-0123456789abcdef0"
instance-profile = "ci-runner"
"""


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts settings where those of the pool are looked up."""

    def published(document: dict[str, Any], version: str = "") -> None:
        async def found(settings: Settings) -> Publication:
            return Publication(document, version)

        monkeypatch.setattr(one_off_calls, "published_settings", found)

    return published


def of_app(folder: Path) -> Loaded:
    (folder / "app.toml").write_text(APP)
    asked = read({"mode": "refresh", **POOL, "config": str(folder / "app.toml")})
    return settings_of(asked, JOB, {})


def test_a_pool_of_another_repository_is_refused(publish: Any) -> None:
    """Its runners register there: the step would be green, and the job would wait for ever."""
    publish(published_of(settings_of(read(REFRESH), JOB, {})))
    assert settings_of(read(PROVISION), JOB, {}).settings.github.scope == "acme/widgets"
    with pytest.raises(ConfigError, match=r"^acme/gadgets: the pool's runners register at acme/widgets"):
        settings_of(read(PROVISION), GADGETS, {})


def test_a_pool_of_the_organisation_serves_each_of_its_repositories(publish: Any, tmp_path: Path) -> None:
    publish(published_of(of_app(tmp_path)))
    settings = settings_of(read(PROVISION), GADGETS, {}).settings
    assert (settings.github.scope, settings.on_github) == ("acme", True)
    with pytest.raises(ConfigError, match="register at acme,"):
        settings_of(read(PROVISION), replace(JOB, repository="other/widgets"), {})


def test_credentials_of_an_app_are_not_published_and_not_required_by_others(publish: Any, tmp_path: Path) -> None:
    document = published_of(of_app(tmp_path))
    assert document["github"] == {"scope": "acme"}
    publish({**document, "github": {**document["github"], "app-id": "123"}})  # as it once was
    for token in ({}, {"github-token": "ghp_of_an_admin"}):
        assert settings_of(read({**PROVISION, **token}), JOB, {}).settings.github.app_id == ""


def test_a_receiver_of_traces_is_not_published(publish: Any) -> None:
    """A workflow has another network, and the action no OpenTelemetry: its provisions would fail."""
    loaded = settings_of(read(REFRESH), JOB, {"BULLPEN_TRACES_ENDPOINT": "http://collector:4318/v1/traces"})
    assert loaded.settings.traces.endpoint
    publish(published_of(loaded))
    assert settings_of(read(PROVISION), JOB, {}).settings.traces.endpoint == ""


async def test_refresh_does_not_take_a_pool_from_another_repository(publish: Any) -> None:
    asked, ports = read(REFRESH), a_pool()
    publish({"github": {"scope": "acme/widgets"}})
    await check_scope(ports, settings_of(asked, JOB, {}), asked, JOB)
    with pytest.raises(ConfigError, match="the pool belongs to acme/widgets"):
        await check_scope(ports, settings_of(asked, GADGETS, {}), asked, GADGETS)


@pytest.mark.parametrize("mode", ["provision", "refresh"])
async def test_on_this_machine_the_stored_registration_names_the_repository_of_the_pool(mode: str) -> None:
    asked, ports = read({"mode": mode, **HOME}), a_pool()
    secret = Secret(json.dumps({"url": "https://github.com/acme/widgets"}), datetime(2999, 1, 1, tzinfo=UTC))
    await check_scope(ports, settings_of(asked, GADGETS, {}), asked, GADGETS)
    await ports.vault.write("github", secret)
    await check_scope(ports, settings_of(asked, JOB, {}), asked, JOB)
    with pytest.raises(ConfigError, match="acme/widgets"):
        await check_scope(ports, settings_of(asked, GADGETS, {}), asked, GADGETS)


def test_a_settings_file_in_the_checkout_is_read_only_if_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a pull request it is what a stranger wrote."""
    (tmp_path / "bullpen.toml").write_text('[agent]\npre-runner-script = "theirs"\n')
    monkeypatch.chdir(tmp_path)
    asked = {"mode": "provision", "home": "here"}
    assert settings_of(read(asked), JOB, {}).settings.agent.pre_runner_script == ""
    for named in (
        settings_of(read({**asked, "config": "bullpen.toml"}), JOB, {}),
        settings_of(read(asked), JOB, {"BULLPEN_CONFIG": "bullpen.toml"}),
    ):
        assert named.settings.agent.pre_runner_script == "theirs"


def test_the_error_for_settings_of_another_version_names_both_versions(publish: Any) -> None:
    known = published_of(settings_of(read(REFRESH), JOB, {}))
    publish({**known, "timings": {"brand-new": 1}}, "99.0")
    with pytest.raises(ConfigError, match="brand-new") as caught:
        settings_of(read(PROVISION), JOB, {})
    assert "Bullpen 99.0 published" in caught.value.remedy
    assert "Use the same version" in caught.value.remedy


def a_pool() -> Ports:
    return Memory().ports(LoopClock(), SeededChance())
