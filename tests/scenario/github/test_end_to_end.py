"""The whole of it on GitHub: the action, jobs on warm runners, a runner that dies, and a run that nobody releases."""

import pytest

from github.hub import FakeGithub, JobSpec, Run
from scenario.github.workplace import Workplace, a_workplace

pytestmark = pytest.mark.slow

LABEL = "${{ needs.provision.outputs.label }}"
PROVISION = JobSpec("provision")
ALONE = 'echo "$GITHUB_RUN_ID" >> "$HOME/ran"; test "$(sort -u "$HOME/ran")" = "$GITHUB_RUN_ID"'
"""A job that fails if it finds what a job of another run has left."""


def status(run: Run, key: str) -> str:
    """Empty while the job's needs are not met."""
    return next((job.status for job in run.jobs(run.attempt) if job.key == key), "")


def provision(place: Workplace, run: Run, count: int) -> dict[str, str]:
    """The first job of a run, on a machine of GitHub's: its step, and its outputs for the jobs that need it."""
    ran = place.act(run.job("provision"), {"mode": "provision", "instance-count": str(count)})
    assert ran.code == 0, f"{ran.log}\n{place.told()}"
    place.hub.hosted(run, "provision", "success", ran.outputs)
    return ran.outputs


def test_from_the_action_to_a_run_that_nobody_releases(github: FakeGithub) -> None:
    github.lease, github.offline_after = 4.0, 2.0  # ten minutes elsewhere
    with a_workplace(github, github='rescue = ["acme/widgets"]') as place:
        # A run provisions, has two jobs, and releases.
        first = github.start_run(
            "acme/widgets",
            [
                PROVISION,
                JobSpec("build", runs_on=(LABEL,), needs=("provision",), script=ALONE),
                JobSpec("test", runs_on=(LABEL,), needs=("provision",), script=ALONE),
                JobSpec("release", needs=("build", "test")),
            ],
        )
        given = provision(place, first, 2)
        assert (given["label"], given["selected"], given["created"]) == (str(first.id), "0", "2")
        place.until(lambda: status(first, "release") == "queued", "both jobs have run")
        assert {first.job(key).conclusion for key in ("build", "test")} == {"success"}
        freed = place.act(first.job("release"), {"mode": "release"})
        assert freed.code == 0, freed.log
        github.hosted(first, "release")
        place.until(lambda: github.runners() == [], "nobody is registered")
        place.until(lambda: len(place.ids("attested = 1")) == 2, "both are clean")
        members = place.ids("attested = 1")

        # The next run gets the same instances, and one of them dies in the middle of its job.
        second = github.start_run(
            "acme/widgets",
            [
                PROVISION,
                JobSpec(
                    "long",
                    runs_on=(LABEL,),
                    needs=("provision",),
                    script=f"{ALONE}; test -e {place.ground}/go || sleep 600",
                ),
                JobSpec("short", runs_on=(LABEL,), needs=("provision",), script=ALONE),
            ],
        )
        given = provision(place, second, 2)
        assert (given["selected"], given["created"]) == ("2", "0")
        place.until(lambda: status(second, "long") == "in_progress", "the long job runs")
        place.until(lambda: status(second, "short") == "completed", "the short job has ended")
        (victim,) = [id for id in members if id in second.job("long").runner_name]
        (place.ground / "go").touch()
        place.kill_machine(victim)

        # It is run again, once, on another runner; and when the run is over, everything goes back by itself.
        place.until(lambda: second.attempt == 2 and second.state == "completed", "the lost job has been run again")
        assert second.conclusion == "success"
        assert second.job("long", 1).conclusion == "failure"
        assert second.job("long").conclusion == "success"
        assert victim not in second.job("long").runner_name
        assert [call for call in github.calls if call.partition("?")[0].endswith(("/rerun", "/rerun-failed-jobs"))] == [
            f"POST /repos/acme/widgets/actions/jobs/{second.job('long', 1).id}/rerun"
        ]
        place.until(lambda: github.runners() == [], "nobody is registered")
        place.until(
            lambda: not place.ids("state NOT IN ('idle', 'terminated') OR state = 'idle' AND NOT attested"),
            "all is back",
        )
        (survivor,) = [id for id in members if id != victim]
        assert survivor in place.ids("attested = 1")
        assert victim in place.ids("state = 'terminated'")
        assert second.attempt == 2
        assert place.audit() == []
        place.served.end()
        place.bullpen("down")
        assert place.ids("state <> 'terminated'") == []
