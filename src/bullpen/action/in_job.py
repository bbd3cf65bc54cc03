"""Without a server: the engines run in this job with its AWS credentials, as they do on the command line."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bullpen.action import result, settings_document, workflow_commands
from bullpen.action.input_specs import PROVISION, REFRESH
from bullpen.action.inputs import StepInputs
from bullpen.action.job_context import JobContext
from bullpen.action.load_settings import check_scope, published_of, settings_of
from bullpen.action.result import StepResult
from bullpen.cli.session import perform
from bullpen.config import Settings
from bullpen.errors import BullpenError, ConfigError, Interrupted
from bullpen.model.progress import Tell
from bullpen.model.ticket import UsageClass
from bullpen.model.trust import trust_domain
from bullpen.ports import Ports
from bullpen.provision.outcome import Outcome, Request
from bullpen.settings import Loaded

DEFAULT_HOME = ".bullpen"


def run(asked: StepInputs, job: JobContext, label: str, environ: Mapping[str, str]) -> StepResult:
    """Provision, release or refresh. An error is raised only if nothing was done; otherwise it is in the result."""
    loaded = settings_of(asked, job, environ)
    home = Path(asked.get("home") or environ.get("BULLPEN_HOME") or DEFAULT_HOME)
    try:
        if asked.mode == PROVISION:
            return _provision(asked, job, label, home, loaded)
        if asked.mode == REFRESH:
            return _refresh(asked, job, home, loaded)
        return _release(label, home, loaded.settings)
    except ConfigError:
        raise
    except BullpenError as exc:
        return StepResult(
            asked.mode, label, reason=str(exc), remedy=exc.remedy, exit_code=exc.exit_code, is_known=False
        )


def _provision(asked: StepInputs, job: JobContext, label: str, home: Path, loaded: Loaded) -> StepResult:
    request = _request(asked, job, label, loaded.settings)
    from bullpen.provision import provision

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> Outcome:
        await check_scope(ports, loaded, asked, job)
        return await provision(ports, loaded.settings, request, stop=stop, tell=tell)

    outcome = perform(home, loaded.settings, work, stops=True)
    from msgspec import to_builtins

    from bullpen.schema.provision import provision_of

    answer = to_builtins(provision_of(outcome))
    return result.of_provision(label, answer, outcome.reason, outcome.remedy, outcome.exit_code)


def _request(asked: StepInputs, job: JobContext, label: str, settings: Settings) -> Request:
    asks = settings_document.request_of(asked)
    count, minutes = asked.get("instance-count", 1), asked.get("max-runtime-min")
    if count > settings.limits.max_count:
        said = asked.spoken.get("instance-count", "instance-count")
        raise ConfigError(f"{said} {count}: must be at most {settings.limits.max_count} (limits.max-count)")
    needs = settings.requirements(
        asks["resource-class"],
        UsageClass(asks["usage-class"]),
        tuple(asks["allowed-instance-types"]),
        trust_domain=trust_domain(job.repository, job.repository_id, job.event, job.ref, job.actor),
        repository=job.repository,
    )
    runtime = settings.timings.max_runtime if minutes is None else 60.0 * minutes
    partial, wait = asked.get("allow-partial", False), asked.get("wait", 0.0)
    return Request(label, count, needs, max_runtime=runtime, allow_partial=partial, wait=wait)


def _release(label: str, home: Path, settings: Settings) -> StepResult:
    from bullpen.release import ReleaseOutcome, release

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> tuple[ReleaseOutcome, bool]:
        return await release(ports, settings, label, stop=stop, tell=tell), stop.is_set()

    released, interrupted = perform(home, settings, work, stops=True)
    from msgspec import to_builtins

    from bullpen.schema.release import release_of

    found = result.of_release(label, to_builtins(release_of(released)), released.duration)
    if not interrupted:
        return found
    remedy = "Nothing is lost: runners that are still being cleaned go on offer by themselves."
    return replace(found, reason="cancelled", remedy=remedy, exit_code=Interrupted.exit_code)


def _refresh(asked: StepInputs, job: JobContext, home: Path, loaded: Loaded) -> StepResult:
    from bullpen.one_off_calls import publish_settings
    from bullpen.refresh import Action, Hindered, refresh

    settings, dry_run = loaded.settings, asked.get("dry-run", False)

    async def work(ports: Ports, stop: asyncio.Event, tell: Tell) -> tuple[list[Action], Hindered | None]:
        as_of, hindered = ports.clock.now(), None
        await check_scope(ports, loaded, asked, job)
        try:
            actions = await refresh(ports, settings, dry_run=dry_run, tell=tell)
        except Hindered as exc:  # the settings are published even if one class cannot be launched
            hindered, actions = exc, exc.actions
        publishes = settings.engines.pool == "aws" and not dry_run
        if publishes and not await publish_settings(settings, published_of(loaded), as_of):
            workflow_commands.say("another refresh began later and has published its settings; they stay")
        return actions, hindered

    actions, hindered = perform(home, settings, work)
    done = StepResult(REFRESH, actions=tuple((one.what, one.subject, one.reason) for one in actions), dry_run=dry_run)
    if hindered is None:
        return done
    return replace(done, reason=str(hindered), remedy=hindered.remedy, exit_code=hindered.exit_code)
