"""A scale set whose runner dies under its job, and one whose server dies beside a stand-by: every job runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fakes.github.hub import FakeGithub
from scenario.github.fixtures import PATIENCE
from scenario.github.set_fixtures import SET, a_job, completed, ends_clean, instances_of, rested
from scenario.github.story import ALONE, status
from scenario.github.workplace import Workplace, a_workplace
from server.served import ServeProcess, a_server

pytestmark = pytest.mark.slow


def test_a_job_whose_machine_is_killed_is_run_again_once_on_another_machine(github: FakeGithub) -> None:
    with a_workplace(github, sets=SET.format(more="min = 1"), github='rescue = ["acme/widgets"]') as place:
        place.until(lambda: len(github.runners()) == 1, "a runner waits for the first job")
        run = github.start_run(
            "acme/widgets",
            [a_job("long", f"{ALONE}; test -e {place.ground}/go || sleep 600"), a_job("short")],
        )
        place.until(lambda: status(run, "short") == "completed", "the short job has ended")
        place.until(lambda: status(run, "long") == "in_progress", "the long job runs")
        (victim,) = [id for id in place.live() if id in run.job("long").runner_name]
        place.until(lambda: place.told_of_job(victim), "it has reported its job")
        place.kill_machine(victim)
        (place.ground / "go").touch()
        place.until(lambda: victim not in place.live(), "the machine is ended")
        github.advance(github.lease)  # GitHub gives up on it, which takes ten minutes elsewhere

        place.until(lambda: run.attempt == 2 and run.state == "completed", "the lost job has been run again")
        assert run.conclusion == "success"
        assert (run.job("long", 1).conclusion, run.job("long").conclusion) == ("failure", "success")
        assert victim not in run.job("long").runner_name
        assert run.job("short").runner_name == run.job("short", 1).runner_name, "it was run again as well"
        rested(place, github)
        place.stop()
        reruns = [call for call in github.calls if call.partition("?")[0].endswith(("/rerun", "/rerun-failed-jobs"))]
        assert reruns == [f"POST /repos/acme/widgets/actions/jobs/{run.job('long', 1).id}/rerun"]
        assert run.attempt == 2
        ends_clean(place, github)


@contextmanager
def a_replica(place: Workplace, *arguments: str) -> Iterator[ServeProcess]:
    """Another process of `serve` on the same home. The last port that is given counts."""
    with a_server(place.home, "--config", str(place.config), *arguments) as served:
        yield served


def holder(place: Workplace) -> str:
    """The process that listens to the set; empty if none does."""
    found = place.rows("SELECT holder FROM set_sessions WHERE state = 'held'")
    return found[0][0] if found else ""


def holds(place: Workplace, served: ServeProcess) -> bool:
    return holder(place).endswith(f"({served.process.pid})")


def test_a_stand_by_takes_the_set_from_a_server_that_stops_and_from_one_that_is_killed(github: FakeGithub) -> None:
    with a_workplace(github, sets=SET.format(more="")) as place:
        place.until(lambda: holds(place, place.served), "the first server listens")
        with a_replica(place) as second:
            first = github.start_run("acme/widgets", [a_job("build")])
            completed(place, first)
            assert holds(place, place.served)
            place.stop()
            place.until(lambda: holds(place, second), "the second server has taken over")

            # The agents ask the third one, as through one address of all replicas. The second one listens to GitHub.
            with a_replica(place, "--port", str(place.port)) as third:
                handed_over = github.start_run("acme/widgets", [a_job("build"), a_job("test")])
                completed(place, handed_over)
                assert holds(place, second)
                busy = github.start_run("acme/widgets", [a_job("long", f"{ALONE}; sleep 2")])
                place.until(lambda: status(busy, "long") == "in_progress", "a job runs")
                second.process.kill()
                second.process.wait(PATIENCE)
                meanwhile = github.start_run("acme/widgets", [a_job(f"job-{n}") for n in range(3)])
                place.until(lambda: holds(place, third), "the third server has taken over")
                for run in (busy, meanwhile):
                    completed(place, run)
                for run in (first, handed_over, busy, meanwhile):
                    assert (run.conclusion, run.attempt) == ("success", 1)
                assert instances_of(busy) <= set(place.live()), "a machine was ended under its job"
                rested(place, github)
                assert third.end() == 0
        ends_clean(place, github)
