"""Without a running service, refresh reconciles the workflow runs: ended ones give back, lost jobs are run again."""

import asyncio

from bullpen.engines.memory.github import JobSpec
from bullpen.ports import Conclusion
from bullpen.refresh import Action, refresh
from fixtures import a_world, refreshed, requests, small
from workflows.fixtures import Scene, a_scene, build


async def every_minute(scene: Scene, minutes: int) -> list[Action]:
    done = []
    for _ in range(minutes):
        done += await refresh(scene.ports(), scene.world.settings)
        await asyncio.sleep(60)
    return done


async def test_a_run_that_has_ended_gives_back_its_runners() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=20))
        await asyncio.sleep(20)
        done = await every_minute(scene, 2)
        released = f"label released (run {run}, repository acme/widgets, conclusion success, label {run})"
        assert released in [one.reason for one in done]
        assert scene.held() == []


async def test_a_lost_job_is_run_again() -> None:
    async with a_scene() as scene:
        run = await scene.run(build("lost", lasts=300), build("other", lasts=20), runners=2)
        scene.dies(scene.on(run, "lost"))
        await every_minute(scene, 20)
        assert scene.hub.reruns == [(run, 1, ("lost",))]
        assert scene.conclusions(run) == {"lost": Conclusion.SUCCESS, "other": Conclusion.SUCCESS}
        assert scene.held() == []


async def test_a_label_that_lost_all_its_runners_gets_others() -> None:
    async with a_scene() as scene:
        run = await scene.run(JobSpec("first", lasts=300), build(lasts=30, needs=("first",)))
        scene.dies(scene.instances(run)[0].id)
        await every_minute(scene, 10)
        assert scene.conclusions(run)["build"] is Conclusion.SUCCESS


async def test_a_dry_run_names_the_runs_and_asks_github_nothing() -> None:
    async with a_scene() as scene:
        run = await scene.run(build(lasts=20))
        await asyncio.sleep(20)
        ports = scene.ports()
        done = await refresh(ports, scene.world.settings, dry_run=True)
        assert ("check run", run) in [(one.what, one.subject) for one in done]
        assert requests(ports)["workflows.run"] == 0
        assert len(scene.instances(run)) == 1


async def test_with_the_embedded_ci_no_run_is_reconciled() -> None:
    async with a_world(settings=small()) as world:
        ports = world.ports()
        await refreshed(world, ports)
        assert requests(ports)["observations.observe"] == 6
        assert requests(ports)["workers.owing"] == 1
