"""Versions of GitHub's runner: until when each is accepted.

A runner that does not update itself must be replaced within 30 days of the next release, or GitHub gives it no more
jobs. Bullpen's runners do not update themselves, because a machine would change under its jobs. So instances are
retired in time.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from bullpen.engines.github.answers import GithubCall, moment, rows, understood
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.single_flight import SingleFlight
from bullpen.errors import BullpenError
from bullpen.lazy_dataclass import dataclass
from bullpen.ports import Clock

ACCEPTED = timedelta(days=30)  # behind the next release
LASTS = timedelta(hours=1)  # GitHub releases a runner every few weeks
RETRY = timedelta(minutes=5)
RELEASES = GithubCall("GET", "/repos/actions/runner/releases")


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    published: datetime


class Releases:
    """The newest releases, asked for once an hour."""

    def __init__(self, client: GithubClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._look = SingleFlight(self._looked, client.flights)  # of many agents that register at once one asks
        self._known: list[Release] = []
        self._look_again = clock.now()

    async def known(self) -> list[Release]:
        """Newest first. Empty if GitHub does not list them, as on a server of one's own: then no instance is
        retired."""
        if self._clock.now() >= self._look_again:
            await self._look.result()
        return self._known

    def oldest_known(self) -> str:
        """What `oldest` would say, as far as is known already; what is not is asked for meanwhile."""
        if self._clock.now() >= self._look_again:
            self._look.begin()
        return oldest_accepted(self._known, self._clock.now())

    async def oldest(self) -> str:
        """The oldest version that GitHub accepts now; empty if it is not known.

        Without a margin: that retires idle instances in time, but where every new one is as old as they are, no run
        should fail before it must.
        """
        return oldest_accepted(await self.known(), self._clock.now())

    async def refusals(self, versions: Sequence[str], margin: float) -> dict[str, datetime]:
        """Those of the versions that GitHub refuses within `margin` seconds or already, and from when."""
        releases, end = await self.known(), self._clock.now() + timedelta(seconds=margin)
        found = {version: refused_at(version, releases) for version in versions if order(version)}
        return {version: moment for version, moment in found.items() if moment is not None and moment <= end}

    async def _looked(self) -> None:
        now = self._clock.now()
        try:
            answer = await self._client.ask(RELEASES, query={"per_page": "30"})
            with understood(RELEASES):
                self._known, self._look_again = released(answer.body), now + LASTS
        except BullpenError:
            self._look_again = now + RETRY  # what was known stays known


def released(listed: Any) -> list[Release]:
    """Public releases, newest first: no drafts, and no releases on trial."""
    found = [
        Release(str(one["tag_name"]).removeprefix("v"), moment(one["published_at"]))
        for one in rows(listed)
        if one.get("published_at") and not one.get("draft") and not one.get("prerelease")
    ]
    return sorted((one for one in found if order(one.version)), key=lambda one: order(one.version), reverse=True)


def refused_at(version: str, releases: Sequence[Release]) -> datetime | None:
    """From when on GitHub gives this version no more jobs; None while there is no newer one."""
    newer = [one.published for one in releases if order(one.version) > order(version)]
    return min(newer) + ACCEPTED if newer else None


def oldest_accepted(releases: Sequence[Release], at: datetime) -> str:
    """The oldest of these versions that is still accepted at that moment; empty if there are none."""
    accepted = [one.version for one in releases if (end := refused_at(one.version, releases)) is None or end > at]
    return accepted[-1] if accepted else ""


def order(version: str) -> tuple[int, ...]:
    """What versions are compared by; empty for what is none."""
    return tuple(map(int, version.split("."))) if re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}", version) else ()
