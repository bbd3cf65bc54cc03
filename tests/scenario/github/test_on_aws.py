"""The whole of it on AWS: DynamoDB, SQS and EC2 below, GitHub above, and no credentials of AWS in any workflow."""

from collections.abc import Iterator

import pytest

from fakes.ec2.control import Control
from fakes.github.hub import FakeGithub
from fakes.java_engines import Engines
from scenario.commands import Starter
from scenario.github.story import from_the_action_to_a_run_without_a_release_job
from scenario.github.workplace_aws import a_cloud_workplace

pytestmark = pytest.mark.slow


@pytest.fixture
def starter(no_account: None) -> Iterator[Starter]:
    starter = Starter("aws", "github")
    yield starter
    starter.close()


def test_from_the_action_to_a_run_without_a_release_job(
    github: FakeGithub, starter: Starter, engines: Engines, cloud: Control
) -> None:
    with a_cloud_workplace(github, starter, engines, cloud, github='rescue = ["acme/widgets"]') as site:
        from_the_action_to_a_run_without_a_release_job(site, github_knows_first=False)
