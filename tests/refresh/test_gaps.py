"""Gaps in the infrastructure: one that cannot be closed now does not stop any other work."""

from dataclasses import dataclass, field, replace

import pytest

from bullpen.controllers import Service
from bullpen.errors import BullpenError, ConfigError, PermissionDenied, Unavailable
from bullpen.ports import Gap, Ports
from bullpen.ports.world import NoInfrastructure
from bullpen.refresh import Hindered
from bullpen.sim.world import World
from fixtures import a_world, refreshed, small


@dataclass
class Shaky(NoInfrastructure):
    """Of two gaps the first cannot be closed."""

    failure: BullpenError
    blocks: bool = False
    mended: list[str] = field(default_factory=list)

    async def gaps(self) -> list[Gap]:
        return [Gap("rotate", "token", "it ends", self.blocks), Gap("make", "template", "there is none")]

    async def mend(self, gap: Gap) -> None:
        if gap.what == "rotate":
            raise self.failure
        self.mended.append(gap.what)


def on(world: World, ground: Shaky) -> Ports:
    return replace(world.ports(), infrastructure=ground)


FAILURES = [Unavailable("GitHub is away"), PermissionDenied("it has expired"), ConfigError("no file")]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda one: type(one).__name__)
async def test_a_gap_that_cannot_be_closed_is_raised_after_the_rest_is_done(failure: BullpenError) -> None:
    async with a_world(settings=small()) as world:
        ground = Shaky(failure)
        with pytest.raises(Hindered, match=str(failure)) as hindered:
            await refreshed(world, on(world, ground))
        assert [one.what for one in hindered.value.actions] == ["rotate", "make", "make queue"]
        assert (ground.mended, hindered.value.exit_code) == (["make"], failure.exit_code)


async def test_nothing_is_done_while_a_blocking_gap_is_open() -> None:
    async with a_world(settings=small()) as world:
        ground = Shaky(Unavailable("away"), blocks=True)
        with pytest.raises(Unavailable, match="away"):
            await refreshed(world, on(world, ground))
        assert ground.mended == []


async def test_the_service_closes_the_gaps_that_it_can() -> None:
    async with a_world(settings=small()) as world:
        ground = Shaky(Unavailable("away"))
        loops = Service(on(world, ground), small()).loops
        assert not await loops[0].run_once()
        assert ground.mended == ["make"]
