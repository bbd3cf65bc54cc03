"""`bullpen doctor` for GitHub: credentials, scope, permissions, groups, scale sets, webhook, versions, rate limits."""

from collections.abc import Awaitable, Callable

from bullpen.config import Settings
from bullpen.engines.github.answers import GithubCall, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.jit import groups_of, no_group
from bullpen.engines.github.naming import instance_of
from bullpen.engines.github.permissions import READ_DEPLOYMENTS, READ_RUNS, WRITE_RUNS, Right, runners
from bullpen.engines.github.releases import Releases, refused_at
from bullpen.engines.github.runners import make_token
from bullpen.engines.github.scale_sets.doctor import SetChecks
from bullpen.errors import BullpenError
from bullpen.ports.health import Finding, Found, Health

LITTLE = 0.1
"""Of a rate limit: with less left, another program uses the same credentials, or Bullpen asks too often."""


async def examine(client: GithubClient, settings: Settings, releases: Releases) -> list[Finding]:
    """In the order in which you would repair what it finds. Never raises."""
    github = GithubChecks(client, settings, releases)
    first = await _finding("github", github.credentials)
    if first.health is Health.FAILED:  # whatever else is asked would fail for the same reason
        return [first]
    checks: dict[str, Callable[[], Awaitable[Found]]] = {
        "github scope": github.runners,
        "github permissions": github.permissions,
        **({"github runner group": github.group} if settings.github.runner_group else {}),
        **({"github scale sets": SetChecks(client, settings).groups} if settings.github.scale_sets else {}),
        "github versions": github.versions,
        "github rate limits": github.limits,
        "github webhook": github.webhook,
    }
    return [first, *[await _finding(name, check) for name, check in checks.items()]]


class GithubChecks:
    """They change nothing."""

    def __init__(self, client: GithubClient, settings: Settings, releases: Releases) -> None:
        self._client = client
        self._pool = settings.runner_pool
        self._github = settings.github
        self._releases = releases
        self._versions: set[str] = set()

    async def credentials(self) -> Found:
        await self._client.rate_limits()  # free, and open to all valid credentials
        who = f"App {self._github.app_id}" if self._github.app_id else "a token"
        return Health.OK, f"{who} at {self._github.url}"

    async def runners(self) -> Found:
        call = GithubCall("GET", f"{self._client.scope_path}/actions/runners", runners(self._github.scope, "read"))
        listed = await self._client.listed(call, "runners") or []
        with understood(call):
            ours = [one for one in listed if instance_of(self._pool, one["name"])]
            self._versions = {str(one["version"]) for one in ours if one.get("version")}
        count = "1 runner" if len(listed) == 1 else f"{len(listed)} runners"
        return (
            Health.OK,
            f"{self._github.scope}: {count}, {len(ours)} of them of this pool",
        )

    async def permissions(self) -> Found:
        await make_token(self._client, "registration")  # to try is the only way to know; unused, it is gone in an hour
        granted = await self._client.granted()
        if granted is None:
            return Health.OK, "runners can be registered; a token does not report its other permissions"
        if missing := [str(right) for right in self._needed() if not right.is_in(granted)]:
            remedy = "Grant them to the App, and approve the request where it is installed."
            return Health.FAILED, f"missing: {'; '.join(missing)}", remedy
        return Health.OK, ", ".join(f"{key}: {granted[key]}" for key in sorted(granted))

    async def group(self) -> Found:
        wanted, groups = self._github.runner_group, await groups_of(self._client)
        if wanted not in groups:
            return Health.FAILED, no_group(wanted, groups), "Create it, or correct github.runner-group."
        return Health.OK, wanted

    async def versions(self) -> Found:
        releases = await self._releases.known()
        if not releases:
            found = "GitHub does not list the releases of its runner, so instances are not retired for their version"
            return Health.WARNING, found, "Watch the version yourself, or try again later."
        used = sorted(self._versions)
        ends = await self._releases.refusals(used, self._github.drift_margin)
        if ends:
            refused = ", ".join(f"{version} from {moment:%Y-%m-%d} on" for version, moment in sorted(ends.items()))
            remedy = "Put the newest runner into the image, or name it with github.runner-url."
            return Health.WARNING, f"GitHub refuses {refused}", remedy
        end = min((end for one in used if (end := refused_at(one, releases))), default=None)
        until = f", accepted until {end:%Y-%m-%d}" if end else ""
        in_use = f"; in use: {', '.join(used)}{until}" if used else ""
        return Health.OK, f"newest runner: {releases[0].version}{in_use}"

    async def limits(self) -> Found:
        limits = await self._client.rate_limits()
        left = ", ".join(f"{one.resource}: {one.remaining} of {one.limit} left" for one in limits)
        if short := [one.resource for one in limits if one.remaining < LITTLE * one.limit]:
            remedy = "Use credentials of the pool's own; the limits of an App grow with the organisation."
            return Health.WARNING, f"{left}: little left of {', '.join(short)}", remedy
        return Health.OK, left or "none"

    async def webhook(self) -> Found:
        if self._github.webhook_secret:
            return Health.OK, "the secret is set"
        found = f"no secret is set: serve polls the runs every {self._github.poll:g} s instead"
        remedy = "Point a webhook (workflow jobs, workflow runs) to serve, and set github.webhook-secret."
        return Health.WARNING, found, remedy

    def _needed(self) -> list[Right]:
        rescuing = [WRITE_RUNS, READ_DEPLOYMENTS] if self._github.rescue else [READ_RUNS]
        return [runners(self._github.scope), *rescuing]


async def _finding(name: str, check: Callable[[], Awaitable[Found]]) -> Finding:
    try:
        return Finding(name, *await check())
    except BullpenError as exc:
        return Finding(name, Health.FAILED, str(exc), exc.remedy)
