"""What `doctor` finds about scale sets: at GitHub, who listens, caps, and what min = 0 means."""

from datetime import timedelta
from typing import Any

from bullpen import inventory
from bullpen.cli.doctor_sets import check_set_settings, check_sets
from bullpen.config import Settings
from bullpen.model import set_session as sessions
from bullpen.ports import ScaleSetSpec
from bullpen.ports.health import Finding, Health
from bullpen.sim.world import World
from fixtures import Failure, a_world, faults
from scale_sets.desired_sets import NAME, a_strangers, listens, pass_over, record, settings
from set_builders import engaged, open_session, take


async def look(world: World, of: Settings | None = None, *failing: str) -> Finding:
    of, ports = of or world.settings, world.ports()
    views = (await inventory.status(ports, of)).sets
    for kind in failing:
        faults(ports).fail_next(kind, Failure.LOST_REQUEST)
    (found,) = await check_sets(ports, of, views)
    assert found.name == f"set {NAME}"
    return found


async def test_a_set_that_is_not_created_yet() -> None:
    async with a_world(settings=settings("small")) as world:
        found = await look(world)
        assert (found.health, found.found) == (Health.WARNING, "it is not created yet")


async def test_a_name_that_another_owner_has() -> None:
    async with a_world(settings=settings("small")) as world:
        other = a_strangers(world)
        found = await look(world)
        assert found.health is Health.FAILED
        assert f"github.scale-sets.small.name ('{NAME}'): GitHub has a scale set of this name, {other}" in found.found
        assert f"--adopt-set {NAME}" in found.remedy


async def test_a_set_of_the_same_name_in_another_group() -> None:
    async with a_world(settings=settings("small")) as world:
        other = a_strangers(world, NAME, "special")
        where = f"github.scale-sets.small.name ('{NAME}')"
        said = f"{where}: the runner group 'special' has a scale set of this name, too, {other}"
        found = await look(world)
        assert found.health is Health.FAILED  # it will not be created
        assert said in found.found
        await pass_over(world, adopt=[NAME])
        found = await look(world)
        assert found.health is Health.WARNING
        assert said in found.found
        assert "github.scale-sets.small.runner-group" in found.remedy


async def test_a_set_to_which_a_process_listens_is_well() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        ports = world.ports()
        now = ports.clock.now()
        (held,) = await ports.records.apply(take(sessions.absent(NAME), "web-1", at=now - timedelta(hours=3)))
        await ports.records.apply(open_session(held, at=now))
        found = await look(world)
        heard = "web-1 began to listen 3h ago; GitHub's last message came 0s ago"
        assert (found.health, found.found, found.remedy) == (Health.OK, f"id {record(world).ci_id}; {heard}", "")


async def test_a_set_to_which_no_process_listens() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        found = await look(world)
        assert found.health is Health.WARNING
        assert "no `bullpen serve` has listened to it yet; no message has come yet" in found.found
        assert "Start `bullpen serve`" in found.remedy


async def test_a_set_that_github_has_lost() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        assert world.memory.hub is not None
        world.memory.hub.sets.delete(record(world).ci_id)
        found = await look(world)
        assert (found.health, "lost it" in found.found, "refresh" in found.remedy) == (Health.FAILED, True, True)


async def test_a_set_that_was_changed_at_github() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        await listens(world)
        assert world.memory.hub is not None
        world.memory.hub.sets.correct(record(world).ci_id, ScaleSetSpec(NAME, labels=(NAME, "more")))
        found = await look(world)
        assert (found.health, found.found) == (Health.WARNING, f"GitHub has it with the labels {NAME}, more")


async def test_a_github_that_does_not_answer_is_a_finding() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        assert (await look(world, None, "scale_sets.find")).health is Health.FAILED


async def test_a_set_that_retires_is_no_problem() -> None:
    async with a_world(settings=settings("small")) as world:
        await pass_over(world)
        for change in engaged("i-1", NAME):
            await world.ports().records.apply(change)
        await pass_over(world, settings())
        found = await look(world, settings())
        assert (found.health, found.found[:10]) == (Health.OK, "it retires")


# ---- settings alone


def of_settings(*keys: str, **changed: Any) -> dict[str, Finding]:
    return {one.name: one for one in check_set_settings(settings(*keys, **changed))}


def test_sets_that_may_ask_for_more_than_the_caps_allow_are_found() -> None:
    found = of_settings("a", "b", max=60)["set sizes"]
    assert found.health is Health.WARNING
    assert found.found == "the sum of max is 120 of class small, and limits.max-instances is 100"
    assert "set sizes" not in of_settings("a", "b", max=50)


def test_without_a_registered_runner_re_runs_are_noticed_late() -> None:
    found = of_settings("a")["set re-runs"]
    assert found.health is Health.OK
    assert found.found.startswith("min is 0 for bullpen-a: GitHub does not announce a re-run")
    assert "set re-runs" not in of_settings("a", min=1)


def test_without_a_webhook_re_runs_are_not_noticed_by_a_set_for_all_repositories() -> None:
    named: dict[str, Any] = {"trust_domain": "acme", "repositories": ("acme/widgets",)}
    assert of_settings("a", github={"scope": "acme"}, **named)["set re-runs"].health is Health.OK
    of_acme: dict[str, Any] = {"trust_domain": "acme", "repositories": ("*",)}
    found = of_settings("a", github={"scope": "acme"}, **of_acme)["set re-runs"]
    assert (found.health, "webhook" in found.remedy) == (Health.WARNING, True)
    heard = of_settings("a", github={"scope": "acme", "webhook_secret": "s"}, **of_acme)
    assert heard["set re-runs"].health is Health.OK


def test_without_sets_there_is_nothing_to_say() -> None:
    assert of_settings() == {}
