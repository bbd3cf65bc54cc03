"""GitHub's self-hosted runners as the CI: those of the pool are known by their names, and serve one label each.

    persistent   an agent is handed a registration token, and registers itself under the name it is given
    jit          the registration is made here, for one job
    scale set    likewise, for one job of the set (`set_runners`)

An agent that asks for credentials must still belong to the run, in the round that it names: the record decides, before
GitHub is asked and after. Lists lag, so that nothing is concluded from one look; GitHub
itself never removes a runner that works.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from bullpen.config import Settings
from bullpen.engines.github.answers import GithubCall, moment, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.jit import JitRunners
from bullpen.engines.github.naming import fresh_number, instance_of, runner_name
from bullpen.engines.github.permissions import runners
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.set_runners import SetRegistrations
from bullpen.engines.github.token_cache import Issued, TokenCache
from bullpen.model.instance import CLAIMED, CREATED, RUNNING
from bullpen.model.registration_failure import RegistrationFailure
from bullpen.model.scale_set import set_of_run_id
from bullpen.ports import Clock, NoScaleSets, Records, Registration, RegistrationCredentials, Removal, ScaleSets


class GithubCI:
    """`ports.CI` on one scope of GitHub."""

    def __init__(
        self,
        client: GithubClient,
        settings: Settings,
        records: Records,
        clock: Clock,
        releases: Releases,
        scale_sets: ScaleSets | None = None,
    ) -> None:
        self._client = client
        self._settings = settings
        self._records = records
        self._clock = clock
        self._releases = releases
        self._pool = settings.runner_pool
        self._list = GithubCall("GET", f"{client.scope_path}/actions/runners", runners(settings.github.scope, "read"))
        self._token = TokenCache(partial(make_token, client, "registration"), clock, client.flights)
        self._jit = JitRunners(client, settings, clock)
        self._sets = SetRegistrations(scale_sets or NoScaleSets(), settings, records, clock, client.flights)

    async def registrations(self) -> list[Registration]:
        await self._jit.delete_unfetched()
        await self._sets.delete_unfetched()
        found = await self._ours()
        with understood(self._list):
            return [_registration(instance, one) for instance, one in found]

    async def register(self, name: str, label: str, round: str) -> RegistrationCredentials | None:
        if set_of_run_id(label) is not None:
            given = await self._sets.register(name, label, round)
            return replace(given, oldest=self._releases.oldest_known()) if given is not None else None
        if not await self._must_register(name, label, round):
            return None
        place = partial(
            RegistrationCredentials,
            label=label,
            url=scope_url(self._settings),
            group=self._settings.github.runner_group,
            oldest=self._releases.oldest_known(),
        )
        if self._settings.github.registration == "jit":
            made = await self._jit.fetch(name, label, round)
            if await self._must_register(name, label, round):
                return place(runner=made.runner, jit=made.config)
            await self._jit.delete(made.id)  # the round has moved on while GitHub made it
            return None
        token = await self._token.value()
        runner = runner_name(self._pool, name, round, fresh_number(self._clock.now().timestamp()))
        return place(runner=runner, token=token) if await self._must_register(name, label, round) else None

    def prepare(self, name: str, label: str, round: str) -> None:
        if set_of_run_id(label) is not None:
            self._sets.prepare(name, label, round)

    def failing(self, label: str) -> RegistrationFailure | None:
        return self._sets.failing(label)

    async def remove(self, handle: str) -> Removal:
        is_instance = instance_of(self._pool, handle) is None  # then everything that it left behind is meant
        if not is_instance and (removal := await self._sets.remove(handle)) is not None:
            return removal
        found = await self._ours({} if is_instance else {"name": handle})
        with understood(self._list):
            ids = [int(one["id"]) for instance, one in found if handle == (instance if is_instance else one["name"])]
        answers = [await self._jit.delete(id) for id in ids]
        return Removal.BUSY if any(answer.status == 422 for answer in answers) else Removal.REMOVED

    def instance_of(self, handle: str) -> str | None:
        return instance_of(self._pool, handle)

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return await self._releases.refusals(versions, self._settings.github.drift_margin)

    async def _must_register(self, name: str, label: str, round: str) -> bool:
        """Whether its record says that the instance serves the run of this label, in this round."""
        found = (await self._records.instances([name])).get(name)
        is_the_runs = found is not None and (found.run_id, found.round) == (label, round)
        return found is not None and is_the_runs and found.state in (CREATED, CLAIMED, RUNNING)

    async def _ours(self, query: Mapping[str, str] | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Every runner of this pool, with the instance that it is for."""
        listed = await self._client.listed(self._list, "runners", query, remembers=not query) or []
        with understood(self._list):
            named = [(instance_of(self._pool, one["name"]), one) for one in listed]
        return [(instance, one) for instance, one in named if instance is not None]


async def make_token(client: GithubClient, kind: Literal["registration", "remove"]) -> Issued:
    """With it an agent registers a runner of the scope, or removes it again, for an hour."""
    call = GithubCall("POST", f"{client.scope_path}/actions/runners/{kind}-token", runners(client.settings.scope))
    answer = await client.ask(call)
    with understood(call):
        return Issued(str(answer.body["token"]), moment(answer.body["expires_at"]))


def scope_url(settings: Settings) -> str:
    """Where runners register: the page of the repository or organisation."""
    return f"{settings.github.url.rstrip('/')}/{settings.github.scope}"


def _registration(instance: str, runner: Mapping[str, Any]) -> Registration:
    labels = [one["name"] for one in runner["labels"] if one.get("type") != "read-only"]
    return Registration(
        name=instance,
        label=next(iter(labels), ""),
        busy=runner["busy"],
        runner=runner["name"],
        online=runner["status"] == "online",
        version=runner.get("version") or "",
    )
