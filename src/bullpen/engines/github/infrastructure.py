"""The infrastructure of a pool on GitHub: that of its store, and a registration token that agents can use.

Where agents ask `serve`, it hands one out and nothing is kept. Where they use the store themselves, the vault holds
one, and refresh replaces it long before it expires: it must not expire while an agent registers.
"""

import json
from datetime import timedelta

from bullpen.config import Settings
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.doctor import examine
from bullpen.engines.github.releases import Releases
from bullpen.engines.github.runners import make_token, scope_url
from bullpen.ports import Clock, Gap, Infrastructure, Secret, Vault
from bullpen.ports.health import Finding

ROTATE = "rotate registration token"
SECRET = "github"
"""Its name in the vault, by which agents ask for it."""


class GithubInfrastructure:
    """The ground of the pool's own engine, and what GitHub adds to it."""

    def __init__(
        self,
        ground: Infrastructure,
        client: GithubClient,
        settings: Settings,
        vault: Vault,
        clock: Clock,
        releases: Releases,
    ) -> None:
        self._ground = ground
        self._client = client
        self._settings = settings
        self._vault = vault
        self._clock = clock
        self._releases = releases

    def check(self) -> None:
        self._ground.check()

    async def gaps(self) -> list[Gap]:
        found = await self._ground.gaps()
        if self._settings.agent.serve_url:
            return found
        # Before there is a table there is no vault to look into, and surely no token in it.
        reason = _NONE if any(gap.blocks for gap in found) else self._amiss(await self._vault.read(SECRET))
        return [*found, Gap(ROTATE, self._settings.github.scope, reason)] if reason else found

    async def mend(self, gap: Gap) -> None:
        if gap.what != ROTATE:
            await self._ground.mend(gap)
        elif self._amiss(await self._vault.read(SECRET)):  # otherwise another refresh was faster
            await self._rotate()

    async def examine(self) -> list[Finding]:
        return [*await self._ground.examine(), *await examine(self._client, self._settings, self._releases)]

    async def _rotate(self) -> None:
        registration = await make_token(self._client, "registration")
        removal = await make_token(self._client, "remove")
        content = {
            **self._place(),
            "registration": registration.value,
            "removal": removal.value,
            "oldest": await self._releases.oldest(),
        }
        expires = min(registration.expires, removal.expires)
        await self._vault.write(SECRET, Secret(json.dumps(content, sort_keys=True), expires))

    def _place(self) -> dict[str, str]:
        """Where agents register, as whom: also a reason to write the secret again, if the settings have changed."""
        github = self._settings.github
        return {"url": scope_url(self._settings), "group": github.runner_group, "pool": self._settings.runner_pool}

    def _amiss(self, secret: Secret | None) -> str:
        """Why agents need another one; empty if they do not."""
        if secret is None:
            return _NONE
        if (left := secret.expires - self._clock.now()) < timedelta(seconds=self._settings.github.token_rotation):
            return f"it expires in {left.total_seconds():.0f} s"
        if any(_told(secret).get(name) != value for name, value in self._place().items()):
            return "the settings have changed"
        return ""


_NONE = "agents have none"


def _told(secret: Secret) -> dict[str, str]:
    try:
        found = json.loads(secret.content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
