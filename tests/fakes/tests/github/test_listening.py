"""What runners and GitHub say to each other: registration, sessions, jobs."""

import base64
import json
import threading
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from fakes.github.acting import RUNNERS, RunnerSide
from fakes.github.hub import FakeGithub, JobSpec


@pytest.fixture
def listener(api: httpx.Client, github: FakeGithub) -> RunnerSide:
    """A runner with the label 4711 that listens."""
    made = RunnerSide(api, github, "r-1", ("4711",))
    assert made.listen().status_code == 200
    return made


def test_a_runner_registers_with_a_token_and_is_online_once_it_listens(api: httpx.Client, github: FakeGithub) -> None:
    made = RunnerSide(api, github, "r-1", ("4711",), disable_update=True)
    assert made.registered.status_code == 200
    assert not github.is_online("r-1")
    assert made.listen().status_code == 200
    assert github.is_online("r-1")
    assert github.runner("r-1").settings["disable_update"]
    assert "token" not in github.runner("r-1").settings


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"token": "guessed"}, 401),
        ({"scope": "acme/missing"}, 404),
        ({"scope": "acme"}, 401),
        ({"group": "no such"}, 404),
        ({}, 409),
    ],
)
def test_a_registration_is_refused(api: httpx.Client, github: FakeGithub, more: dict[str, str], status: int) -> None:
    github.add_runner("acme/widgets", "taken")
    name = "other" if more else "taken"
    assert RunnerSide(api, github, name, ("4711",), **more).registered.status_code == status
    assert len(github.runners()) == 1


def test_a_token_registers_many_within_its_hour_and_none_after(api: httpx.Client, github: FakeGithub) -> None:
    token = api.post(f"{RUNNERS}/registration-token").json()["token"]
    for name in ("r-1", "r-2"):
        assert RunnerSide(api, github, name, (), token=token).registered.status_code == 200
    github.advance(3601)
    assert RunnerSide(api, github, "r-3", (), token=token).registered.status_code == 401


def test_a_removal_token_removes_and_a_registration_token_does_not(
    api: httpx.Client, github: FakeGithub, listener: RunnerSide
) -> None:
    asked = {"url": f"{github.url}/acme/widgets", "name": "r-1"}
    register, remove = (api.post(f"{RUNNERS}/{kind}-token").json()["token"] for kind in ("registration", "remove"))
    assert listener.say("remove", **asked, token=register).status_code == 401
    assert listener.say("remove", **asked, token=remove).status_code == 204
    assert listener.say("remove", **asked, token=remove).status_code == 404


def test_a_deleted_runner_hears_so(github: FakeGithub, listener: RunnerSide) -> None:
    github.delete_runner("r-1")
    assert listener.listen().status_code == 404
    assert listener.say("next", **listener.known, wait=5).status_code == 404


def test_a_second_listener_of_one_runner_is_a_conflict(github: FakeGithub, listener: RunnerSide) -> None:
    waiting = threading.Thread(target=lambda: listener.next(wait=30))
    waiting.start()
    github.wait_for(lambda: github.runner("r-1").polls)
    assert listener.listen().status_code == 409
    github.delete_runner("r-1")
    waiting.join(10)


def test_an_old_version_is_refused(api: httpx.Client, github: FakeGithub) -> None:
    github.oldest_version = "2.330.0"
    made = RunnerSide(api, github, "r-1", ())
    assert made.listen(version="2.329.9").status_code == 426
    assert made.listen(version="2.330.0").status_code == 200


def test_a_runner_that_left_is_offline_and_gets_no_job(github: FakeGithub, listener: RunnerSide) -> None:
    assert listener.say("leave", **listener.known).status_code == 204
    github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    assert not github.is_online("r-1")
    assert listener.next() == {}


def test_a_runner_that_is_silent_is_offline_after_a_while(github: FakeGithub, listener: RunnerSide) -> None:
    github.advance(59)
    assert github.is_online("r-1")
    github.advance(2)
    assert not github.is_online("r-1")


def test_a_waiting_runner_is_given_a_job_at_once(github: FakeGithub, listener: RunnerSide) -> None:
    got: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: got.append(listener.next(wait=30)))
    waiting.start()
    github.wait_for(lambda: github.runner("r-1").polls)
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",), script="echo ${{ github.run_id }}")])
    waiting.join(10)
    assert got[0]["script"] == f"echo {run.id}"
    assert (got[0]["run_id"], got[0]["run_attempt"], got[0]["repository"]) == (run.id, 1, "acme/widgets")
    assert got[0]["env"]["GITHUB_RUN_ID"] == str(run.id)


def test_a_job_goes_to_any_runner_that_has_all_its_labels_in_whatever_case(
    github: FakeGithub, listener: RunnerSide
) -> None:
    github.start_run("acme/widgets", [JobSpec("both", ("4711", "Gpu"))])
    assert listener.next() == {}
    github.runner("r-1").labels = ("4711", "GPU", "more")
    assert listener.next()["key"] == "both"


def test_a_runner_has_one_job_at_a_time_and_says_how_it_ended(
    api: httpx.Client, github: FakeGithub, listener: RunnerSide
) -> None:
    run = github.start_run("acme/widgets", [JobSpec("a", ("4711",)), JobSpec("b", ("4711",))])
    job = listener.next()
    assert listener.tell("started", job).status_code == 204
    assert listener.next() == {}
    assert (run.job("a").runner_name, github.runner("r-1").busy) == ("r-1", True)
    assert listener.tell("renew", job).json() == {"cancel": False}
    finished = listener.tell("finish", job, conclusion="failure", log="it broke", outputs={"x": "1"})
    assert finished.status_code == 204
    assert (run.job("a").conclusion, run.job("a").log, run.job("a").outputs) == ("failure", "it broke", {"x": "1"})
    assert listener.next()["key"] == "b"


def test_a_job_that_is_not_picked_up_within_a_minute_waits_again(
    api: httpx.Client, github: FakeGithub, listener: RunnerSide
) -> None:
    github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    lost = listener.next()
    github.advance(61)
    other = RunnerSide(api, github, "r-2", ("4711",))
    other.listen()
    assert other.next()["id"] == lost["id"]
    assert listener.tell("started", lost).status_code == 410


def test_a_job_that_was_given_up_for_lost_is_not_its_runners_any_more(github: FakeGithub, listener: RunnerSide) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    job = listener.next()
    listener.tell("started", job)
    github.advance(601)
    assert listener.tell("renew", job).status_code == 410
    assert listener.tell("finish", job, conclusion="success").status_code == 410
    assert run.conclusion == "failure"


def test_a_job_that_was_cancelled_before_it_began_is_not_begun(github: FakeGithub, listener: RunnerSide) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    job = listener.next()
    github.cancel(run)
    assert listener.tell("started", job).status_code == 410
    assert (run.conclusion, github.runner("r-1").busy) == ("cancelled", False)


def test_a_runner_whose_connection_breaks_waits_no_more(github: FakeGithub, listener: RunnerSide) -> None:
    connection = HTTPConnection(urlsplit(github.url).netloc)
    connection.request("POST", "/_runner/next", json.dumps({**listener.known, "wait": 30}))
    github.wait_for(lambda: github.runner("r-1").polls)
    connection.close()
    github.wait_for(lambda: github.runner("r-1").polls == 0)
    github.advance(61)
    assert not github.is_online("r-1")


def test_a_job_of_a_cancelled_run_is_asked_to_stop(github: FakeGithub, listener: RunnerSide) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ("4711",))])
    job = listener.next()
    listener.tell("started", job)
    github.cancel(run)
    assert listener.tell("renew", job).json() == {"cancel": True}
    listener.tell("finish", job, conclusion="cancelled")
    assert (run.state, run.conclusion) == ("completed", "cancelled")


def test_a_runner_of_an_organisation_serves_the_repositories_of_its_group_only(
    api: httpx.Client, github: FakeGithub
) -> None:
    github.add_repository("acme/gadgets")
    github.add_group("acme", "fast", ["acme/gadgets"])
    token = api.post("/orgs/acme/actions/runners/registration-token").json()["token"]
    made = RunnerSide(api, github, "r-1", ("x",), scope="acme", token=token, group="fast")
    made.listen()
    github.start_run("acme/widgets", [JobSpec("not mine", ("x",))])
    assert made.next() == {}
    github.start_run("acme/gadgets", [JobSpec("mine", ("x",))])
    assert made.next()["key"] == "mine"


def test_only_a_caller_with_the_secret_acts_for_a_runner(github: FakeGithub, listener: RunnerSide) -> None:
    assert listener.say("leave", id=listener.known["id"], secret="guessed").status_code == 404
    assert github.is_online("r-1")


def test_secrets_of_runners_and_tokens_are_in_no_representation(api: httpx.Client, github: FakeGithub) -> None:
    encoded = api.post(
        f"{RUNNERS}/generate-jitconfig", json={"name": "j", "runner_group_id": 1, "labels": ["a"]}
    ).json()["encoded_jit_config"]
    assert github.runner("j").secret in base64.b64decode(encoded).decode()
    assert github.runner("j").secret not in repr(github.runner("j"))
