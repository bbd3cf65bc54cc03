"""Two repositories that have the same name one after the other: the second gets nothing that the first has used."""

import pytest

from fakes.github.hub import FakeGithub, JobSpec, Run
from scenario.github.story import LABEL, PROVISION, provision
from scenario.github.workplace import Workplace, a_workplace

pytestmark = pytest.mark.slow

JOBS = (PROVISION, JobSpec("build", runs_on=(LABEL,), needs=("provision",), script="true"))


def served(place: Workplace, run: Run) -> dict[str, str]:
    """What the run's provision job put out, after the run has ended and its runner is back."""
    given = provision(place, run, 1)
    place.until(lambda: run.state == "completed", "the run ends")
    assert run.conclusion == "success"
    place.until(lambda: place.live() == place.on_offer(), "its runner is back")
    return given


def domains(place: Workplace) -> dict[str, str]:
    return dict(place.rows("SELECT id, trust_domain FROM instances WHERE attested = 1"))


def test_a_repository_that_is_created_again_under_the_same_name_gets_new_runners(github: FakeGithub) -> None:
    with a_workplace(github) as place:
        # A runner with the bare name, as records from before ids have it: the first run of the repository gets it.
        place.bullpen("provision", "--run-id", "1", "--count", "1", "--trust-domain", "acme/widgets")
        place.bullpen("release", "--run-id", "1")
        (warm,) = place.on_offer()
        assert domains(place) == {warm: "acme/widgets"}
        first = github.start_run("acme/widgets", JOBS)
        assert served(place, first)["selected"] == "1"
        assert domains(place) == {warm: f"acme/widgets/{first.repository.id}"}

        # The repository is deleted and created again.
        github.add_repository("acme/widgets")
        second = github.start_run("acme/widgets", JOBS)
        assert second.repository.id != first.repository.id
        assert served(place, second)["created"] == "1"
        assert sorted(domains(place).values()) == [
            f"acme/widgets/{first.repository.id}",
            f"acme/widgets/{second.repository.id}",
        ]
        again = github.start_run("acme/widgets", JOBS)
        assert served(place, again)["selected"] == "1", "its own runner is warm for it"

        # The operator can see why.
        assert (place.ground / "serve.log").read_text().count("repository was created again") == 1
        (story,) = place.bullpen("why", "acme/widgets")["stories"]
        assert [line["step"] for line in story["story"]] == ["see", "meet"]
        place.stop()
        assert place.audit() == []
