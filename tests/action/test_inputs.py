"""Inputs: what each means, and what is refused before any work, by name, with its value and what is allowed."""

from __future__ import annotations

import json

import pytest

from action.asking import AMI, asked, refusals
from bullpen.action.aliases import ALIASES, Alias
from bullpen.action.input_specs import INPUTS
from bullpen.action.inputs import Refusals, document_of, read, secrets_of
from bullpen.errors import ConfigError

GOOD = {
    "instance-count": "3",
    "server": "https://bullpen.example.com",
    "table-name": "ci-pool",
    "aws-region": "eu-central-1",
    "ami": AMI,
    "security-group-ids": "sg-0123456789abcdef0 sg-1123456789abcdef0",
    "subnet-ids": "subnet-0123456789abcdef0,subnet-1123456789abcdef0",
    "idle-time-sec": "300",
    "max-runtime-min": "45",
    "github-reg-token-refresh-min": "30",
    "resource-class-config": '{"large": {"cpu": 4, "mmem": "1024"}}',
    "aws-resource-tags": '[{"Key": "team", "Value": "ci"}]',
    "volume-size": "0",
    "usage-class": "spot",
    "allow-partial": "TRUE",
    "wait": "10m",
    "dry-run": "false",
    "label-by": "attempt-class",
}
BAD = {
    "instance-count": ("two", "0", "-1", "1001", "1.5", "１"),
    "server": ("bullpen.example.com", "ftp://x", "https://x y"),
    "table-name": ("x", "a_b", "9lives", "a" * 33),
    "aws-region": ("Frankfurt", "eu"),
    "ami": ("ami-123", "0123456789abcdef0"),
    "security-group-ids": ("sg-1 sg-2", ","),
    "subnet-ids": ("subnet-0123456789abcdef0 vpc-1",),
    "idle-time-sec": ("5m",),
    "max-runtime-min": ("0", "10081"),
    "github-reg-token-refresh-min": ("60", "0"),
    "resource-class-config": (
        "large",
        "[]",
        "{}",
        '{"large": {"cpu": 4}}',
        '{"large": {"cpu": "many", "mmem": 1}}',
        '{"a b": {"cpu": 1, "mmem": 1}}',
        '{"large": {"cpu": 1, "mmem": 1}, "large": {"cpu": 9, "mmem": 9}}',
    ),
    "aws-resource-tags": (
        "team=ci",
        '{"team": "ci"}',
        '[{"Key": "team"}]',
        '[{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]',
        '[{"Key": "team", "Value": 1}]',
    ),
    "volume-size": ("-1", "big"),
    "usage-class": ("cheap",),
    "allow-partial": ("yes",),
    "wait": ("0", "7h", "1d", "soon", "-5m", "1.5h"),
    "dry-run": ("1",),
    "label-by": ("job",),
}


def mode_of(name: str) -> str:
    return INPUTS[name].modes[0]


@pytest.mark.parametrize("name", GOOD)
def test_a_value_that_is_allowed_is_read(name: str) -> None:
    assert refusals({"mode": mode_of(name), name: GOOD[name]}) == []


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in BAD[name]])
def test_an_invalid_value_is_refused_with_what_is_allowed(name: str, value: str) -> None:
    (refusal,) = refusals({"mode": mode_of(name), name: value})
    assert refusal.startswith(f"{name} {value!r}"[:59].rstrip("'"))
    assert f"must be {INPUTS[name].type.allowed}" in refusal


def test_every_wrong_input_is_named_at_once() -> None:
    found = refusals({"mode": "provison", "instance-count": "x", "usage-class": "y"})
    assert [line.split()[0] for line in found] == ["mode", "instance-count", "usage-class"]


@pytest.mark.parametrize(("word", "known"), [("start", "start"), ("release", "release"), ("relase", ""), ("", "")])
def test_a_refusal_has_the_mode_as_the_workflow_names_it(word: str, known: str) -> None:
    with pytest.raises(Refusals) as caught:
        read({"mode": word, "instance-cout": "2"})
    assert caught.value.word == known


@pytest.mark.parametrize(
    ("written", "meant"),
    [("instance-cout", "instance-count"), ("tablename", "table-name"), ("market_type", "market-type")],
)
def test_a_misspelt_input_is_refused_with_the_nearest_known_one(written: str, meant: str) -> None:
    assert refusals({"mode": "provision", written: "2"}) == [f"'{written}': no such input. Did you mean {meant}?"]


def test_a_misspelt_mode_is_refused_with_the_nearest_known_one() -> None:
    (refusal,) = refusals({"mode": "relase"})
    assert refusal.endswith("Did you mean release?")


def test_an_empty_mode_is_named() -> None:
    assert refusals({"mode": "", "instance-count": "2"}) == [
        "mode: is required. Set it to one of provision, release, refresh, echo, start, stop, cleanup."
    ]


def test_an_empty_value_counts_as_not_set() -> None:
    found = asked(instance_count="", usage_class="  ")
    assert found.given == {}


def test_names_of_inputs_are_compared_without_case_as_github_does() -> None:
    assert read(document_of('{"Mode": "provision", "INSTANCE-COUNT": "2"}')).given == {"instance-count": 2}


@pytest.mark.parametrize("text", ["", "[]", "no json"])
def test_inputs_that_are_not_a_json_object_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"not (valid|a) JSON"):
        document_of(text)


@pytest.mark.parametrize(("word", "mode"), [("start", "provision"), ("stop", "release"), ("cleanup", "refresh")])
def test_modes_of_other_actions_are_accepted(word: str, mode: str) -> None:
    assert asked(word).mode == mode


@pytest.mark.parametrize("word", ["pause", "resume"])
def test_an_unsupported_mode_names_the_one_to_use(word: str) -> None:
    (refusal,) = refusals({"mode": word})
    assert "Use release" in refusal or "Use provision" in refusal


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ({"count": "3"}, {"instance-count": 3}),
        ({"instance_count": "3"}, {"instance-count": 3}),
        ({"market-type": "spot"}, {"usage-class": "spot"}),
        ({"max-lifetime-minutes": "90"}, {"max-runtime-min": 90}),
        ({"ec2_instance_ttl": "90"}, {"max-runtime-min": 90}),
        ({"ec2-instance-type": "c7i.4xlarge,c6i.4xlarge"}, {"allowed-instance-types": ["c7i.4xlarge", "c6i.4xlarge"]}),
        ({"ec2-image-id": AMI}, {"ami": AMI}),
        ({"ec2_spot_instance_strategy": "None"}, {"usage-class": "on-demand"}),
        ({"ec2_spot_instance_strategy": "BestEffort"}, {"usage-class": "spot", "spot-fallback": "on-demand"}),
        ({"iam-role-name": "ci"}, {"iam-instance-profile": "ci"}),
        ({"http-tokens": "required", "encrypt-ebs": "false", "use-jit": "false", "packages": "[]"}, {}),
    ],
)
def test_an_input_of_another_action_keeps_its_meaning(said: dict[str, str], given: dict[str, object]) -> None:
    assert read({"mode": "start", **said}).given == given


@pytest.mark.parametrize("name", [name for name, alias in ALIASES.items() if alias.instead])
def test_an_unsupported_input_is_refused_by_name_with_a_remedy(name: str) -> None:
    (refusal,) = refusals({"mode": "start", name: "something-else"})
    assert refusal.startswith(name)
    assert refusal.endswith(ALIASES[name].instead)


@pytest.mark.parametrize("alias", ALIASES.values(), ids=lambda alias: alias.name)
def test_every_input_of_another_action_has_exactly_one_meaning(alias: Alias) -> None:
    assert sum(map(bool, (alias.means, alias.values, alias.instead, alias.why))) == 1
    assert not alias.means or alias.means in INPUTS
    assert all(name in INPUTS for meant in alias.values.values() for name in meant)


@pytest.mark.parametrize(
    ("said", "both"),
    [
        ({"count": "2", "instance-count": "3"}, "instance-count '3' and count '2': are the same input"),
        (
            {"market-type": "spot", "usage-class": "on-demand"},
            "usage-class 'on-demand' and market-type 'spot': are the same input",
        ),
        ({"ec2_ami_id": AMI, "ec2-image-id": "ami-1123456789abcdef0"}, "are the same input with different values"),
    ],
)
def test_two_names_of_one_input_must_have_the_same_value(said: dict[str, str], both: str) -> None:
    (refusal,) = refusals({"mode": "start", **said})
    assert both in refusal


def test_two_names_of_one_input_may_have_the_same_value() -> None:
    assert refusals({"mode": "start", "count": "2", "instance-count": "02"}) == []


def test_an_unlimited_lifetime_is_refused() -> None:
    (refusal,) = refusals({"mode": "start", "max-lifetime-minutes": "0"})
    assert refusal.startswith("max-lifetime-minutes '0': must be a whole number from 1")


def test_an_input_of_another_mode_is_noted_and_left_out() -> None:
    found = asked("release", instance_count="2")
    assert (found.given, found.notes) == ({}, ("instance-count has no effect with mode release",))


SECRET = "AKIA-and-forty-more-characters"


@pytest.mark.parametrize(
    "name", ["server-token", "github-token", "aws_secret_access_key", "github_token", "gihub-token"]
)
def test_a_value_that_may_be_a_secret_is_masked_and_never_shown(name: str) -> None:
    document = document_of(json.dumps({"mode": "refresh", name: SECRET, "instance-count": "x"}))
    assert secrets_of(document) == [SECRET]
    assert SECRET not in str(refusals(document | {name: f"{SECRET} with a space"}))


@pytest.mark.parametrize(
    "url",
    [
        f"https://ci:{SECRET}@bullpen.example.com",
        f"https://{SECRET}@bullpen.example.com",
        f"ci:{SECRET}@bullpen.example.com",
        f"https://ci:p/{SECRET}@bullpen.example.com",
        f"https://bullpen.example.com/{SECRET}@x",
    ],
)
def test_credentials_in_a_url_are_masked_and_never_shown(url: str) -> None:
    (refusal,) = refusals({"mode": "provision", "server": url})
    assert refusal.startswith("server: must be an https:// or http:// URL without credentials")
    assert any(masked in url and SECRET in masked for masked in secrets_of({"server": url}))


def test_a_query_in_a_url_is_refused_and_never_shown() -> None:
    (refusal,) = refusals({"mode": "provision", "server": f"https://bullpen.example.com?token={SECRET}"})
    assert refusal.startswith("server: must be")
