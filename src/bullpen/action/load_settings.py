"""The pool that the engines in this job work on: its settings, from all who have a say, and whose it is.

Inputs over environment over file over what refresh published over the defaults. A pool's runners register at one
repository or organisation, which refresh has settled: a job of another would wait for them for ever.
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
from bullpen.settings import Layer, Loaded, collect, load
from bullpen.settings.github import covers
from bullpen.settings.publication import Publication

CREDENTIALS = (
    "github.token",
    "github.app-id",
    "github.private-key",
    "github.installation-id",
    "github.webhook-secret",
)
UNPUBLISHED = ("aws.pool", "aws.region", "aws.endpoints", *CREDENTIALS)
"""Whoever looks the settings up has come by the first three, and credentials are nobody else's."""

OWN, PUBLISHED = "defaults of the action", "settings that refresh published"


def settings_of(asked: StepInputs, job: JobContext, environ: Mapping[str, str]) -> Loaded:
    """Raise ConfigError for what cannot be meant, and for a pool that serves other repositories.

    The working directory is the workflow's checkout, maybe a stranger's: a file there is obeyed only if it is named.
    """
    above = settings_document.document_of(asked, environ)
    published = Publication()
    if asked.mode != REFRESH and "table-name" in asked.given:
        published = _published(asked, environ, above)
    beneath = (
        Layer(PUBLISHED, published.document)
        if published.document
        else Layer(OWN, settings_document.defaults(asked, job))
    )

    def loaded(document: Mapping[str, Any]) -> Loaded:
        inputs = Layer("inputs", document)
        return load(environ, config=asked.get("config", ""), above=inputs, beneath=beneath, looks_here=False)

    try:
        found = loaded(above)
    except ConfigError as exc:
        if published.version in ("", __version__):
            raise
        versions = f"The pool's settings were published by Bullpen {published.version}, and this is {__version__}"
        raise ConfigError(str(exc), remedy=f"{versions}: use the same version.") from exc
    if asked.mode != REFRESH and found.settings.on_github:
        _must_serve(found.settings.github.scope, job)
    if "spot-fallback" in asked.given:
        found = loaded(settings_document.with_fallback(asked, above, found.settings))
    return found


async def check_ours(ports: Ports, loaded: Loaded, asked: StepInputs, job: JobContext) -> None:
    """Raise ConfigError if the pool's runners register elsewhere than the settings say, as far as they do not say so
    on purpose. Provision on AWS has seen it in what was published, and may not look into the vault."""
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
            f"{job.repository}: the pool is that of {scope}, whose runners would register here from now on",
            remedy="Refresh it from there, take another table-name, or say github.scope in a bullpen.toml: that of the"
            " organisation serves both.",
        )
    if scope:
        _must_serve(scope, job)


def published_of(loaded: Loaded) -> dict[str, Any]:
    """What others need in order to work on the same pool: all that is set, and no credentials."""
    document: dict[str, Any] = {}
    for name, found in loaded.values.items():
        if found.origin == "default" or name in UNPUBLISHED:
            continue
        table, _, key = name.rpartition(".")
        above, _, kind = table.partition(".")
        branch = document.setdefault(above, {})
        (branch.setdefault(kind, {}) if kind else branch)[key] = found.value
    return document


def _must_serve(scope: str, job: JobContext) -> None:
    if not covers(scope, job.repository):
        raise ConfigError(
            f"{job.repository}: the pool's runners register at {scope}, and get no jobs of other repositories",
            remedy="Give this repository a pool of its own, or refresh the pool with github.scope of the organisation"
            " in a bullpen.toml.",
        )


def _published(asked: StepInputs, environ: Mapping[str, str], above: Mapping[str, Any]) -> Publication:
    """What stands in the pool's table, which is found by what the inputs, the environment and the file say of AWS."""
    config = asked.get("config", "")
    values, file = collect(environ, config=config, above=Layer("inputs", above), looks_here=False)
    of_aws = {name.removeprefix("aws."): one.value for name, one in values.items() if name.startswith("aws.")}
    from bullpen.wiring import published_settings

    found = asyncio.run(published_settings(Settings(aws=convert(of_aws, Aws))))
    if not found.document and file is None and "ami" not in asked.given:
        raise ConfigError(
            f"table-name {asked.given['table-name']}: its table holds no settings",
            remedy="Run this action once with mode: refresh, or name a bullpen.toml in config.",
        )
    return found


async def _published_scope(settings: Settings) -> str:
    from bullpen.wiring import published_settings

    with suppress(ConfigError):  # there is no table yet
        document = (await published_settings(settings)).document
        return str(document.get("github", {}).get("scope", ""))
    return ""


async def _registered_at(ports: Ports, settings: Settings) -> str:
    from bullpen.wiring import registration_url

    url = await registration_url(ports)
    return url.removeprefix(f"{settings.github.url.rstrip('/')}/")
