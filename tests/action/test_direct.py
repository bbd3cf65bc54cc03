"""The action with the engines in the job: provision, release, and a step that is cancelled while it waits."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from action.steps import run_action, start_action
from server.served import command, environment

pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    if home.exists():  # a step with wrong inputs makes no pool
        subprocess.run(command(home, "down"), env=environment(), check=True, capture_output=True)


def instances(home: Path) -> dict[str, str]:
    """State by id, as the command line tells."""
    ran = subprocess.run(command(home, "status", "--json"), env=environment(), capture_output=True, check=True)
    return {one["id"]: one["state"] for one in json.loads(ran.stdout)["instances"]}


def test_runners_are_provisioned_released_and_reused(home: Path, tmp_path: Path) -> None:
    first = run_action({"mode": "provision", "home": str(home), "instance-count": "2"}, {}, tmp_path)
    assert first.code == 0, first.log
    ids = json.loads(first.outputs["instance-ids"])
    assert (len(ids), first.outputs["label"], first.outputs["created"]) == (2, "4711", "2")
    assert set(instances(home).values()) == {"running"}
    released = run_action({"mode": "release", "home": str(home)}, {}, tmp_path)
    assert released.code == 0, released.log
    assert "2 runners of 4711 back in the pool" in released.summary
    again = {"GITHUB_RUN_ID": "4712"}
    second = run_action({"mode": "start", "home": str(home), "count": "3", "label-by": "attempt"}, again, tmp_path)
    assert second.code == 0, second.log
    assert (second.outputs["selected"], second.outputs["created"]) == ("2", "1")
    assert set(ids) < set(json.loads(second.outputs["ec2-instance-ids"]))
    assert second.outputs["label"] == "4712-1"
    assert "**Reuse:** 2 runners were taken warm from the pool, 1 started" in second.summary


def test_the_log_is_grouped_and_shows_what_the_step_waits_for(home: Path, tmp_path: Path) -> None:
    lines = run_action({"mode": "provision", "home": str(home)}, {}, tmp_path).log.splitlines()
    assert lines[0] == "::group::provision of 4711 in this job"
    end = lines.index("::endgroup::")
    assert any("waiting: 1 for" in line for line in lines[:end])
    assert re.match(r"1 runner ready in [0-9.]+ s: 0 reused, 1 created", lines[end + 1])


def test_used_runners_of_another_trust_domain_are_not_reused(home: Path, tmp_path: Path) -> None:
    inputs = {"mode": "provision", "home": str(home)}
    run_action(inputs, {}, tmp_path)
    run_action({**inputs, "mode": "release"}, {}, tmp_path)
    strangers = {"GITHUB_RUN_ID": "4712", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge"}
    assert run_action(inputs, strangers, tmp_path).outputs["created"] == "1"


def test_used_runners_of_a_repository_are_not_reused_by_one_that_was_created_again(home: Path, tmp_path: Path) -> None:
    inputs = {"mode": "provision", "home": str(home)}
    run_action(inputs, {}, tmp_path)
    run_action({**inputs, "mode": "release"}, {}, tmp_path)
    again = {"GITHUB_RUN_ID": "4712", "GITHUB_REPOSITORY_ID": "43"}
    assert run_action(inputs, again, tmp_path).outputs["created"] == "1"
    own = {"GITHUB_RUN_ID": "4713"}
    assert run_action(inputs, own, tmp_path).outputs["selected"] == "1"


def test_a_failed_provision_is_one_error_with_cause_and_remedy_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    inputs = {"mode": "provision", "home": str(home), "instance-count": "3"}
    ran = run_action(inputs, {"BULLPEN_LOCAL_CAPACITY": "2"}, tmp_path)
    assert ran.code == 1
    (error,) = ran.errors
    assert "Nothing of this provision is left running." in error
    assert "**Cause:**" in ran.summary
    assert "**What to do:**" in ran.summary
    assert "Nothing of this provision is left running." in ran.summary
    assert ran.outputs["instance-ids"] == ""
    assert set(instances(home).values()) <= {"terminated"}
    first = run_action({**inputs, "instance-count": "1"}, {}, tmp_path)
    topped_up = run_action(inputs, {"BULLPEN_LOCAL_CAPACITY": "2"}, tmp_path)
    (kept,) = json.loads(first.outputs["instance-ids"])
    assert f"The run still holds the runners that it had before: {kept}." in topped_up.errors[0]


def test_wrong_inputs_are_annotated_one_by_one_and_nothing_is_touched(home: Path, tmp_path: Path) -> None:
    inputs = {"mode": "provision", "home": str(home), "instance-cout": "2", "usage-class": "cheap"}
    ran = run_action(inputs, {}, tmp_path)
    assert ran.code == 2
    assert ran.unexpected == ("instance-cout",)
    assert [error.split(":")[0] for error in ran.errors] == ["'instance-cout'", "usage-class 'cheap'"]
    assert "did not begin, and nothing was done" in ran.summary
    assert not home.exists()


def test_a_secret_is_masked_before_anything_else_is_printed(home: Path, tmp_path: Path) -> None:
    step = start_action({"mode": "release", "home": str(home), "github-token": "ghp_secret", "x": "y"}, {}, tmp_path)
    ran = step.end()
    assert step.log().startswith("::add-mask::ghp_secret\n")
    assert "ghp_secret" not in ran.log + ran.summary


def test_a_step_that_is_cancelled_gives_everything_back_in_time(home: Path, tmp_path: Path) -> None:
    """A machine whose script takes a minute keeps the step waiting."""
    inputs = {"mode": "provision", "home": str(home), "instance-count": "2"}
    step = start_action(inputs, {"BULLPEN_AGENT_PRE_RUNNER_SCRIPT": "sleep 60"}, tmp_path)
    step.wait_for("for a machine that boots and registers")
    ran = step.cancel()
    assert ran.code == 130, ran.log
    assert ran.seconds < 7.5
    assert set(instances(home).values()) <= {"terminated"}
    assert "what was acquired is given back or written down as owed" in ran.errors[0]


@pytest.mark.parametrize("after", [0.02, 0.06, 0.12])
def test_a_signal_at_any_time_cancels_the_step(after: float, tmp_path: Path) -> None:
    step = start_action({"mode": "provision", "server": "http://127.0.0.1:1", "server-token": "bp_x"}, {}, tmp_path)
    time.sleep(after)
    ran = step.cancel()
    assert ran.code in (130, -2), ran.log  # the latter: of the shell, before it has read a line of the script
    assert "Traceback" not in ran.log


def test_the_log_is_utf8_in_every_locale(tmp_path: Path) -> None:
    ran = run_action({"mode": "echo", "echo": "grüße"}, {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, tmp_path)
    assert (ran.code, ran.log) == (0, "grüße")


@pytest.mark.parametrize("name", ["bullpen.py", "json.py"])
def test_a_module_of_the_checkout_is_not_imported(name: str, tmp_path: Path) -> None:
    """The working directory is the workflow's, and so may be what a stranger wrote."""
    inputs, theirs = {"mode": "echo", "echo": "still ours"}, {name: "raise SystemExit('theirs')"}
    ran = start_action(inputs, {"PYTHONPATH": "."}, tmp_path, theirs).end()
    assert (ran.code, ran.log) == (0, "still ours")


def test_a_runner_without_a_new_python_says_what_to_do(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    ran = run_action({"mode": "echo"}, {"PATH": f"{tools}:/usr/bin:/bin"}, tmp_path)
    assert ran.code == 2
    assert "actions/setup-python" in ran.errors[0]
