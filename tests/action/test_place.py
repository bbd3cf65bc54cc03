"""The location of the pool, the label, and inputs that contradict each other."""

from __future__ import annotations

import pytest

from action.asking import JOB, MACHINES, POOL, REFRESH, asked
from bullpen.action.inputs import read
from bullpen.action.job_context import job_of, label_of
from bullpen.action.pool_location import check
from bullpen.errors import ConfigError

SERVER = {"server": "https://bullpen.example.com"}


def refused(document: dict[str, str], environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        check(read(document), environ or {})
    return f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize("where", [SERVER, POOL, {"home": "/var/lib/bullpen"}, {"config": "bullpen.toml"}])
def test_one_location_of_the_pool_is_enough(where: dict[str, str]) -> None:
    check(read({"mode": "provision", **where}), {})


def test_the_error_for_a_missing_location_lists_all_inputs_for_one() -> None:
    said = refused({"mode": "provision"})
    assert all(name in said for name in ("server", "table-name", "home", "config"))


@pytest.mark.parametrize("name", [*POOL, *MACHINES, "home", "config", "github-token"])
def test_a_server_and_another_location_contradict(name: str) -> None:
    value = (POOL | MACHINES | {"home": "here", "config": "bullpen.toml", "github-token": "ghp_of_an_admin"})[name]
    assert f"server and {name}:" in refused({"mode": "provision", **SERVER, name: value})


def test_a_refusal_names_the_input_that_the_workflow_used() -> None:
    assert "server and ec2-image-id:" in refused({"mode": "start", **SERVER, "ec2-image-id": MACHINES["ami"]})


def test_refresh_with_a_server_is_refused() -> None:
    assert "a server refreshes its pool by itself" in refused({"mode": "refresh", **SERVER})


def test_a_server_token_without_a_server_is_refused() -> None:
    said = refused({"mode": "provision", **POOL, "server-token": "abc"})
    assert said.startswith("server-token: has no effect without server")


def test_an_audience_beside_a_server_token_is_refused() -> None:
    said = refused({"mode": "provision", **SERVER, "server-token": "abc", "audience": "pool"})
    assert said.startswith("server-token and audience: only one of them can be used")


def test_a_pool_is_either_on_this_machine_or_on_aws() -> None:
    assert refused({"mode": "provision", **POOL, "home": "here"}).startswith("home and table-name, aws-region:")
    region = {"aws_region": "eu-central-1", "home": "here"}
    assert refused({"mode": "provision", **region}) == (
        "home and aws_region: a pool is either on this machine or on AWS Remove aws_region, or home."
    )


def test_the_region_may_come_from_the_environment() -> None:
    document = {"mode": "provision", "table-name": "ci-pool"}
    assert refused(document).startswith("aws-region: is required")
    check(read(document), {"AWS_REGION": "eu-central-1"})


@pytest.mark.parametrize("name", ["ami", "iam-instance-profile", "subnet-ids", "github-token"])
def test_refresh_names_what_it_needs(name: str) -> None:
    check(read(REFRESH), {})
    assert refused({**REFRESH, name: ""}).startswith(f"{name}: required with mode refresh")


LABELS = {"": "4711", "run": "4711", "attempt": "4711-2", "class": "4711-large", "attempt-class": "4711-2-large"}


@pytest.mark.parametrize(("by", "label"), LABELS.items())
def test_label_by_selects_the_parts_of_the_label(by: str, label: str) -> None:
    assert label_of(JOB, asked(label_by=by, resource_class="large")) == label


def test_a_label_by_class_needs_a_class() -> None:
    with pytest.raises(ConfigError, match="label-by class: requires resource-class"):
        label_of(JOB, asked(label_by="class"))


def test_a_label_from_an_output_can_be_released() -> None:
    assert label_of(JOB, asked("stop", label="4711-1-large")) == "4711-1-large"


@pytest.mark.parametrize("label", ["4712", "4711-3", "some-label"])
def test_a_label_of_another_run_is_refused(label: str) -> None:
    with pytest.raises(ConfigError, match="does not belong to run"):
        label_of(JOB, asked("stop", label=label))


def test_a_label_that_the_workflow_invents_is_refused() -> None:
    with pytest.raises(ConfigError, match="the label of these runners is '4711'"):
        label_of(JOB, asked("start", label="my-runner"))


def test_outside_of_a_workflow_there_is_no_label() -> None:
    with pytest.raises(ConfigError, match="not the environment of a workflow job"):
        job_of({"GITHUB_RUN_ID": "local", "GITHUB_REPOSITORY": "acme/widgets"})


@pytest.mark.parametrize(
    ("said", "known"), [("42", 42), (None, 0), ("", 0), ("0", 0), ("042", 0), ("4x", 0), ("9" * 19, 0), ("٤٢", 0)]
)
def test_the_id_of_the_repository_is_that_of_the_environment_or_not_known(said: str | None, known: int) -> None:
    environ = {"GITHUB_RUN_ID": "4711", "GITHUB_REPOSITORY": "acme/widgets"}
    assert job_of(environ if said is None else environ | {"GITHUB_REPOSITORY_ID": said}).repository_id == known
