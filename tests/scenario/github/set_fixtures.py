"""What the stories of scale sets share: the settings of a set, jobs that ask for it, and what a test waits for."""

from fakes.github.hub import FakeGithub, JobSpec, Run
from scenario.github.story import ALONE
from scenario.github.workplace import Workplace

SET = """
[github.scale-sets.small]
events = "trusted"
max = 3
linger = 5
{more}
"""
LABEL = "bullpen-small"


def a_job(key: str, script: str = ALONE, label: str = LABEL) -> JobSpec:
    return JobSpec(key, runs_on=(label,), script=script)


def completed(place: Workplace, run: Run) -> None:
    place.until(lambda: run.state == "completed", f"run {run.id} has completed")


def instances_of(run: Run) -> set[str]:
    return {job.runner_name.split(".")[1] for job in run.jobs(run.attempt)}


def rested(place: Workplace, github: FakeGithub, registered: int = 1) -> None:
    """Only so many runners are registered, their machines run, and every other machine is on offer: none is launched,
    boots, is claimed or is cleaned."""

    def is_at_rest() -> bool:
        running = place.ids("state = 'running'")
        if place.rows("SELECT 1 FROM provisions WHERE state = 'open'"):
            return False
        return len(github.runners()) == len(running) == registered and place.live() == sorted(
            [*running, *place.on_offer()]
        )

    place.until(is_at_rest, f"{registered} runners are registered, and all others are back")


def ends_clean(place: Workplace, github: FakeGithub) -> None:
    """Once no process serves: the audit finds nothing, and `bullpen down` leaves nothing."""
    found = place.audit()
    assert not found, f"{found}\n{place.told()}"
    place.down()
    assert place.live() == []
    assert github.runners() == []
