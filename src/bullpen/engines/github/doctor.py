"""`bullpen doctor` for GitHub: credentials, scope, permissions, runner group, webhook, versions, rate limits."""

from collections.abc import Awaitable, Callable, Iterator

from bullpen.config import Settings
from bullpen.engines.github.answers import GithubCall, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.jit import groups_of, no_group
from bullpen.engines.github.naming import instance_of
from bullpen.engines.github.permissions import READ_DEPLOYMENTS, READ_RUNS, WRITE_RUNS, Right, runners
from bullpen.engines.github.releases import Releases, refused_at
from bullpen.engines.github.runners import make_token
from bullpen.errors import BullpenError
from bullpen.ports.health import Finding, Health

LITTLE = 0.1
"""Of a rate limit: with less left, another program uses the same credentials, or we ask too much."""


async def examine(client: GithubClient, settings: Settings, releases: Releases) -> list[Finding]:
    """In the order in which you would repair what it finds. Never raises."""
    look = GithubChecks(client, settings, releases)
    first = await _guarded("github", look.credentials)
    if first.health is Health.FAILED:  # whatever else is asked would fail for the same reason
        return [first]
    checks: list[tuple[str, Callable[[], Awaitable[Finding]]]] = [
        ("github scope", look.runners),
        ("github permissions", look.permissions),
        ("github versions", look.versions),
        ("github rate limits", look.limits),
    ]
    if settings.github.runner_group:
        checks.insert(2, ("github runner group", look.group))
    return [first, *[await _guarded(name, check) for name, check in checks], look.webhook()]


class GithubChecks:
    """The checks, each with a finding; they change nothing."""

    def __init__(self, client: GithubClient, settings: Settings, releases: Releases) -> None:
        self._client = client
        self._settings = settings
        self._github = settings.github
        self._releases = releases
        self._versions: set[str] = set()

    async def credentials(self) -> Finding:
        await self._client.rate_limits()  # free, and open to all valid credentials
        who = f"App {self._github.app_id}" if self._github.app_id else "a token"
        return Finding("github", Health.OK, f"{who} at {self._github.url}")

    async def runners(self) -> Finding:
        call = GithubCall("GET", f"{self._client.scope_path}/actions/runners", runners(self._github.scope, "read"))
        listed = await self._client.listed(call, "runners") or []
        with understood(call):
            ours = [one for one in listed if instance_of(self._settings.runner_pool, one["name"])]
            self._versions = {str(one["version"]) for one in ours if one.get("version")}
        found = f"{self._github.scope}: {len(listed)} runners, {len(ours)} of them of this pool"
        return Finding("github scope", Health.OK, found)

    async def permissions(self) -> Finding:
        await make_token(self._client, "registration")  # to try is the only way to know; unused, it is gone in an hour
        granted = await self._client.granted()
        if granted is None:
            return Finding(
                "github permissions",
                Health.OK,
                "runners can be registered; a token does not report its other permissions",
            )
        if missing := [str(right) for right in self._needed() if not right.is_in(granted)]:
            remedy = "Grant them to the App, and approve the request where it is installed."
            return Finding("github permissions", Health.FAILED, f"missing: {'; '.join(missing)}", remedy)
        return Finding("github permissions", Health.OK, ", ".join(f"{key}: {granted[key]}" for key in sorted(granted)))

    async def group(self) -> Finding:
        wanted, groups = self._github.runner_group, await groups_of(self._client)
        if wanted not in groups:
            remedy = "Create it, or correct github.runner-group."
            return Finding("github runner group", Health.FAILED, no_group(wanted, groups), remedy)
        return Finding("github runner group", Health.OK, wanted)

    async def versions(self) -> Finding:
        releases = await self._releases.known()
        if not releases:
            found = "GitHub does not list the releases of its runner, so instances are not retired for their version"
            return Finding("github versions", Health.WARNING, found, "Watch the version yourself, or try again later.")
        used = sorted(self._versions)
        ends = await self._releases.refusals(used, self._github.drift_margin)
        if ends:
            told = ", ".join(f"{version} from {moment:%Y-%m-%d} on" for version, moment in sorted(ends.items()))
            remedy = "Put the newest runner into the image, or name it with github.runner-url."
            return Finding("github versions", Health.WARNING, f"GitHub refuses {told}", remedy)
        end = min((end for one in used if (end := refused_at(one, releases))), default=None)
        until = f", accepted until {end:%Y-%m-%d}" if end else ""
        in_use = f"; in use: {', '.join(used)}{until}" if used else ""
        return Finding("github versions", Health.OK, f"newest runner: {releases[0].version}{in_use}")

    async def limits(self) -> Finding:
        limits = await self._client.rate_limits()
        told = ", ".join(f"{one.resource}: {one.remaining} of {one.limit} left" for one in limits)
        if short := [one.resource for one in limits if one.remaining < LITTLE * one.limit]:
            remedy = "Use credentials of the pool's own; the limits of an App grow with the organisation."
            return Finding("github rate limits", Health.WARNING, f"{told}: little left of {', '.join(short)}", remedy)
        return Finding("github rate limits", Health.OK, told or "none")

    def webhook(self) -> Finding:
        if self._github.webhook_secret:
            return Finding("github webhook", Health.OK, "the secret is set")
        found = f"no secret is set: serve polls the runs every {self._github.poll:g} s instead"
        remedy = "Point a webhook (workflow jobs, workflow runs) to serve, and set github.webhook-secret."
        return Finding("github webhook", Health.WARNING, found, remedy)

    def _needed(self) -> Iterator[Right]:
        yield runners(self._github.scope)
        yield WRITE_RUNS if self._github.rescue else READ_RUNS
        if self._github.rescue:
            yield READ_DEPLOYMENTS


async def _guarded(name: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        return await check()
    except BullpenError as exc:
        return Finding(name, Health.FAILED, str(exc), exc.remedy)
