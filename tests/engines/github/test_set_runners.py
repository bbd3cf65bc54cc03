"""The runners of scale sets on the simulated GitHub: it makes them for one job, and removes them by their name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bullpen.engines.github.runners import GithubCI
from bullpen.model.instance import Instance
from bullpen.ports import Ports, Removal
from engines.github.places import a_ci
from fakes.github.hub import FakeGithub
from fakes.github.set_caller import SetCaller
from fakes.github.state import JobSpec
from set_builders import NAME, claim_for, claimed_for_set, found, ready

pytestmark = pytest.mark.real_loop

LABEL = f"set:{NAME}"


@asynccontextmanager
async def on_fake(github: FakeGithub) -> AsyncIterator[tuple[GithubCI, Ports, Instance]]:
    """A set at GitHub, its record, and an instance that is claimed for it."""
    caller = SetCaller(github)
    set_id = caller.create(NAME)
    caller.close()
    async with a_ci(github) as (ci, ports):
        wanted, _ = ready()
        at_github = found(wanted.after, ci_id=set_id)
        offered = claimed_for_set()[:-1]
        claimed = claim_for(offered[-1].after, at_github.after)
        await ports.records.apply_each([wanted, at_github, *offered, claimed])
        yield ci, ports, claimed.after


async def test_github_knows_the_runner_of_a_set_and_removes_it_by_its_name(github: FakeGithub) -> None:
    async with on_fake(github) as (ci, _, one):
        given = await ci.register("i-1", LABEL, one.round)
        assert given is not None
        made = github.runner(given.runner)
        assert (made.id, made.scale_set > 0) == (given.id, True)
        assert await ci.remove(given.runner) is Removal.REMOVED
        assert github.runners() == []
        assert await ci.remove(given.runner) is Removal.REMOVED


async def test_a_runner_of_a_set_that_executes_a_job_is_not_removed(github: FakeGithub) -> None:
    async with on_fake(github) as (ci, _, one):
        given = await ci.register("i-1", LABEL, one.round)
        assert given is not None
        run = github.start_run("acme/widgets", [JobSpec("build", runs_on=(NAME,))])
        github.begin(run, "build", given.runner)
        assert await ci.remove(given.runner) is Removal.BUSY


async def test_a_runner_of_a_run_is_removed_as_before_also_where_there_are_sets(github: FakeGithub) -> None:
    async with on_fake(github) as (ci, _, _one):
        github.add_runner("acme/widgets", "bullpen.i-1.aaaaaaaa", ["4711"])
        assert await ci.remove("bullpen.i-1.aaaaaaaa") is Removal.REMOVED
        assert github.runners() == []
