"""Scale sets with real processes: `serve`, agents, GitHub's runner of the tests, and the fake GitHub."""

import sys

import pytest

from fakes.github.hub import FakeGithub
from scenario.github.fixtures import PATIENCE
from scenario.github.set_fixtures import SET, a_job, completed, ends_clean, instances_of, rested
from scenario.github.story import ALONE
from scenario.github.workplace import a_workplace
from server.served import PROGRAM, a_server

pytestmark = pytest.mark.slow

PROBED = "from bullpen.scale_sets import supply; supply.PROBED = 5.0"
SHORT_PROBE = (sys.executable, "-c", f"{PROBED}; {PROGRAM}")
"""A `serve` that keeps the runner of a new session for seconds, not for five minutes."""


def test_from_a_push_to_green_again_on_the_same_runner_and_everything_goes_back(github: FakeGithub) -> None:
    with a_workplace(github, sets=SET.format(more="")) as place:
        place.until(lambda: bool(github.sets.all()), "serve has made the set")
        first = github.start_run("acme/widgets", [a_job("build"), a_job("test")])
        completed(place, first)
        assert first.conclusion == "success"
        used = instances_of(first)
        assert used <= set(place.live())

        # A job that fails is run again by a user, and finds nothing of the run before.
        again = f"{ALONE}; test -e {place.ground}/go"
        second = github.start_run("acme/widgets", [a_job("flaky", again)])
        completed(place, second)
        assert second.conclusion == "failure"
        (place.ground / "go").touch()
        github.rerun(second, "flaky")
        place.until(lambda: second.attempt == 2 and second.state == "completed", "it was run again")
        assert second.conclusion == "success"

        # One stays registered for some minutes after a session was opened: GitHub may not have announced every job.
        rested(place, github)
        place.stop()
        ends_clean(place, github)


@pytest.mark.parametrize("has_webhook", [True, False], ids=["a webhook shows it", "the list shows it"])
def test_a_rerun_that_github_does_not_announce_gets_a_runner_of_a_set_that_has_none(
    github: FakeGithub, has_webhook: bool
) -> None:
    with a_workplace(github, sets=SET.format(more=""), has_webhook=has_webhook, program=SHORT_PROBE) as place:
        place.until(lambda: bool(github.sets.all()), "serve has made the set")
        run = github.start_run("acme/widgets", [a_job("flaky", f"{ALONE}; test -e {place.ground}/go")])
        completed(place, run)
        assert run.conclusion == "failure"
        rested(place, github, registered=0)
        (place.ground / "go").touch()
        github.rerun(run, "flaky")
        place.until(lambda: run.attempt == 2 and run.state == "completed", "it was run again")
        assert run.conclusion == "success"
        rested(place, github, registered=0)
        place.stop()
        ends_clean(place, github)


def test_after_a_server_was_killed_the_next_one_serves_the_jobs_that_came_meanwhile(github: FakeGithub) -> None:
    with a_workplace(github, sets=SET.format(more="min = 1")) as place:
        place.until(lambda: len(github.runners()) == 1, "a runner waits for the first job")
        first = github.start_run("acme/widgets", [a_job("build")])
        completed(place, first)
        rested(
            place, github
        )  # what a server leaves that is killed while it launches is ended later than this test waits
        place.served.process.kill()
        place.served.process.wait(PATIENCE)
        second = github.start_run("acme/widgets", [a_job(f"job-{n}") for n in range(3)])
        arguments = ("--port", str(place.port), "--config", str(place.config))
        with a_server(place.home, *arguments) as served:
            completed(place, second)
            assert second.conclusion == "success"
            rested(place, github)  # a machine may boot for what the set lacked a moment ago
            assert served.end() == 0
        ends_clean(place, github)


def test_a_repository_that_is_created_again_is_refused_without_a_webhook_with_a_sentence_in_its_log(
    github: FakeGithub,
) -> None:
    with a_workplace(github, sets=SET.format(more="min = 1"), has_webhook=False) as place:
        first = github.start_run("acme/widgets", [a_job("build")])
        completed(place, first)
        assert first.conclusion == "success"

        again = github.add_repository("acme/widgets")
        second = github.start_run("acme/widgets", [a_job("build")])
        assert second.repository is again
        completed(place, second)
        assert second.conclusion == "failure"
        said = second.job("build").log
        assert f"it serves the repository with the id {first.repository.id}, which had this name before" in said
        assert f'write "acme/widgets/{again.id}" in `repositories`' in said
        place.until(
            lambda: "job of a scale set refused" in (place.ground / "serve.log").read_text(), "serve reports it"
        )
        domains = place.rows("SELECT DISTINCT trust_domain FROM instances WHERE run_id LIKE 'set:%'")
        assert domains == [(f"acme/widgets/{first.repository.id}",)]
