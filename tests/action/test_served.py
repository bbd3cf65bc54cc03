"""The action and `bullpen serve`: a job with its OIDC token, an operator's token, and a step that is cancelled."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from action.operated_server import serving, states
from action.steps import run_action, start_action
from bullpen.action.cancellation import SETTLES
from fakes.github.hub import FakeGithub, JobSpec
from made_tokens import make_token
from server.served import PATIENCE, ServeProcess, a_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServeProcess, dict[str, str]]]:
    """One with room for four machines, for tests that leave it as it was."""
    with serving(tmp_path_factory.mktemp("operated") / "home", "--set", "local.capacity=4") as found:
        yield found


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServeProcess, dict[str, str]]]:
    """One whose machines take a minute to boot."""
    with serving(tmp_path_factory.mktemp("slow") / "home", "--set", "agent.pre-runner-script=sleep 60") as found:
        yield found


def until(holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.05)


def test_a_token_of_an_operator_allows_provision_and_release(
    operated: tuple[ServeProcess, dict[str, str]], tmp_path: Path
) -> None:
    served, where = operated
    ran = run_action({"mode": "provision", **where, "instance-count": "2"}, {}, tmp_path)
    assert ran.code == 0, ran.log
    assert (ran.outputs["created"], len(json.loads(ran.outputs["instance-ids"]))) == ("2", 2)
    assert "| small | local.small | on-demand | created |" in ran.summary
    assert "| booting and registering |" in ran.summary
    assert where["server-token"] not in ran.log + ran.summary
    assert states(served, where["server-token"], "4711") == ["running", "running"]
    released = run_action({"mode": "stop", **where, "label": ran.outputs["label"]}, {}, tmp_path)
    assert released.code == 0, released.log
    assert "2 runners of 4711 back in the pool" in released.summary
    reused = run_action({"mode": "start", **where, "count": "2"}, {"GITHUB_RUN_ID": "4712"}, tmp_path)
    assert (reused.outputs["selected"], reused.outputs["created"]) == ("2", "0")


def test_a_failed_provision_reports_the_outcome_of_every_instance(
    operated: tuple[ServeProcess, dict[str, str]], tmp_path: Path
) -> None:
    _, where = operated
    ran = run_action({"mode": "provision", **where, "instance-count": "5"}, {"GITHUB_RUN_ID": "4713"}, tmp_path)
    assert ran.code == 1
    assert "Nothing of this provision is left running." in ran.errors[0]
    unknown = run_action({"mode": "provision", **where, "resource-class": "huge"}, {}, tmp_path)
    assert unknown.code == 2
    assert "resource-class 'huge': not configured" in unknown.errors[0]


def test_a_cancelled_step_cancels_the_operation_and_reports_its_end(
    slow: tuple[ServeProcess, dict[str, str]], tmp_path: Path
) -> None:
    served, where = slow
    step = start_action({"mode": "provision", **where, "instance-count": "2"}, {}, tmp_path)
    step.wait_for("for a machine that boots and registers")
    cancelled_at = time.monotonic()
    ran = step.cancel()
    assert ran.code == 130, ran.log
    assert ran.seconds < 7.5
    if time.monotonic() - cancelled_at >= SETTLES:  # on a busy machine the server may need longer than a step waits
        until(lambda: set(states(served, where["server-token"], "4711")) <= {"terminated"})
        return
    assert "stopped before the commit" in ran.errors[0]
    assert set(states(served, where["server-token"], "4711")) <= {"terminated"}


def test_a_cancelled_step_ends_in_time_even_if_the_server_does_not_answer(
    slow: tuple[ServeProcess, dict[str, str]], tmp_path: Path
) -> None:
    served, where = slow
    step = start_action({"mode": "provision", **where}, {"GITHUB_RUN_ID": "4712"}, tmp_path)
    step.wait_for("for a machine that boots and registers")
    served.process.send_signal(signal.SIGSTOP)  # it is there, and mute
    try:
        ran = step.cancel()
    finally:
        served.process.send_signal(signal.SIGCONT)
    assert ran.code == 130, ran.log
    assert ran.seconds < 7.5
    assert "is not known" in ran.errors[0]


@pytest.mark.parametrize(
    ("where", "code", "says"),
    [
        ({"server": "http://127.0.0.1:1"}, 2, "`permissions: id-token: write` is missing"),
        ({"server": "http://127.0.0.1:1", "server-token": "x", "ami": "ami-0123456789abcdef0"}, 2, "server and ami"),
    ],
)
def test_missing_inputs_are_named_before_any_request_to_the_server(
    where: dict[str, str], code: int, says: str, tmp_path: Path
) -> None:
    ran = run_action({"mode": "provision", **where}, {}, tmp_path)
    assert ran.code == code
    assert says in ran.errors[0]


def test_a_token_that_the_server_does_not_know_is_refused(
    operated: tuple[ServeProcess, dict[str, str]], tmp_path: Path
) -> None:
    _, where = operated
    ran = run_action({"mode": "provision", **where, "server-token": "bp_not_a_token"}, {}, tmp_path)
    assert ran.code == 1
    assert "refused the token" in ran.errors[0]
    assert "did not begin, and nothing was done" in ran.summary
    assert "bp_not_a_token" not in ran.log + ran.summary


@contextmanager
def serving_github(github: FakeGithub, home: Path) -> Iterator[ServeProcess]:
    said = {
        "engines.ci": "github",
        "github.scope": "acme/widgets",
        "github.url": github.url,
        "github.api-url": github.api_url,
        "github.token": github.token(),
        "github.oidc-issuer": github.issuer,
        "local.capacity": "0",
    }
    make_token(home)
    with a_server(home, *(word for name, value in said.items() for word in ("--set", f"{name}={value}"))) as served:
        yield served


def test_a_job_authenticates_with_its_oidc_token_for_its_own_run(github: FakeGithub, tmp_path: Path) -> None:
    run = github.start_run("acme/widgets", [JobSpec("provision")])
    environ = {**github.oidc_environment(run.job("provision")), "GITHUB_RUN_ID": str(run.id)}
    with serving_github(github, tmp_path / "home") as served:
        ran = run_action({"mode": "release", "server": served.url}, environ, tmp_path)
        assert ran.code == 0, ran.log
        assert f"{run.id} holds no runners" in ran.summary
        none = run_action({"mode": "provision", "server": served.url}, environ, tmp_path)
        assert none.code == 1
        assert "**Cause:**" in none.summary
        foreign = run_action({"mode": "release", "server": served.url}, {**environ, "GITHUB_RUN_ID": "1"}, tmp_path)
        assert foreign.code == 1
        assert foreign.outputs["label"] == "1"
        assert "1 of" not in foreign.summary
    assert "eyJ" not in ran.log + none.log + foreign.log, "an identity is in the log"
    assert "bpr_" not in ran.log + none.log + foreign.log, "a run's token is in the log"


def test_an_oidc_token_for_another_audience_is_refused(github: FakeGithub, tmp_path: Path) -> None:
    run = github.start_run("acme/widgets", [JobSpec("provision")])
    environ = {**github.oidc_environment(run.job("provision")), "GITHUB_RUN_ID": str(run.id)}
    with serving_github(github, tmp_path / "home") as served:
        ran = run_action({"mode": "release", "server": served.url, "audience": "another"}, environ, tmp_path)
    assert ran.code == 1
    assert "refused the job's OIDC token" in ran.errors[0]
    assert "github.oidc-audience" in ran.errors[0]
