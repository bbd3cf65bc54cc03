"""Registrations of the runners of scale sets: one for each job, made when an instance is claimed or has become free.

    claim ── prepare ──▶ made ──▶ fetched by the agent ──▶ one job, or given back
    job over ─ register ──▶ made ──┘

Two records decide, before GitHub is asked and after: the instance serves the set in this round, and the set is ready
and has the trust domain of the instance. A set may be corrected or retired at any time, and an instance of the old
domain must not get another job.

GitHub may refuse every registration of a set, because the credentials have expired or lack a permission. Then one
attempt is made after each pause, which grows, and all other agents get the same answer without a call.

A name is used once. A call without an answer may have made a registration: the next attempt takes another name, and the
one in doubt is looked for and removed later.
"""

import asyncio
from collections import deque
from functools import partial

from bullpen.config import Settings
from bullpen.engines.github.made_once import MadeOnce
from bullpen.engines.github.naming import fresh_number, runner_name
from bullpen.engines.github.single_flight import Flights
from bullpen.errors import BullpenError, ConfigError, Conflict, NotFound, Refused, Throttled, Unavailable
from bullpen.model.instance import CLAIMED, RUNNING
from bullpen.model.registration_failure import RegistrationFailure, refused, unanswered
from bullpen.model.scale_set import ScaleSet, set_of_run_id
from bullpen.model.served_set import mismatch, served
from bullpen.ports import Clock, JitConfiguration, Records, RegistrationCredentials, Removal, ScaleSets
from bullpen.structured_log import get_logger

ATTEMPTS = 3  # to find a name that is not taken
WORK_FOLDER = "_work"
IN_DOUBT = 256
"""Names of calls without an answer that are remembered. GitHub removes an unused registration after a day by itself."""
REMEMBERED = 1024
"""Instances whose last number is remembered. All but those of the last second are forgotten beyond that."""

log = get_logger("bullpen.engines.github")

Asked = tuple[str, str, str]
"""Instance, label and round."""

FailureKey = tuple[str, int]
"""Label and id of a set. That a set is gone says nothing of the one that is created in its place."""

ANY_SET = 0  # as the id: the failure is about the pool's credentials, or GitHub itself


class SetRegistrations:
    def __init__(
        self, scale_sets: ScaleSets, settings: Settings, records: Records, clock: Clock, flights: Flights
    ) -> None:
        self._scale_sets = scale_sets
        self._settings = settings
        self._records = records
        self._clock = clock
        self._flights = flights
        self._making: MadeOnce[Asked, JitConfiguration] = MadeOnce(flights)
        self._numbers: dict[str, int] = {}  # the last one of an instance
        self._in_doubt: deque[str] = deque(maxlen=IN_DOUBT)
        self._failures: dict[FailureKey, RegistrationFailure] = {}

    def failing(self, label: str) -> RegistrationFailure | None:
        found = self._failures.get((label, ANY_SET))
        is_over = found is not None and not found.is_refusal and found.is_due(asyncio.get_running_loop().time())
        return None if is_over else found

    def prepare(self, name: str, label: str, round: str) -> None:
        self._flights.run(self._prepared(name, label, round))

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        asked = (name, label, round)
        while (before := await self._set_of(asked)) is not None:
            made = await self._making.fetch(asked, partial(self._made, asked, before.ci_id))
            after = await self._set_of(asked)
            if after is not None and made.runner.set_id in (after.ci_id, 0):
                one = made.runner
                return RegistrationCredentials(one.name, label, jit=made.encoded, id=one.id, serves=served(after))
            await self._scale_sets.remove_runner(made.runner.id)  # what it was made for has moved on meanwhile
        return None

    async def remove(self, runner: str) -> Removal | None:
        """None if the CI has no runner of this name that belongs to a set."""
        if not await self._records.scale_sets():
            return None
        found = await self._scale_sets.runner_named(runner)
        return await self._scale_sets.remove_runner(found.id) if found is not None and found.set_id else None

    async def delete_unfetched(self) -> None:
        """Remove what no agent has fetched, and what calls without an answer have made. Raise as a call does."""
        while (made := self._making.take_unfetched()) is not None:
            await self._scale_sets.remove_runner(made.runner.id)
        while self._in_doubt:
            if (found := await self._scale_sets.runner_named(self._in_doubt[0])) is not None:
                await self._scale_sets.remove_runner(found.id)
            self._in_doubt.popleft()

    async def _prepared(self, *asked: str) -> None:
        name, label, round = asked
        if (serving := await self._set_of((name, label, round))) is not None:
            self._making.begin((name, label, round), partial(self._made, (name, label, round), serving.ci_id))

    async def _set_of(self, asked: Asked) -> ScaleSet | None:
        """The set that the instance serves in this round; None if it does not, or if the set must not have it."""
        name, label, round = asked
        one = (await self._records.instances([name])).get(name)
        if one is None or (one.run_id, one.round) != (label, round) or one.state not in (CLAIMED, RUNNING):
            return None
        found = (await self._records.scale_sets()).get(set_of_run_id(label) or "")
        needs = self._settings.set_requirements(found.rules) if found is not None else None
        return None if mismatch(one, found, needs) else found

    async def _made(self, asked: Asked, set_id: int) -> JitConfiguration:
        _, label, _ = asked
        loop = asyncio.get_running_loop()
        keys = [(label, ANY_SET), (label, set_id)]
        for key in keys:
            if (before := self._failures.get(key)) is not None and before.is_refusal:
                if not before.is_due(loop.time()):
                    raise Refused(before.why)
                self._failures[key] = before.attempted(loop.time())
        try:
            made = await self._configured(asked, set_id)
        except NotFound as exc:
            gone = Refused(f"{label} is gone at GitHub: it is created again ({exc})")
            self._note((label, set_id), gone, loop.time())
            raise gone from exc
        except BullpenError as exc:
            self._note((label, ANY_SET), exc, loop.time())
            raise
        for key in keys:
            self._failures.pop(key, None)
        return made

    def _note(self, key: FailureKey, failure: BullpenError, time: float) -> None:
        label, set_id = key
        before = self._failures.get(key)
        why = f"{failure}; {failure.remedy}" if failure.remedy else str(failure)
        if not isinstance(failure, Refused | ConfigError):
            least = failure.retry_after if isinstance(failure, Throttled) else 0.0
            self._failures[key] = unanswered(why, time, least)
            return
        if before is None or before.why != why:
            log.error("GitHub registers no runner for scale set", set=set_of_run_id(label), error=why)
        earlier = [one for one in self._failures if one[0] == label and one[1] not in (ANY_SET, set_id)]
        for one in earlier:  # sets that were gone before this one
            del self._failures[one]
        self._failures[key] = refused(before, why, time)

    async def _configured(self, asked: Asked, set_id: int) -> JitConfiguration:
        name, _, round = asked
        for _ in range(ATTEMPTS):
            runner = runner_name(self._settings.runner_pool, name, round, self._number(name))
            try:
                return await self._scale_sets.configure(set_id, runner, WORK_FOLDER)
            except Conflict:
                continue  # another process gave this instance a registration within the same second
            except Throttled:
                raise
            except Unavailable:
                self._in_doubt.append(runner)
                raise
        raise Unavailable(f"the last {ATTEMPTS} names for {name} are all taken at GitHub")

    def _number(self, name: str) -> int:
        now = fresh_number(self._clock.now().timestamp())
        if len(self._numbers) >= REMEMBERED:
            self._numbers = {one: last for one, last in self._numbers.items() if last >= now}
        self._numbers[name] = number = max(now, self._numbers.get(name, 0) + 1)
        return number
