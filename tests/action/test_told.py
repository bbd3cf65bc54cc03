"""What the inputs mean as settings: the archived original's names, units and defaults."""

from __future__ import annotations

import pytest

from action.asking import AMI, GROUP, JOB, POOL, REFRESH, SUBNET, asked
from bullpen.action import settings_document
from bullpen.action.inputs import read
from bullpen.action.load_settings import published_of, settings_of
from bullpen.errors import ConfigError
from bullpen.settings import Layer, Loaded, load


def refreshed(**more: str) -> Loaded:
    return settings_of(read(REFRESH | {name.replace("_", "-"): value for name, value in more.items()}), JOB, {})


def test_refresh_has_the_defaults_of_the_original() -> None:
    settings = refreshed().settings
    assert (settings.timings.idle, settings.timings.max_runtime, settings.github.token_rotation) == (300, 1800, 1800)
    assert (settings.classes["large"].cpu, settings.classes["large"].mem) == (2, 4096)
    assert (settings.classes["16xlarge"].cpu, settings.classes["16xlarge"].mem) == (64, 131072)
    assert "docker git libicu" in settings.agent.pre_runner_script


def test_inputs_of_refresh_describe_the_machines() -> None:
    aws = refreshed().settings.aws
    assert (aws.pool, aws.region, aws.image, aws.subnets) == ("ci-pool", "eu-central-1", AMI, (SUBNET,))
    assert (aws.security_groups, aws.instance_profile) == ((GROUP,), "ci-runner")


def test_the_run_s_repository_is_where_runners_register() -> None:
    settings = refreshed().settings
    assert settings.on_github
    assert (settings.github.scope, settings.github.token) == ("acme/widgets", "ghp_of_an_admin")


@pytest.mark.parametrize(
    ("name", "value", "setting", "expected"),
    [
        ("idle_time_sec", "60", "timings.idle", 60),
        ("max_runtime_min", "45", "timings.max-runtime", 2700),
        ("github_reg_token_refresh_min", "45", "github.token-rotation", 900),
        ("pre_runner_script", "true", "agent.pre-runner-script", "true"),
        ("startup_timeout_minutes", "5", "timings.validation", 300),
        ("aws_resource_tags", '[{"Key": "team", "Value": "ci"}]', "aws.tags", {"team": "ci"}),
        ("volume_size", "40", "aws.volume", 40),
        ("runner_home_dir", "/srv/runner", "github.runner-directory", "/srv/runner"),
        ("spot_fallback", "on-demand", "classes.large.spot-fallback", True),
        ("spot_fallback", "on-demand", "classes.xlarge.spot-fallback", True),
        ("resource_class_config", '{"huge": {"cpu": 9, "mmem": 99}}', "classes.huge.mem", 99),
    ],
)
def test_an_input_is_converted_to_the_unit_of_its_setting(
    name: str, value: str, setting: str, expected: object
) -> None:
    assert refreshed(**{name: value}).values[setting].value == expected


def test_a_spot_fallback_for_one_class_applies_only_to_it() -> None:
    values = refreshed(spot_fallback="on-demand", resource_class="xlarge").values
    assert [values[f"classes.{name}.spot-fallback"].value for name in ("large", "xlarge")] == [False, True]


@pytest.mark.parametrize("mode", ["refresh", "provision"])
def test_the_error_for_an_unknown_class_names_the_input(mode: str) -> None:
    where = {"home": "here"} if mode == "provision" else REFRESH
    said = {**where, "mode": mode, "resource-class": "nosuch", "usage-class": "spot", "spot-fallback": "on-demand"}
    with pytest.raises(ConfigError, match=r"^resource-class 'nosuch': not configured"):
        settings_of(read(said), JOB, {})


def test_configured_classes_replace_those_of_the_original() -> None:
    assert "xlarge" not in refreshed(resource_class_config='{"huge": {"cpu": 9, "mmem": 99}}').settings.classes


def test_with_a_settings_file_the_defaults_of_the_original_do_not_apply() -> None:
    assert set(settings_document.defaults(read(REFRESH | {"config": "bullpen.toml"}), JOB)) == {"engines", "github"}


def test_refresh_publishes_the_settings_that_are_set_without_secrets() -> None:
    document = published_of(refreshed(resource_class_config='{"huge": {"cpu": 9, "mmem": 99}}'))
    assert document["aws"]["image"] == AMI
    assert document["classes"] == {"huge": {"cpu": 9, "mem": 99}}
    assert document["github"] == {
        "scope": "acme/widgets",
        "url": "https://github.com",
        "api-url": "https://api.github.com",
        "token-rotation": 1800.0,
    }
    assert "ghp_of_an_admin" not in str(document)
    assert "pool" not in document["aws"]


def test_provision_takes_missing_settings_from_the_published_ones() -> None:
    provision = read({"mode": "provision", **POOL})
    above, beneath = (
        Layer("inputs", settings_document.document_of(provision, {})),
        Layer("table", published_of(refreshed())),
    )
    settings = load({}, above=above, beneath=beneath).settings
    known = refreshed().settings
    assert (settings.aws, settings.classes, settings.timings) == (known.aws, known.classes, known.timings)


def test_inputs_and_file_win_over_published_settings() -> None:
    provision = read({"mode": "provision", **POOL, "ec2-image-id": "ami-1123456789abcdef0"})
    above, beneath = (
        Layer("inputs", settings_document.document_of(provision, {})),
        Layer("table", published_of(refreshed())),
    )
    assert load({}, above=above, beneath=beneath).settings.aws.image == "ami-1123456789abcdef0"


def test_the_default_request_on_aws_is_that_of_the_original() -> None:
    found = settings_document.request_of(read({"mode": "provision", **POOL}))
    assert found == {"resource-class": "large", "usage-class": "spot", "allowed-instance-types": ["c*", "m*", "r*"]}


def test_mode_start_requests_on_demand_machines_as_other_actions_do() -> None:
    assert settings_document.request_of(read({"mode": "start", **POOL}))["usage-class"] == "on-demand"
    assert settings_document.request_of(read({"mode": "start", **POOL, "market-type": "spot"}))["usage-class"] == "spot"


def test_the_default_request_on_this_machine_is_that_of_the_command_line() -> None:
    found = settings_document.request_of(asked(home="here"))
    assert found == {"resource-class": "small", "usage-class": "on-demand", "allowed-instance-types": ["*"]}
