"""Two sets of one class in two trust domains share a cap."""

import asyncio

import msgspec
import pytest

from bullpen.config import ScaleSetSettings, Settings
from bullpen.engines.memory.github import JobSpec
from fixtures import a_world
from scale_sets.fixtures import REPOSITORY, SET, hub_of, push, serve, settings_of, until_done

OTHER = "bullpen-other"
CAP = 4


def two_sets() -> Settings:
    settings = settings_of(max=CAP)
    other = ScaleSetSettings(resource_class="small", name=OTHER, events="trusted", trust_domain="acme/other", max=CAP)
    github = msgspec.structs.replace(settings.github, scale_sets={**settings.github.scale_sets, "other": other})
    limits = msgspec.structs.replace(settings.limits, max_instances=CAP)
    return msgspec.structs.replace(settings, github=github, limits=limits)


@pytest.mark.parametrize("phantoms", [0, 1])
async def test_a_job_that_github_only_counts_keeps_no_more_than_one_runner_from_another_set(phantoms: int) -> None:
    async with a_world(settings=two_sets()) as world:
        serve(world)
        await asyncio.sleep(400)  # no runner waits for a job that was not announced
        hub = hub_of(world)
        (first,) = (one for one in hub.sets.sets.values() if one.spec.name == SET)
        first.phantoms = phantoms
        await until_done(world, push(world, jobs=CAP, lasts=30.0))
        run = hub.start(REPOSITORY, JobSpec("job-0", label=OTHER, lasts=10.0))
        assert await until_done(world, run) < 150.0  # its runners linger for 60 s, and are cleaned
