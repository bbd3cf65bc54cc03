"""Registrations for one job each, made here: GitHub gives the runner's name, id and secret in one.

Making one goes on without the agent, which gets it when it asks again in the same round (`made_once`). What no agent
has fetched by then is deleted, before it fills GitHub's list.
"""

from collections.abc import Mapping
from dataclasses import field
from functools import partial

from bullpen.config import Settings
from bullpen.engines.github.answers import GithubAnswer, GithubCall, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.made_once import MadeOnce
from bullpen.engines.github.naming import fresh_number, runner_name
from bullpen.engines.github.permissions import runners
from bullpen.errors import Conflict, Refused
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock

ATTEMPTS = 3
DEFAULT_GROUP = 1  # of every repository and organisation
WORK_FOLDER = "_work"

Asked = tuple[str, str, str]
"""Instance, label and round."""


@dataclass(frozen=True, slots=True)
class Made:
    runner: str
    id: int
    config: str = field(repr=False)


class JitRunners:
    def __init__(self, client: GithubClient, settings: Settings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._right = runners(settings.github.scope)
        self._group: int | None = None
        self._making: MadeOnce[Asked, Made] = MadeOnce(client.flights)

    async def fetch(self, instance: str, label: str, round: str) -> Made:
        """The one at work or at hand for this round, else another; each is fetched once."""
        return await self._making.fetch((instance, label, round), partial(self._made, instance, label, round))

    async def delete_unfetched(self) -> None:
        """Raise as a call does."""
        while (made := self._making.take_unfetched()) is not None:
            await self.delete(made.id)

    async def delete(self, id: int) -> GithubAnswer:
        """404: it is gone. 422: it runs a job. There is no race to lose: GitHub decides and removes in one step."""
        call = GithubCall("DELETE", f"{self._client.scope_path}/actions/runners/{id}", self._right)
        return await self._client.ask(call, expecting=(404, 422))

    async def _made(self, instance: str, label: str, round: str) -> Made:
        """With this label and no other: any job of the scope could ask for another one."""
        call = GithubCall("POST", f"{self._client.scope_path}/actions/runners/generate-jitconfig", self._right)
        runner, answer = await self._generated(call, instance, label, round)
        with understood(call):
            id, labels = int(answer.body["runner"]["id"]), [one["name"] for one in answer.body["runner"]["labels"]]
            made = Made(runner, id, str(answer.body["encoded_jit_config"]))
        if [name.lower() for name in labels] != [label.lower()]:
            await self.delete(id)
            remedy = 'Set github.registration = "persistent", which registers without default labels.'
            given = ", ".join(labels) or "none"
            raise Refused(f"{runner}: GitHub gave it the labels {given} instead of {label} alone", remedy=remedy)
        return made

    async def _generated(self, call: GithubCall, instance: str, label: str, round: str) -> tuple[str, GithubAnswer]:
        settings = {"runner_group_id": await self._group_id(), "labels": [label], "work_folder": WORK_FOLDER}
        for attempt in range(ATTEMPTS):
            number = fresh_number(self._clock.now().timestamp() + attempt)
            runner = runner_name(self._settings.runner_pool, instance, round, number)
            answer = await self._client.ask(call, body={"name": runner, **settings}, expecting=(409,))
            if answer.status != 409:  # the name is taken: two asked within a second
                return runner, answer
        raise Conflict(f"{call}: the last {ATTEMPTS} names for {instance} are all taken")

    async def _group_id(self) -> int:
        wanted = self._settings.github.runner_group
        if not wanted:
            return DEFAULT_GROUP
        if self._group is None:
            groups = await groups_of(self._client)
            if wanted not in groups:
                raise Refused(no_group(wanted, groups), remedy="Create it, or correct github.runner-group.")
            self._group = groups[wanted]
        return self._group


async def groups_of(client: GithubClient) -> dict[str, int]:
    """The runner groups of an organisation, by name."""
    call = GithubCall("GET", f"{client.scope_path}/actions/runner-groups", runners(client.settings.scope, "read"))
    listed = await client.listed(call, "runner_groups") or []
    with understood(call):
        return {one["name"]: int(one["id"]) for one in listed}


def no_group(wanted: str, groups: Mapping[str, int]) -> str:
    return f"github.runner-group: there is no group {wanted!r}; there are {', '.join(groups) or 'none'}"
