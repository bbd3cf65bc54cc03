"""`bullpen doctor` for scale sets at GitHub: their service accepts the credentials, and the runner group of each set
exists and admits the set's repositories."""

from collections.abc import Mapping
from typing import Any

from bullpen.config import ScaleSetSettings, Settings
from bullpen.engines.github.answers import GithubCall, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import READ_METADATA, runners
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.errors import BullpenError, NotFound
from bullpen.ports.health import Found, Health
from bullpen.settings.scale_sets import EVERY, completed, named_repository

GROUPS = GithubCall("GET", "/actions/runner-groups")
OPEN_TO_SELECTED = "selected"  # visibility of a group


class SetChecks:
    """They change nothing, except that GitHub makes a registration token, which stays unused."""

    def __init__(self, client: GithubClient, settings: Settings) -> None:
        self._client = client
        self._sets = completed(settings)
        scope = client.settings.scope
        self._listing, self._changing = runners(scope, "read"), runners(scope, "write")
        self._own_groups = {key: bool(one.runner_group) for key, one in settings.github.scale_sets.items()}

    async def groups(self) -> Found:
        known = {name.casefold() for name in await GithubScaleSets(self._client, self._client.clock).groups()}
        for key, one in self._sets.items():
            if one.runner_group and one.runner_group.casefold() not in known:
                missing = f"{self._setting(key)} ({one.runner_group!r}): there is no such runner group"
                return Health.FAILED, missing, f"Create it, which needs {self._changing}, or correct the setting."
        accepted = f"the credentials are accepted; {', '.join(one.name for one in self._sets.values())}"
        try:
            closed = await self._closed()
        except BullpenError as exc:
            skipped = f"{accepted}; whether their runner groups admit their repositories was not checked: {exc}"
            needed = f"Grant the {self._listing}, or compare {', '.join(self._settings())} with GitHub yourself."
            return Health.WARNING, skipped, needed
        return closed or (Health.OK, accepted)

    async def _closed(self) -> Found | None:
        """A group that does not admit a repository of its set; None if there is none. Raise what keeps it from that."""
        if "/" in self._client.settings.scope:
            return None
        groups = await self._listed("", "runner_groups")
        for key, one in self._sets.items():
            with understood(GROUPS):
                group = next((group for group in groups if _is_group(group, one.runner_group)), None)
                if group is None:
                    raise NotFound(f"GitHub does not list the runner group {one.runner_group or 'Default'!r}")
                where = f"{self._setting(key)}: the group {group['name']!r} is closed to"
                missing = await self._missing(group, one) if group["visibility"] == OPEN_TO_SELECTED else []
                public = await self._public(group, one)
            how = f"as an owner of the organisation or with the {self._changing}, or set {self._setting(key)}"
            if missing:
                return (
                    Health.FAILED,
                    f"{where} {', '.join(missing)}",
                    f"Admit them in the settings of this group, {how} to a group that admits them.",
                )
            if public:
                return (
                    Health.FAILED,
                    f"{where} public repositories, and {', '.join(public)} is public",
                    f"If you trust all who may fork it, allow public repositories there, {how} to a group that"
                    " allows them.",
                )
        return None

    async def _missing(self, group: Mapping[str, Any], one: ScaleSetSettings) -> list[str]:
        repositories = await self._listed(f"/{int(group['id'])}/repositories", "repositories")
        admitted = {str(found["full_name"]).casefold() for found in repositories}
        return [name for name in _named(one) if name.casefold() not in admitted]

    async def _public(self, group: Mapping[str, Any], one: ScaleSetSettings) -> list[str]:
        """The repositories that a group for private ones does not admit. One that is not visible is no finding here."""
        if group["allows_public_repositories"] is not False:
            return []
        found = []
        for name in _named(one):
            call = GithubCall("GET", f"/repos/{name}", READ_METADATA)
            answer = await self._client.ask(call, expecting=(301, 302, 307, 308, 403, 404))
            if answer.status == 200 and answer.body["private"] is False:
                found.append(name)
        return found

    async def _listed(self, path: str, key: str) -> list[dict[str, Any]]:
        call = GithubCall("GET", f"{self._client.scope_path}/actions/runner-groups{path}", self._listing)
        return list(await self._client.listed(call, key) or [])

    def _settings(self) -> list[str]:
        return [*dict.fromkeys(map(self._setting, self._sets))]

    def _setting(self, key: str) -> str:
        return f"github.scale-sets.{key}.runner-group" if self._own_groups[key] else "github.runner-group"


def _named(one: ScaleSetSettings) -> list[str]:
    """The names of a set's repositories, each once."""
    return [*dict.fromkeys(named_repository(text)[0] for text in one.repositories if text != EVERY)]


def _is_group(group: Mapping[str, Any], name: str) -> bool:
    return str(group["name"]).casefold() == name.casefold() if name else group.get("default") is True
