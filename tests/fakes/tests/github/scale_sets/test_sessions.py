"""Sessions, messages and tokens of the service of scale sets, and what goes wrong with them."""

import json

import pytest

from fakes.github.hub import FakeGithub, JobSpec
from fakes.github.set_caller import SETS, SetCaller

WEEK = 7 * 86400.0


def queue(github: FakeGithub, *names: str) -> None:
    github.start_run("acme/widgets", [JobSpec(name, ("medium",)) for name in names])


def test_a_set_has_one_session_and_a_killed_one_ends_after_50_seconds(
    github: FakeGithub, sets: SetCaller, medium: int
) -> None:
    dead = dict(sets.session)
    assert sets.open(medium, "other") == 409
    github.advance(49)
    assert sets.open(medium, "other") == 409
    github.advance(1)
    assert sets.open(medium, "other") == 200
    sets.session = dead
    assert sets.poll().status_code == 404
    assert sets.ask("PATCH", f"{SETS}/{medium}/sessions/{dead['sessionId']}").status_code == 404


@pytest.mark.parametrize("frees", [True, False])
def test_a_closed_session_frees_its_place_if_the_test_says_so(
    github: FakeGithub, sets: SetCaller, medium: int, frees: bool
) -> None:
    github.sets.frees_on_delete = frees
    assert sets.ask("DELETE", f"{SETS}/{medium}/sessions/{sets.session['sessionId']}").status_code == 204
    assert sets.open(medium) == (200 if frees else 409)
    github.advance(50)
    assert sets.open(medium) == 200


def test_a_message_comes_again_unchanged_until_it_is_acknowledged(
    github: FakeGithub, sets: SetCaller, medium: int
) -> None:
    queue(github, "a")
    first = sets.poll().json()
    queue(github, "b")
    assert sets.poll().json() == first
    assert sets.poll(first["messageId"]).json()["messageId"] == first["messageId"] + 1
    github.sets.drop_session("medium")
    assert sets.open(medium) == 200
    assert sets.poll().json() == first
    assert [sets.acknowledge(first["messageId"]) for _ in range(2)] == [204, 204]
    assert sets.poll().json()["messageId"] == first["messageId"] + 1


def test_a_message_has_at_most_50_entries(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    queue(github, *(f"job-{n}" for n in range(60)))
    message = sets.poll(capacity=100).json()
    assert (len(json.loads(message["body"])), message["statistics"]["totalAssignedJobs"]) == (50, 60)
    assert len(json.loads(sets.poll(message["messageId"], 100).json()["body"])) == 10


def test_the_token_of_a_queue_lasts_50_minutes_and_is_renewed(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    statuses = []
    for _ in range(75):
        github.advance(40)
        statuses.append(sets.poll().status_code)
    assert statuses == [202] * 74 + [401]
    renewed = sets.ask("PATCH", f"{SETS}/{medium}/sessions/{sets.session['sessionId']}").json()
    sets.session = renewed
    assert sets.poll().status_code == 202


def test_a_revoked_or_old_jwt_is_refused(github: FakeGithub, sets: SetCaller) -> None:
    assert sets.ask("GET", SETS).status_code == 200
    github.advance(3600)
    assert sets.ask("GET", SETS).status_code == 401
    github.sets.revoke_jwts()
    assert sets.ask("GET", SETS).status_code == 401


def test_a_set_without_a_listener_is_deleted_after_a_week(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    github.advance(50)
    github.advance(WEEK - 100)
    assert github.sets.of("medium").id == medium
    github.advance(100)
    with pytest.raises(KeyError):
        github.sets.of("medium")


def test_a_deleted_set_takes_its_session_along(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    github.sets.delete("medium")
    assert sets.poll().status_code == 404
    assert sets.open(medium) == 404
    missing = sets.ask("GET", f"{SETS}/{medium}").json()
    assert "RunnerScaleSetNotFoundException" in missing["typeName"]


def test_entries_are_lost_or_late(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    github.sets.lose("JobAssigned")
    queue(github, "lost")
    github.sets.delay("JobAssigned", 30)
    queue(github, "late")
    queue(github, "usual")
    assert sets.heard() == [("JobAssigned", "usual")]
    assert github.sets.statistics("medium")["totalAssignedJobs"] == 3
    github.advance(30)
    assert sets.heard(1) == [("JobAssigned", "late")]


def test_an_acknowledged_message_comes_again(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    queue(github, "a")
    first = sets.poll().json()
    github.sets.repeat("medium")
    sets.acknowledge(first["messageId"])
    assert sets.poll(first["messageId"]).json() == first
    assert sets.poll(first["messageId"]).status_code == 202


@pytest.mark.parametrize("part", ["body", "entry", "type", "message"])
def test_a_garbled_message_stays_so(github: FakeGithub, sets: SetCaller, medium: int, part: str) -> None:
    github.sets.garble(part)
    queue(github, "a")
    contents = [sets.poll().content for _ in range(2)]
    assert contents[0] == contents[1]
    if part == "message":
        with pytest.raises(ValueError, match=r"."):
            json.loads(contents[0])
    else:
        message = json.loads(contents[0])
        assert message["statistics"]["totalAssignedJobs"] == 1
    sets.acknowledge(1)
    queue(github, "b")
    assert sets.heard(1) == [("JobAssigned", "b")]


def test_statistics_lag_or_are_too_high(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    github.sets.statistics_lag = 30.0
    queue(github, "a")
    message = sets.poll().json()
    assert message["statistics"]["totalAssignedJobs"] == 0
    github.advance(30)
    assert github.sets.statistics("medium")["totalAssignedJobs"] == 1
    github.sets.statistics_lag = 0.0
    github.sets.add_phantoms("medium", 15)
    assert github.sets.statistics("medium")["totalAssignedJobs"] == 16


def test_an_untrue_entry_can_be_sent(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    run = github.start_run("acme/widgets", [JobSpec("build", ("medium",))])
    github.sets.add_runner("r-1", "medium")
    github.begin(run, "build", "r-1")
    sets.heard()
    github.sets.tell("JobCompleted", run.job("build"))
    assert sets.heard(1) == [("JobCompleted", "build")]
    assert github.sets.statistics("medium")["totalRunningJobs"] == 1


def test_answers_are_empty_marked_or_without_a_queue(github: FakeGithub, sets: SetCaller, medium: int) -> None:
    github.sets.answer_empty()
    assert (sets.poll().status_code, sets.poll().status_code) == (200, 202)
    github.sets.add_mark()
    assert sets.ask("GET", f"{SETS}/{medium}").content.startswith(b"\xef\xbb\xbf{")
    github.sets.drop_session("medium")
    github.sets.open_without_queue()
    assert "messageQueueUrl" not in json.loads(
        sets.ask("POST", f"{SETS}/{medium}/sessions", json={"ownerName": "me"}).content.removeprefix(b"\xef\xbb\xbf")
    )


def test_what_githubs_client_would_not_send_is_a_violation(github_described: None) -> None:
    with FakeGithub() as github:
        github.add_repository("acme/widgets")
        sets = SetCaller(github)
        medium = sets.create("medium")
        sets.open(medium)
        sets.ask("PUT", SETS)
        sets.ask("POST", SETS, json={"name": "x"})
        sets.ask("PATCH", f"{SETS}/{medium}/sessions/{sets.session['sessionId']}", json={})
        sets.close()
        with pytest.raises(AssertionError):
            github.check()
    assert len(github.violations) == 3
