"""`bullpen doctor` for scale sets at GitHub: their service accepts the credentials, and the runner group of each set
exists and admits the set's repositories."""

from collections.abc import Mapping
from typing import Any

from bullpen.config import ScaleSetSettings, Settings
from bullpen.engines.github.answers import GithubCall
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.permissions import READ_METADATA, runners
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.errors import BullpenError
from bullpen.ports.health import Found, Health
from bullpen.settings.scale_sets import EVERY, completed, named_repository

OPEN_TO_SELECTED = "selected"  # visibility of a group


class SetChecks:
    """They change nothing, except that GitHub makes a registration token, which stays unused."""

    def __init__(self, client: GithubClient, settings: Settings) -> None:
        self._client = client
        self._sets = completed(settings)
        self._own_groups = {key: bool(one.runner_group) for key, one in settings.github.scale_sets.items()}

    async def groups(self) -> Found:
        known = {name.casefold() for name in await GithubScaleSets(self._client, self._client.clock).groups()}
        for key, one in self._sets.items():
            if one.runner_group and one.runner_group.casefold() not in known:
                missing = f"{self._setting(key)} ({one.runner_group!r}): there is no such runner group"
                return Health.FAILED, missing, "Create it, or correct the setting."
        if closed := await self._closed():
            return closed
        return Health.OK, f"the credentials are accepted; {', '.join(one.name for one in self._sets.values())}"

    async def _closed(self) -> Found | None:
        """A group that does not admit a repository of its set; None if there is none, or if that cannot be asked."""
        if "/" in self._client.settings.scope:
            return None
        try:
            groups = await self._listed("", "runner_groups")
            for key, one in self._sets.items():
                group = next(group for group in groups if _is_group(group, one.runner_group))
                where = f"{self._setting(key)}: the group {group['name']!r} is closed to"
                missing = await self._missing(group, one) if group["visibility"] == OPEN_TO_SELECTED else []
                if missing:
                    text = f"{where} {', '.join(missing)}"
                    return Health.FAILED, text, "Admit them in the organisation's settings of this runner group."
                if public := await self._public(group, one):
                    text = f"{where} public repositories, and {', '.join(public)} is public"
                    return Health.FAILED, text, "Allow public repositories there only if you trust all who may fork."
        except (BullpenError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
            return None
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
        right = runners(self._client.settings.scope, "read")
        call = GithubCall("GET", f"{self._client.scope_path}/actions/runner-groups{path}", right)
        return list(await self._client.listed(call, key) or [])

    def _setting(self, key: str) -> str:
        return f"github.scale-sets.{key}.runner-group" if self._own_groups[key] else "github.runner-group"


def _named(one: ScaleSetSettings) -> list[str]:
    """The names of a set's repositories, each once."""
    return [*dict.fromkeys(named_repository(text)[0] for text in one.repositories if text != EVERY)]


def _is_group(group: Mapping[str, Any], name: str) -> bool:
    return str(group["name"]).casefold() == name.casefold() if name else group.get("default") is True
