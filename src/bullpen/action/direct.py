"""Direct: the engines work in this job, with what its environment may do on AWS; as the command line does it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import convert

from bullpen.action import result, told
from bullpen.action.inputs import Asked
from bullpen.action.job import Job
from bullpen.action.result import Result
from bullpen.action.table import PROVISION, REFRESH
from bullpen.cli.answers import of_outcome
from bullpen.cli.session import perform
from bullpen.config import Aws, Settings
from bullpen.errors import ConfigError, Interrupted
from bullpen.model.ticket import UsageClass
from bullpen.model.trust import trust_domain
from bullpen.ports import Ports
from bullpen.provision.outcome import Outcome, Request, Tell
from bullpen.settings import Layer, Loaded, collect, load

DEFAULT_HOME = ".bullpen"
SECRET = ("github.token", "github.private-key", "github.webhook-secret")
UNPUBLISHED = ("aws.pool", "aws.region", "aws.endpoints", *SECRET)
"""Whoever looks the settings up has come by the first three, and a secret is nobody else's."""


def run(asked: Asked, job: Job, label: str, environ: Mapping[str, str]) -> Result:
    """Provision, release or refresh. Raise BullpenError; Interrupted if a signal came before there was a result."""
    loaded = settings_of(asked, job, environ)
    home = Path(asked.get("home") or environ.get("BULLPEN_HOME") or DEFAULT_HOME)
    if asked.mode == PROVISION:
        return _provision(asked, job, label, home, loaded.settings)
    if asked.mode == REFRESH:
        return _refresh(asked, home, loaded)
    return _release(label, home, loaded.settings)


def settings_of(asked: Asked, job: Job, environ: Mapping[str, str]) -> Loaded:
    """Inputs over environment over file over what refresh published over the defaults. Raise ConfigError."""
    above = Layer("inputs", told.document_of(asked, job, environ))
    beneath = Layer("defaults of mode refresh", told.defaults(asked))
    config = asked.get("config", "")
    if asked.mode != REFRESH and "table-name" in asked.given:
        values, file = collect(environ, config=config, above=above)
        told_here = {name.removeprefix("aws."): one.value for name, one in values.items() if name.startswith("aws.")}
        from bullpen.wiring import published_settings

        published = asyncio.run(published_settings(Settings(aws=convert(told_here, Aws))))
        if not published and file is None and "ami" not in asked.given:
            raise ConfigError(
                f"table-name {asked.given['table-name']}: its table holds no settings",
                remedy="Run this action once with mode: refresh, or name a bullpen.toml in config.",
            )
        beneath = Layer("settings that refresh published", published)
    return load(environ, config=config, above=above, beneath=beneath)


def _provision(asked: Asked, job: Job, label: str, home: Path, settings: Settings) -> Result:
    request = _request(asked, job, label, settings)
    from bullpen.provision import provision

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> Outcome:
        return await provision(ports, settings, request, stop=stop, tell=tell)

    outcome = perform(home, settings, work, stops=True)
    return result.of_provision(
        label, of_outcome(outcome), reason=outcome.reason, remedy=outcome.remedy, exit_code=outcome.exit_code
    )


def _request(asked: Asked, job: Job, label: str, settings: Settings) -> Request:
    asks = told.request_of(asked)
    count, minutes = asked.get("instance-count", 1), asked.get("max-runtime-min")
    if count > settings.limits.max_count:
        said = asked.spoken.get("instance-count", "instance-count")
        raise ConfigError(f"{said} {count}: must be at most {settings.limits.max_count} (limits.max-count)")
    needs = settings.requirements(
        asks["resource-class"],
        UsageClass(asks["usage-class"]),
        tuple(asks["allowed-instance-types"]),
        trust_domain=trust_domain(job.repository, job.event, job.ref, job.actor),
        repository=job.repository,
    )
    runtime = settings.timings.max_runtime if minutes is None else 60.0 * minutes
    return Request(label, count, needs, max_runtime=runtime, allow_partial=asked.get("allow-partial", False))


def _release(label: str, home: Path, settings: Settings) -> Result:
    from bullpen.release import Released, release

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> tuple[Released, bool]:
        return await release(ports, settings, label, stop=stop, tell=tell), stop.is_set()

    released, interrupted = perform(home, settings, work, stops=True)
    answer = {
        "offered": released.offered,
        "terminated": released.terminated,
        "pending": released.pending,
        "busy": released.busy,
    }
    found = result.of_release(label, answer, released.duration)
    return _interrupted(found) if interrupted else found


def _interrupted(found: Result) -> Result:
    remedy = "Nothing is lost: what still cleans goes on offer by itself."
    return replace(found, reason="cancelled", remedy=remedy, exit_code=Interrupted.exit_code)


def _refresh(asked: Asked, home: Path, loaded: Loaded) -> Result:
    from bullpen.refresh import Action, Hindered, refresh
    from bullpen.wiring import publish_settings

    settings, dry_run = loaded.settings, asked.get("dry-run", False)

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> tuple[list[Action], Hindered | None]:
        hindered = None
        try:
            actions = await refresh(ports, settings, dry_run=dry_run, tell=tell)
        except Hindered as exc:  # a class that cannot be launched is no reason to leave the others without settings
            hindered, actions = exc, exc.actions
        if settings.engines.pool == "aws" and not dry_run:
            await publish_settings(settings, published_of(loaded))
        return actions, hindered

    actions, hindered = perform(home, settings, work)
    rows = tuple((one.what, one.subject, one.reason) for one in actions)
    if hindered is None:
        return Result(REFRESH, actions=rows)
    return Result(REFRESH, reason=str(hindered), remedy=hindered.remedy, exit_code=hindered.exit_code, actions=rows)


def published_of(loaded: Loaded) -> dict[str, Any]:
    """What others need in order to work on the same pool: all that is set, and no secret."""
    document: dict[str, Any] = {}
    for name, found in loaded.values.items():
        if found.origin == "default" or name in UNPUBLISHED:
            continue
        table, _, key = name.rpartition(".")
        above, _, kind = table.partition(".")
        branch = document.setdefault(above, {})
        (branch.setdefault(kind, {}) if kind else branch)[key] = found.value
    return document
