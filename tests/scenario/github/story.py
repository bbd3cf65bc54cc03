"""The whole of it on GitHub, as a story that any pool must be able to tell."""

from fakes.github.hub import JobSpec, Run
from scenario.github.fixtures import GithubSite

LABEL = "${{ needs.provision.outputs.label }}"
PROVISION = JobSpec("provision")
ALONE = 'echo "$GITHUB_RUN_ID" >> "$HOME/ran"; test "$(sort -u "$HOME/ran")" = "$GITHUB_RUN_ID"'
"""A job that fails if it finds what a job of another run has left."""


def from_the_action_to_a_run_without_a_release_job(site: GithubSite, *, github_knows_first: bool) -> None:
    """acme/widgets must be in `github.rescue`. A machine that dies is missed by GitHub first, or by the pool."""
    hub = site.hub
    # A run provisions, has two jobs, and releases.
    first = hub.start_run(
        "acme/widgets",
        [
            PROVISION,
            JobSpec("build", runs_on=(LABEL,), needs=("provision",), script=ALONE),
            JobSpec("test", runs_on=(LABEL,), needs=("provision",), script=ALONE),
            JobSpec("release", needs=("build", "test")),
        ],
    )
    given = provision(site, first, 2)
    assert (given["label"], given["selected"], given["created"]) == (str(first.id), "0", "2")
    site.until(lambda: status(first, "release") == "queued", "both jobs have run")
    assert {first.job(key).conclusion for key in ("build", "test")} == {"success"}
    freed = site.act(first.job("release"), {"mode": "release"})
    assert freed.code == 0, freed.log
    hub.hosted(first, "release")
    site.until(lambda: hub.runners() == [], "no runner is registered")
    site.until(lambda: len(site.on_offer()) == 2, "both are clean")
    members = site.on_offer()

    # The next run gets the same instances, and one of them dies in the middle of its job.
    second = hub.start_run(
        "acme/widgets",
        [
            PROVISION,
            JobSpec(
                "long",
                runs_on=(LABEL,),
                needs=("provision",),
                script=f"{ALONE}; test -e {site.ground}/go || sleep 600",
            ),
            JobSpec("short", runs_on=(LABEL,), needs=("provision",), script=ALONE),
        ],
    )
    given = provision(site, second, 2)
    assert (given["selected"], given["created"]) == ("2", "0")
    site.until(lambda: status(second, "long") == "in_progress", "the long job runs")
    site.until(lambda: status(second, "short") == "completed", "the short job has ended")
    (victim,) = [id for id in members if id in second.job("long").runner_name]
    site.until(lambda: site.told_of_job(victim), "it has reported its job")
    site.kill_machine(victim)
    (site.ground / "go").touch()  # not before: a job that has been admitted may not have looked yet
    if not github_knows_first:
        site.until(lambda: victim not in site.live(), "it is missed")
    hub.advance(hub.lease)  # GitHub gives up on it, which takes ten minutes elsewhere

    # It is run again, once, on another runner; and when the run is over, everything goes back by itself.
    site.until(lambda: second.attempt == 2 and second.state == "completed", "the lost job has been run again")
    assert second.conclusion == "success"
    assert second.job("long", 1).conclusion == "failure"
    assert second.job("long").conclusion == "success"
    assert victim not in second.job("long").runner_name
    assert [call for call in hub.calls if call.partition("?")[0].endswith(("/rerun", "/rerun-failed-jobs"))] == [
        f"POST /repos/acme/widgets/actions/jobs/{second.job('long', 1).id}/rerun"
    ]
    site.until(lambda: hub.runners() == [], "no runner is registered")
    site.until(lambda: site.live() == site.on_offer(), "all is back")
    (survivor,) = [id for id in members if id != victim]
    assert survivor in site.on_offer()
    assert victim not in site.live()
    assert second.attempt == 2
    site.stop()
    assert site.audit() == []
    site.down()
    assert site.live() == []
    assert site.audit() == []


def status(run: Run, key: str) -> str:
    """Empty while the job's needs are not met."""
    return next((job.status for job in run.jobs(run.attempt) if job.key == key), "")


def provision(site: GithubSite, run: Run, count: int) -> dict[str, str]:
    """The first job of a run, on a machine of GitHub's: its step, and its outputs for the jobs that need it."""
    ran = site.act(run.job("provision"), {"mode": "provision", "instance-count": str(count)})
    assert ran.code == 0, f"{ran.log}\n{site.told()}"
    site.hub.hosted(run, "provision", "success", ran.outputs)
    return ran.outputs
