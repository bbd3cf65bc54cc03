"""The whole of it on one box: the action, jobs on warm runners, a runner that dies, and a run without a release job."""

import pytest

from fakes.github.hub import FakeGithub
from scenario.github.story import from_the_action_to_a_run_without_a_release_job
from scenario.github.workplace import a_workplace

pytestmark = pytest.mark.slow


def test_from_the_action_to_a_run_without_a_release_job(github: FakeGithub) -> None:
    with a_workplace(github, github='rescue = ["acme/widgets"]') as place:
        from_the_action_to_a_run_without_a_release_job(place, github_knows_first=True)
