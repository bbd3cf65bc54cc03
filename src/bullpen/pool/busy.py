"""Busy: which instances execute a job of GitHub, and are therefore left alone.

GitHub gives a job to any registered runner, at any moment until the runner has deregistered. So a process that wants to
give an instance back, or to end it, checks here first. A job may still begin right after the check, so the agent
decides last:

    check ──────────────── give it back ──▶ the agent deregisters, cleans, attests
                ▲
                └ a job begins ─▶ the agent reports that it is busy, and does all that once the job has ended

The job that a heartbeat names counts while the agent is alive. The job of a dead agent is lost, and does not keep its
instance. Where the CI is Bullpen's own, no instance is busy in this sense, and nothing is read: jobs end with their
run. Only where a runner is taken from a run that goes on, `executing` says which ones have a job of it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.model import instance as instances
from bullpen.model.activity import Activity, parse
from bullpen.model.instance import CLAIMED, CREATED, IDLE, Instance
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.scale_set import set_of_run_id
from bullpen.model.signal import Pulse
from bullpen.model.transition import Change
from bullpen.pool.watcher import Watcher
from bullpen.ports import Ports

LATEST = 20
"""Provisions of a label that are read to see how long its jobs may last."""

JOBS_PAGE = 500

CHECK_AGAIN = 15.0
"""Seconds until a debt that a job holds up is checked again: jobs take minutes, and each check costs some reads."""


async def at_work(ports: Ports, settings: Settings, ids: Sequence[str], *, hurry: bool = False) -> dict[str, Activity]:
    """The jobs that these instances execute, by id. Instances that are free or dead are missing. See `among`."""
    if not settings.on_github or not ids:
        return {}
    return await among(ports, settings, await ports.signals.read(ids), hurry=hurry)


async def executing(ports: Ports, settings: Settings, run_id: str) -> set[str]:
    """The instances that execute a job of the run, where the CI is Bullpen's own."""
    found: set[str] = set()
    after = ""
    while not settings.on_github and (page := await ports.jobs.unfinished(run_id, JOBS_PAGE, after)):
        found |= {job.instance_id for job in page if job.state is JOB_RUNNING}
        after = page[-1].id
    return found


async def outlasting(ports: Ports, settings: Settings, ids: Sequence[str]) -> dict[str, Activity]:
    """The instances that are still busy after one more heartbeat each: the last one may be older than the job's end."""
    loop = asyncio.get_running_loop()
    until = loop.time() + settings.timings.heartbeat
    while (found := await at_work(ports, settings, ids)) and loop.time() < until:
        await ports.signals.wait(min(settings.timings.tick_longest, until - loop.time()))
    return found


async def among(
    ports: Ports, settings: Settings, pulses: Mapping[str, Pulse], *, hurry: bool = False
) -> dict[str, Activity]:
    """The jobs that instances execute, by their pulses.

    A clock may be skewed, so an agent that names a job and seems silent is watched for a heartbeat first. In a hurry it
    counts as busy: the process that pays the remaining debt checks again.
    """
    named = activities(settings, pulses)
    now, within = ports.clock.now(), settings.timings.alive
    quiet = [id for id in named if not pulses[id].is_recent(now, within)]
    if quiet and not hurry:
        living = await Watcher(ports.signals, ports.clock, settings.timings).signs_of_life(quiet)
        named = {id: activity for id, activity in named.items() if id not in quiet or id in living}
    return named


def activities(settings: Settings, pulses: Mapping[str, Pulse]) -> dict[str, Activity]:
    """The jobs that the last heartbeats name. An agent that sent one may be dead by now."""
    if not settings.on_github:
        return {}
    beats = {id: pulse.heartbeat for id, pulse in pulses.items() if pulse.heartbeat is not None}
    return {id: found for id, beat in beats.items() if (found := parse(beat.activity)) is not None}


def is_excused(settings: Settings, one: Instance, pulse: Pulse) -> bool:
    """True if its agent failed to deregister only because a job runs, or ran a moment ago."""
    signal = pulse.signal
    return settings.on_github and signal is not None and signal.round == one.round and signal.is_busy


async def spare(
    ports: Ports,
    settings: Settings,
    held: Iterable[Instance],
    busy: Mapping[str, Activity],
    *,
    by: str,
    lasts: float = 0,
) -> None:
    """Extend the thresholds of the busy ones: an agent ends itself a minute after its threshold.

    By `lasts` seconds, the maximum runtime of its scale set, or the usual one; again while its heartbeat names a job,
    and no longer than its run asked for, because an agent may miss the end of its job. An instance that runs has that
    time already, and no more.
    """
    now = ports.clock.now()
    lasts = max(lasts, settings.timings.max_runtime)
    of_sets = await _runtimes_of_sets(ports, busy.values())
    longest = {id: max(lasts, of_sets.get(job.label, 0.0)) for id, job in busy.items()}
    short = [one for one in held if one.id in busy and _is_short(one, now, longest[one.id])]
    limits = {one.id: await _limit(ports, one, busy[one.id], now, longest[one.id]) for one in short}
    changes = [
        _sparing(one, busy[one.id], now, min(now + timedelta(seconds=longest[one.id]), limits[one.id]), by)
        for one in short
        if limits[one.id] > max(now, one.threshold)
    ]
    if changes:
        # A Conflict: another process moved it, and knows better.
        await ports.records.apply_each(changes)


def describe(activity: Activity) -> str:
    """What the instance does, for people."""
    if not activity.is_named:
        return f"runner {activity.runner} prepares a job"
    job = f"job {activity.job}" if activity.job else "a job"
    return f"it executes {job} of {activity.repository}, run {activity.run}, attempt {activity.attempt}"


def _is_short(one: Instance, now: datetime, lasts: float) -> bool:
    return (
        one.state in (CREATED, CLAIMED, IDLE)
        and not one.attested
        and one.threshold <= now + timedelta(seconds=lasts / 2)
    )


async def _runtimes_of_sets(ports: Ports, jobs: Iterable[Activity]) -> dict[str, float]:
    """How long a job of each scale set may last, by label; empty if no set has one of these jobs."""
    if all(set_of_run_id(job.label) is None for job in jobs):
        return {}
    return {one.run_id: one.rules.max_runtime for one in (await ports.records.scale_sets()).values()}


async def _limit(ports: Ports, one: Instance, activity: Activity, now: datetime, lasts: float) -> datetime:
    """Until when a job can last there: it began before the instance was given back, or before its provision's
    deadline."""
    of_run = set_of_run_id(activity.label) is None  # a scale set has no provisions: `lasts` has its maximum runtime
    latest = await ports.records.told_provisions(activity.label, LATEST) if of_run else []
    own = await ports.records.provision(one.provision_id) if one.provision_id else None
    began = one.owes.due_at if one.owes is not None else own.deadline if own is not None else now
    return began + timedelta(seconds=max(lasts, *(found.max_runtime for found in latest), 0.0))


def _sparing(one: Instance, activity: Activity, now: datetime, until: datetime, by: str) -> Change[Instance]:
    return instances.spare(one, instances.Spared(at=now, by=by, why=describe(activity), until=until))
