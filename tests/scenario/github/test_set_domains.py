"""Two repositories, two trust domains, two scale sets: each has machines of its own, and no job of the other."""

import pytest

from fakes.github.hub import FakeGithub, Run
from scenario.github.set_fixtures import a_job, completed, ends_clean, instances_of, rested
from scenario.github.story import ALONE
from scenario.github.workplace import Workplace, a_workplace

pytestmark = pytest.mark.slow

NAMES = ("widgets", "gadgets")
SETS = "".join(
    f"""
[github.scale-sets.{name}]
class = "small"
name = "bullpen-{name}"
events = "trusted"
trust-domain = "acme/{name}"
repositories = ["acme/{name}"]
max = 2
linger = 2
"""
    for name in NAMES
)


def push(github: FakeGithub, name: str, *keys: str, script: str = ALONE) -> Run:
    """To a repository whose workflows ask for its own set."""
    return github.start_run(f"acme/{name}", [a_job(key, script, f"bullpen-{name}") for key in keys])


def domains(place: Workplace) -> dict[str, str]:
    """The repository's name in the trust domain of each instance, without the id that GitHub gave it."""
    rows = place.rows("SELECT id, trust_domain FROM instances WHERE state <> 'terminated'")
    return {id: domain.split("/")[1] for id, domain in rows if "/" in domain}


def all_green(place: Workplace, *runs: Run) -> None:
    for run in runs:
        completed(place, run)
        assert run.conclusion == "success", place.told()


def test_no_machine_serves_the_sets_of_two_trust_domains_and_the_wrong_set_refuses_a_job(github: FakeGithub) -> None:
    github.add_repository("acme/gadgets")
    with a_workplace(github, scope="acme", sets=SETS) as place:
        place.until(lambda: len(github.sets.all()) == 2, "serve has made both sets")
        # Both are pushed to at once. Then one of them needs a second machine while the other's are free.
        both = {name: push(github, name, "build") for name in NAMES}
        all_green(place, *both.values())
        rested(place, github, registered=2)
        more = push(github, "gadgets", "build", "test", script=f"{ALONE}; sleep 1")
        all_green(place, more)
        used = {
            "widgets": instances_of(both["widgets"]),
            "gadgets": instances_of(both["gadgets"]) | instances_of(more),
        }
        assert not used["widgets"] & used["gadgets"]
        assert {id: domains(place)[id] for name in NAMES for id in used[name]} == {
            id: name for name in NAMES for id in used[name]
        }

        # A workflow asks for the set of the other repository. GitHub gives its job to a runner of that set.
        wrong = github.start_run("acme/gadgets", [a_job("steals", "echo its steps run", "bullpen-widgets")])
        completed(place, wrong)
        (job,) = wrong.jobs(1)
        assert instances_of(wrong) <= used["widgets"] | set(place.live())
        assert (job.conclusion, "its steps run" in job.log) == ("failure", False)
        reason = f"The scale set bullpen-widgets does not serve acme/gadgets (repository id {wrong.repository.id})"
        assert reason in job.log
        log = place.ground / "serve.log"
        place.until(lambda: reason in log.read_text(), "serve has reported it")

        # The refused job cost the set nothing: it serves its own repository.
        after = push(github, "widgets", "build")
        all_green(place, after)
        assert not instances_of(after) & used["gadgets"]
        rested(place, github, registered=2)
        place.stop()
        ends_clean(place, github)
