"""GitHub's self-hosted runners as the CI: ours are known by their names, and serve one label each.

    persistent   an agent is handed a registration token, and registers itself under the name it is given
    jit          the registration is made here, for one job

Whoever asks for a pass must still belong to the run, in the round that it names: the record decides. Lists lag, so that
nothing is concluded from one look; a runner that works is never removed, GitHub itself sees to that.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bullpen.config import Settings
from bullpen.engines.github.answers import Answer, Call
from bullpen.engines.github.client import Hub
from bullpen.engines.github.naming import instance_of, runner_name
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.rights import runners
from bullpen.engines.github.tokens import RegistrationToken
from bullpen.errors import Conflict, Refused
from bullpen.model.instance import CLAIMED, CREATED, RUNNING
from bullpen.ports import Clock, Pass, Records, Registration, Removal

NAMES = 999_999  # one a second: no two of a round are equal, for none lasts eleven days
ATTEMPTS = 3
DEFAULT_GROUP = 1  # of every repository and organisation
WORK_FOLDER = "_work"


class GithubCI:
    """`ports.CI` on one scope of GitHub."""

    def __init__(self, hub: Hub, settings: Settings, records: Records, clock: Clock, releases: Releases) -> None:
        self._hub = hub
        self._settings = settings
        self._records = records
        self._clock = clock
        self._releases = releases
        self._pool = settings.runner_pool
        self._path = f"{hub.scope_path}/actions/runners"
        self._token = RegistrationToken(hub, clock)
        self._group: int | None = None

    async def registrations(self) -> list[Registration]:
        return [_registration(instance, one) for instance, one in await self._ours()]

    async def register(self, name: str, label: str, round: str) -> Pass | None:
        found = (await self._records.instances([name])).get(name)
        if found is None or (found.run_id, found.round) != (label, round):
            return None
        if found.state not in (CREATED, CLAIMED, RUNNING):
            return None
        if self._settings.github.registration == "jit":
            return await self._made(name, label, round)
        return Pass(
            runner=self._fresh_name(name, round),
            label=label,
            url=scope_url(self._settings),
            group=self._settings.github.runner_group,
            token=await self._token.value(),
            oldest=await self._releases.oldest(),
        )

    async def remove(self, handle: str) -> Removal:
        if instance_of(self._pool, handle) is None:  # an instance: everything that it left behind
            ids = [one["id"] for instance, one in await self._ours() if instance == handle]
        else:
            ids = [one["id"] for _, one in await self._ours({"name": handle}) if one["name"] == handle]
        outcomes = [await self._delete(id) for id in ids]
        return Removal.BUSY if Removal.BUSY in outcomes else Removal.REMOVED

    async def refusals(self, versions: Sequence[str]) -> dict[str, datetime]:
        return await self._releases.refusals(versions, self._settings.github.drift_margin)

    async def _ours(self, query: Mapping[str, str] | None = None) -> list[tuple[str, dict[str, Any]]]:
        """Every runner of this pool, with the instance that it is for."""
        listed = await self._hub.listed(self._call("GET", "", "read"), "runners", query) or []
        named = [(instance_of(self._pool, one["name"]), one) for one in listed]
        return [(instance, one) for instance, one in named if instance is not None]

    async def _delete(self, id: int) -> Removal:
        # 422: it runs a job. There is no race to lose here, for GitHub decides and removes in one step.
        answer = await self._hub.ask(self._call("DELETE", f"/{id}"), expecting=(404, 422))
        return Removal.BUSY if answer.status == 422 else Removal.REMOVED

    async def _made(self, name: str, label: str, round: str) -> Pass:
        """A registration for one job, with our label and no other: any other job of the scope could ask for that."""
        runner, answer = await self._generated(name, label, round)
        made = answer.body["runner"]
        if other := [one["name"] for one in made["labels"] if one["name"].lower() != label.lower()]:
            await self._delete(made["id"])
            remedy = 'Set github.registration = "persistent", which registers without default labels.'
            raise Refused(f"{runner}: GitHub gave it the labels {', '.join(other)} besides {label}", remedy=remedy)
        return Pass(
            runner=runner,
            label=label,
            url=scope_url(self._settings),
            group=self._settings.github.runner_group,
            jit=str(answer.body["encoded_jit_config"]),
            oldest=await self._releases.oldest(),
        )

    async def _generated(self, name: str, label: str, round: str) -> tuple[str, Answer]:
        call = self._call("POST", "/generate-jitconfig")
        told = {"runner_group_id": await self._group_id(), "labels": [label], "work_folder": WORK_FOLDER}
        for attempt in range(ATTEMPTS):
            runner = self._fresh_name(name, round, attempt)
            answer = await self._hub.ask(call, body={"name": runner, **told}, expecting=(409,))
            if answer.status != 409:  # the name is taken: two asked within a second
                return runner, answer
        raise Conflict(f"{call}: the last {ATTEMPTS} names for {name} are all taken")

    async def _group_id(self) -> int:
        wanted = self._settings.github.runner_group
        if not wanted:
            return DEFAULT_GROUP
        if self._group is None:
            groups = await groups_of(self._hub)
            if wanted not in groups:
                raise Refused(no_group(wanted, groups), remedy="Make it, or correct github.runner-group.")
            self._group = groups[wanted]
        return self._group

    def _fresh_name(self, name: str, round: str, attempt: int = 0) -> str:
        seconds = int(self._clock.now().timestamp()) + attempt
        return runner_name(self._pool, name, round, 1 + seconds % NAMES)

    def _call(self, method: str, below: str = "", level: str = "write") -> Call:
        return Call(method, f"{self._path}{below}", runners(self._settings.github.scope, level))


def scope_url(settings: Settings) -> str:
    """Where runners register: the page of the repository or organisation."""
    return f"{settings.github.url.rstrip('/')}/{settings.github.scope}"


async def groups_of(hub: Hub) -> dict[str, int]:
    """The runner groups of an organisation, by name."""
    call = Call("GET", f"{hub.scope_path}/actions/runner-groups", runners(hub.settings.scope, "read"))
    return {one["name"]: int(one["id"]) for one in await hub.listed(call, "runner_groups") or []}


def no_group(wanted: str, groups: Mapping[str, int]) -> str:
    return f"github.runner-group: there is no group {wanted!r}; there are {', '.join(groups) or 'none'}"


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
