"""The settings of the pool for the engines in this job, and the check that the pool serves this repository.

Inputs win over the environment, then the file, then the settings that refresh published, then the defaults. The runners
of a pool register at one repository or organisation: jobs of another one would wait for them for ever.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec import convert

from bullpen import __version__
from bullpen.action import settings_document
from bullpen.action.input_specs import REFRESH
from bullpen.action.inputs import StepInputs
from bullpen.action.job_context import JobContext
from bullpen.config import Aws, Settings
from bullpen.errors import ConfigError
from bullpen.ports import Ports
from bullpen.settings import NOTHING, Layer, Loaded, Publication, collect, load, settings_file
from bullpen.settings.github import covers
from bullpen.settings.setting import put

CREDENTIALS = tuple(f"github.{key}" for key in ["token", "app-id", "private-key", "installation-id", "webhook-secret"])
UNPUBLISHED = ("aws.pool", "aws.region", "aws.endpoints", "traces.endpoint", *CREDENTIALS)
"""Not published: a reader needs the first three to find the table, a receiver of traces is of the network of its
process, and credentials must not be shared."""

OWN, PUBLISHED = "defaults of the action", "settings that refresh published"


def settings_of(asked: StepInputs, job: JobContext, environ: Mapping[str, str]) -> Loaded:
    """The settings. Raise ConfigError for invalid ones, and for a pool that serves other repositories.

    The working directory is the workflow's checkout, which may come from an untrusted pull request: a bullpen.toml in
    it is read only if the workflow names it.
    """
    above = settings_document.document_of(asked, environ)
    published = Publication()
    if asked.mode != REFRESH and "table-name" in asked.given:
        published = _published(asked, environ, above)
    beneath = Layer(PUBLISHED, published.document)
    if not published.document:
        beneath = Layer(OWN, settings_document.defaults(asked, job))

    def loaded(document: Mapping[str, Any]) -> Loaded:
        inputs = Layer("inputs", document)
        return load(environ, config=asked.get("config", ""), above=inputs, beneath=beneath, looks_here=False)

    try:
        found = loaded(above)
    except ConfigError as exc:
        if published.version in ("", __version__):
            raise
        versions = f"Bullpen {published.version} published the pool's settings, and this is Bullpen {__version__}"
        raise ConfigError(str(exc), remedy=f"Use the same version for both: {versions}.") from exc
    if asked.mode != REFRESH and found.settings.on_github:
        _must_serve(found.settings.github.scope, job)
    if "spot-fallback" in asked.given:
        found = loaded(settings_document.with_fallback(asked, above, found.settings))
    return found


async def check_scope(ports: Ports, loaded: Loaded, asked: StepInputs, job: JobContext) -> None:
    """Raise ConfigError if the pool's runners register elsewhere than at the default scope. A scope that is set
    explicitly is not checked. On AWS provision has checked the published scope, and may not read the vault."""
    settings = loaded.settings
    if not settings.on_github or loaded.values["github.scope"].origin != OWN:
        return
    if settings.engines.pool != "aws":
        scope = await _registered_at(ports, settings)
    elif asked.mode == REFRESH:
        scope = await _published_scope(settings)
    else:
        return
    if scope and asked.mode == REFRESH and not covers(settings.github.scope, scope):
        raise ConfigError(
            f"{job.repository}: the pool belongs to {scope}; this refresh would move its runners to this repository",
            remedy="Refresh it from a workflow of its owner, or use another table-name. To share the pool, set"
            " github.scope to the organisation in a bullpen.toml.",
        )
    if scope:
        _must_serve(scope, job)


def published_of(loaded: Loaded) -> dict[str, Any]:
    """The settings that other processes need for the same pool: every setting that is set, without credentials."""
    document: dict[str, Any] = {}
    for name, found in loaded.values.items():
        if found.origin == "default" or name in UNPUBLISHED:
            continue
        put(document, name, found.value)
    return document


def _must_serve(scope: str, job: JobContext) -> None:
    if not covers(scope, job.repository):
        raise ConfigError(
            f"{job.repository}: the pool's runners register at {scope}, and get no jobs of other repositories",
            remedy="Create a pool for this repository, or refresh the pool with github.scope set to the organisation in"
            " a bullpen.toml.",
        )


def _published(asked: StepInputs, environ: Mapping[str, str], above: Mapping[str, Any]) -> Publication:
    """The settings in the pool's table, found with the AWS settings of inputs, environment and file."""
    file = settings_file(environ, asked.get("config", ""), looks_here=False)
    values = collect(environ, file, (), Layer("inputs", above), NOTHING)
    of_aws = {name.removeprefix("aws."): one.value for name, one in values.items() if name.startswith("aws.")}
    from bullpen.one_off_calls import published_settings

    found = asyncio.run(published_settings(Settings(aws=convert(of_aws, Aws))))
    if not found.document and file is None and "ami" not in asked.given:
        raise ConfigError(
            f"table-name {asked.given['table-name']}: the table has no settings",
            remedy="Run this action once with mode: refresh, or set config to a bullpen.toml.",
        )
    return found


async def _published_scope(settings: Settings) -> str:
    from bullpen.one_off_calls import published_settings

    with suppress(ConfigError):  # there is no table yet
        document = (await published_settings(settings)).document
        return str(document.get("github", {}).get("scope", ""))
    return ""


async def _registered_at(ports: Ports, settings: Settings) -> str:
    """Where the agents of this machine register: refresh stores it with their token."""
    from bullpen.one_off_calls import registration_url

    url = await registration_url(ports)
    return url.removeprefix(f"{settings.github.url.rstrip('/')}/")
