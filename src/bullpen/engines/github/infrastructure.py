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
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock, Gap, Infrastructure, Secret, Vault
from bullpen.ports.health import Finding

ROTATE = "rotate registration token"
SECRET = "github"
"""Its name in the vault, by which agents ask for it."""


@dataclass(frozen=True, slots=True, repr=False)  # it holds settings with secrets
class GithubInfrastructure:
    """The ground of the pool's own engine, and what GitHub adds to it."""

    ground: Infrastructure
    client: GithubClient
    settings: Settings
    vault: Vault
    clock: Clock
    releases: Releases

    def check(self) -> None:
        self.ground.check()

    async def gaps(self) -> list[Gap]:
        found = await self.ground.gaps()
        if self.settings.agent.serve_url:
            return found
        # Before there is a table there is no vault to look into, and surely no token in it.
        reason = _NONE if any(gap.blocks for gap in found) else self._amiss(await self.vault.read(SECRET))
        return [*found, Gap(ROTATE, self.settings.github.scope, reason)] if reason else found

    async def mend(self, gap: Gap) -> None:
        if gap.what != ROTATE:
            await self.ground.mend(gap)
        elif self._amiss(await self.vault.read(SECRET)):  # otherwise another refresh was faster
            await self._rotate()

    async def examine(self) -> list[Finding]:
        return [*await self.ground.examine(), *await examine(self.client, self.settings, self.releases)]

    async def _rotate(self) -> None:
        registration = await make_token(self.client, "registration")
        removal = await make_token(self.client, "remove")
        content = {
            **self._place(),
            "registration": registration.value,
            "removal": removal.value,
            "oldest": await self.releases.oldest(),
        }
        expires = min(registration.expires, removal.expires)
        await self.vault.write(SECRET, Secret(json.dumps(content, sort_keys=True), expires))

    def _place(self) -> dict[str, str]:
        """Where agents register, as whom: also a reason to write the secret again, if the settings have changed."""
        github = self.settings.github
        return {"url": scope_url(self.settings), "group": github.runner_group, "pool": self.settings.runner_pool}

    def _amiss(self, secret: Secret | None) -> str:
        """Why agents need another one; empty if they do not."""
        if secret is None:
            return _NONE
        if (left := secret.expires - self.clock.now()) < timedelta(seconds=self.settings.github.token_rotation):
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
