"""The whole of it on one box: the action, jobs on warm runners, a runner that dies, and a run that nobody releases."""

import pytest

from fakes.github.hub import FakeGithub
from scenario.github.story import from_the_action_to_a_run_that_nobody_releases
from scenario.github.workplace import a_workplace

pytestmark = pytest.mark.slow


def test_from_the_action_to_a_run_that_nobody_releases(github: FakeGithub) -> None:
    with a_workplace(github, github='rescue = ["acme/widgets"]') as place:
        from_the_action_to_a_run_that_nobody_releases(place, github_knows_first=True)
