"""GitHub away, throttling or behind: what is to be done is done later, once; and waiting costs little."""

import pytest

from bullpen.engines.memory import Failure
from bullpen.engines.memory.github import JobSpec
from bullpen.liveness import LivenessController
from bullpen.ports import Conclusion
from fixtures import faults, requests
from workflows.fixtures import GIVEN_UP_AFTER, a_scene, build, lose

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("call", ["workflows.run", "workflows.jobs", "workflows.deploying", "workflows.rerun_job"])
@pytest.mark.parametrize("failure", list(Failure))
async def test_github_away_or_throttling_in_the_middle_is_asked_again(call: str, failure: Failure) -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=200))
        await lose(scene, run, "build")
        ports = scene.ports()
        faults(ports).fail_next(call, *[failure] * 5)
        controller = scene.controller(ports)
        await scene.passes(GIVEN_UP_AFTER + 300, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        await scene.passes(300, controller)
        assert scene.conclusions(run) == {"build": Conclusion.SUCCESS}
        assert scene.held() == []


@pytest.mark.parametrize("lag", [5.0, 90.0])
async def test_lists_that_lag_only_delay(lag: float) -> None:
    async with a_scene() as scene:
        scene.hub.lag = lag
        run = await scene.run(build(lasts=200), build("test", lasts=30), runners=2)
        await lose(scene, run, "build")
        ports = scene.ports()
        controller = scene.controller(ports)
        await scene.passes(GIVEN_UP_AFTER + 300, controller)
        assert scene.hub.reruns == [(run, 1, ("build",))]
        assert requests(ports)["workflows.rerun_job"] == 1
        await scene.passes(600, controller)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS
        assert scene.held() == []


async def test_a_run_that_is_gone_leaves_no_debt() -> None:
    async with a_scene() as scene:
        run = await scene.run(build())
        (dead,) = await lose(scene, run, "build")
        del scene.hub.runs[run]
        await scene.passes(70, scene.controller())
        assert not scene.worker(dead).owes_reschedule
        assert scene.alarms("run given up", run=run)


async def test_a_debt_that_waits_for_hours_costs_a_few_requests_a_minute() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(), JobSpec("long", lasts=7200))
        await lose(scene, run, "build")
        ports, sweeping = scene.ports(), scene.ports()
        scene.sweeper = LivenessController(sweeping, scene.world.settings)
        await scene.passes(3600, scene.controller(ports))
        assert requests(ports)["workflows.run"] <= 62
        assert requests(ports)["ci.registrations"] <= 2
        assert requests(ports)["compute.sightings"] <= 2
        assert requests(sweeping)["compute.sightings"] <= 65
        assert requests(sweeping)["jobs.held"] == 0
