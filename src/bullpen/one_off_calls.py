"""Single calls to an engine that the settings name, without opening the pool: to check the CI, to publish settings.

As the wiring does, this module picks engines and imports each where it calls it.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bullpen.config import Settings
from bullpen.ports import Ports
from bullpen.ports.health import Finding, Limit
from bullpen.settings import Publication
from bullpen.wiring import needing_aws

if TYPE_CHECKING:
    from bullpen.engines.aws.infrastructure.shared_settings import Published
    from bullpen.engines.github.client import GithubClient


async def registration_url(ports: Ports) -> str:
    """The page of GitHub at which the agents of a pool register, as refresh left it beside their registration token;
    empty where it left none."""
    from bullpen.engines.github.infrastructure import SECRET

    secret = await ports.vault.read(SECRET)
    return str(json.loads(secret.content).get("url", "")) if secret is not None else ""


def _github_client(settings: Settings) -> AbstractAsyncContextManager["GithubClient"]:
    from bullpen.engines.github.client import GithubClient
    from bullpen.engines.system import SystemClock

    return aclosing(GithubClient(settings.github, SystemClock()))


async def check_ci(settings: Settings) -> None:
    """Raise ConfigError if the CI can never be asked anything as the settings are; asks nothing, opens no pool."""
    if settings.on_github:
        async with _github_client(settings) as client:
            client.check()


async def rate_limits(settings: Settings) -> list[Limit]:
    """What the CI still allows the pool's credentials; empty where it sets no limits. Raise as a call does:
    PermissionDenied, Unavailable, ConfigError."""
    if not settings.on_github:
        return []
    async with _github_client(settings) as client:
        return await client.rate_limits()


async def published_settings(settings: Settings) -> Publication:
    """What refresh has published of a pool's settings on AWS, as tables and keys."""
    async with _published(settings) as published:
        return await published.read()


async def publish_settings(settings: Settings, document: Mapping[str, Any], as_of: datetime) -> bool:
    """Publish settings without secrets in the pool's table; False if later ones stand there."""
    async with _published(settings) as published:
        return await published.write(document, as_of)


@asynccontextmanager
async def _published(settings: Settings) -> AsyncIterator["Published"]:
    with needing_aws():
        from bullpen.engines.aws import session
    from bullpen.engines.aws.dynamodb.table import TableClient
    from bullpen.engines.aws.infrastructure.shared_settings import Published
    from bullpen.engines.system import SystemChance

    async with session.opened(settings.aws) as cloud:
        yield Published(TableClient(cloud, SystemChance()))


async def examine_ci(settings: Settings) -> list[Finding]:
    """What decides whether the CI can give jobs, and what to do where it cannot; opens no pool, and never raises."""
    if not settings.on_github:
        return []
    from bullpen.engines.github.doctor import examine
    from bullpen.engines.github.releases import Releases
    from bullpen.engines.system import SystemClock

    async with _github_client(settings) as client:
        return await examine(client, settings, Releases(client, SystemClock()))


def iam_policy(settings: Settings, whose: str, account: str, role: str, launch: bool = False) -> dict[str, Any]:
    """The IAM policy of the control plane, the instances or the workflows of a pool on AWS; `launch` is for workflows
    that launch machines themselves."""
    from bullpen.engines.aws.infrastructure import policies

    place = policies.place_of(settings, account, role)
    if whose == "workflow":
        return policies.workflow(place, launch=launch)
    return policies.instance(place) if whose == "instance" else policies.control_plane(place)


def terraform_variables(settings: Settings) -> dict[str, Any]:
    """What the Terraform module needs to make what refresh would make."""
    with needing_aws():
        from bullpen.engines.aws.infrastructure.terraform import variables

    return variables(settings)
