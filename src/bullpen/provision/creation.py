"""Creation: launch the machines that the pool does not have, all or nothing.

Places that find the pool exhausted at the same moment share a fleet; a later shortfall is a further fleet with its own
token. The machines of a short fleet are registered and held, and the rest is requested again where that may help. If
the last try falls short, everything is rolled back.
"""

import asyncio
from dataclasses import field

from bullpen.concurrency import on_event
from bullpen.errors import BullpenError, ConfigError, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.model.fleet import Tries
from bullpen.model.instance import Instance
from bullpen.provision.fleets import FLEET_LIMIT, Fleets

OpenPlace = asyncio.Future[Instance | None]


@dataclass(slots=True)
class Creation:
    fleets: Fleets
    allow_partial: bool
    refusal: BullpenError | None = None
    """Why there are fewer than requested, where fewer are acceptable."""
    places: list[OpenPlace] = field(default_factory=list)
    launches: list[asyncio.Task[None]] = field(default_factory=list)

    async def create(self) -> Instance | None:
        """A registered new instance for one place; None only if fewer are acceptable and none is left."""
        loop = asyncio.get_running_loop()
        place: OpenPlace = loop.create_future()
        self.places.append(place)
        if len(self.places) == 1:
            self.launches.append(loop.create_task(self._launch()))
        return await place

    async def close(self, stop: asyncio.Event) -> None:
        """Wait for launches in flight: a requested fleet is registered or ended, not forgotten. No further fleet is
        requested.

        Once stopped, for `timings.settle` at most. A machine that is launched later carries the tag of a provision that
        is then aborted: refresh finds it, and ends it.
        """
        self.fleets.abandoned.set()
        loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
        call_off = on_event(
            stop, lambda: timers.append(loop.call_later(self.fleets.settings.timings.settle, self._give_up))
        )
        try:
            await asyncio.gather(*self.launches, return_exceptions=True)
        finally:
            call_off()
            for timer in timers:
                timer.cancel()

    def _give_up(self) -> None:
        for launch in self.launches:
            launch.cancel()

    async def _launch(self) -> None:
        await asyncio.sleep(0)  # all places that find the pool exhausted in this turn of the loop share the fleet
        places, self.places = self.places, []
        while places:
            places = [place for place in places if not place.done()]  # some may have been cancelled meanwhile
            batch, places = places[:FLEET_LIMIT], places[FLEET_LIMIT:]
            if not batch:
                return
            try:
                created = await self._created(len(batch), to_come=len(places))
            except Exception as error:
                for place in batch + places:
                    if not place.done():
                        place.set_exception(error)
                return
            for place, instance in zip(batch, [*created, *[None] * (len(batch) - len(created))], strict=True):
                if not place.done():
                    place.set_result(instance)

    async def _created(self, count: int, to_come: int) -> list[Instance]:
        """All `count` instances; fewer only if that is acceptable."""
        created: list[Instance] = []
        try:
            refusal: BullpenError | None = await self._create(count, to_come, created)
        except (Refused, ConfigError) as error:
            refusal = error
        if refusal is not None:
            if not self.allow_partial:
                raise refusal
            self.refusal = refusal
        return created

    async def _create(self, count: int, to_come: int, created: list[Instance]) -> BullpenError | None:
        """Request fleets until there are `count`; the error if one falls short and nothing more may help."""
        needs = self.fleets.record.stored.needs
        attempts = self.fleets.settings.resource_class(needs.resource_class).attempts
        tries = Tries(needs.usage_class, needs.fallback or (), attempts)
        number = 0
        while True:
            launched, lack = await self.fleets.launch(
                count - len(created), tries.usage_class, to_come, allow_partial=self.allow_partial
            )
            created += launched
            if lack is None:
                return None
            left = tries.after(lack.cause)
            if left is None:
                return lack.error
            if left.usage_class is tries.usage_class:  # another market has its own capacity: no need to wait
                await self.fleets.pause(number)
                number += 1
            if self.fleets.abandoned.is_set():
                return lack.error
            tries = left
