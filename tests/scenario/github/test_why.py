"""`bullpen why` about a job of GitHub, on a real pool: the causes that only GitHub can be."""

import tomllib
from typing import Any

import pytest

from fakes.github.hub import FakeGithub, Run
from scenario.github.set_fixtures import SET, a_job
from scenario.github.workplace import Workplace, a_workplace

pytestmark = pytest.mark.slow

CLOSED = 'runner-group = "builders"\ntrust-domain = "acme/widgets"\nrepositories = ["acme/widgets"]'


def url_of(github: FakeGithub, run: Run, key: str) -> str:
    return f"{github.url}/acme/widgets/actions/runs/{run.id}/job/{run.job(key).id}"


def cause_of(place: Workplace, subject: str) -> dict[str, Any]:
    (wait,) = place.bullpen("why", subject)["waits"]
    assert wait["because"]
    assert wait["next"]
    found: dict[str, Any] = wait
    return found


def test_what_github_refuses_withholds_or_does_not_answer_is_the_cause(github: FakeGithub) -> None:
    github.add_group("acme", "builders", ["gadgets"])
    with a_workplace(github, scope="acme", sets=SET.format(more=CLOSED)) as place:
        place.until(lambda: bool(place.rows("SELECT 1 FROM set_sessions WHERE state = 'held'")), "serve listens")
        run = github.start_run("acme/widgets", [a_job("build"), a_job("misspelt", label="bullpen-smal")])
        build = url_of(github, run, "build")
        assert cause_of(place, build)["cause"] == "runner-group-closed"
        assert "'builders'" in cause_of(place, build)["because"]
        assert cause_of(place, url_of(github, run, "misspelt"))["cause"] == "no-match"

        github.fail("GET */actions/runs/*", 502, times=None)
        assert cause_of(place, build)["cause"] == "github-outage"
        github.heal()
        token = tomllib.loads(place.config.read_text())["github"]["token"]
        github.rate_limit(token, remaining=0, resets_in=3000.0)
        assert cause_of(place, build)["cause"] == "github-limit"
        github.rate_limit(token, remaining=5000)

        place.stop()
        assert cause_of(place, "bullpen-small")["cause"] == "no-server"
