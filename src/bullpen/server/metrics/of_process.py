"""The series of one server: plain numbers that its parts keep. Reading them asks nothing and waits for nothing."""

import asyncio

import bullpen
from bullpen.config import Settings
from bullpen.controllers import Service
from bullpen.ports import Ports
from bullpen.scale_sets.job_tally import JobGroup
from bullpen.server.heartbeats import Heartbeats
from bullpen.server.metrics.samples import Bounded, Samples

MOST_RESOURCES = 20  # of GitHub's limits


def put_process(samples: Samples, ports: Ports, service: Service, heartbeats: Heartbeats, streams: int) -> None:
    samples.put("build_info", 1, bullpen.__version__)
    samples.put("event_streams", streams)
    for result in ("accepted", "rejected", "refused"):
        samples.put("heartbeats_total", getattr(heartbeats, result), result)
    samples.put("leases_resurrected_total", heartbeats.resurrected)
    counts = service.counts
    samples.put("leases_lost_total", counts.leases_lost)
    samples.put("leases_suspect", counts.suspects)
    samples.put("leases_braked", counts.braked)
    samples.put("workers_cleaned_up_total", counts.workers_cleaned_up)
    samples.put("jobs_rescheduled_total", counts.jobs_rescheduled)
    samples.put("jobs_given_up_total", counts.jobs_given_up)
    samples.put("debts_paid_total", counts.debts_paid)
    _put_loops(samples, ports, service)
    _put_traffic(samples, ports)


def _put_loops(samples: Samples, ports: Ports, service: Service) -> None:
    time, now = asyncio.get_running_loop().time(), ports.clock.now()
    for loop in service.loops:
        pace, name = loop.pace, loop.name
        samples.put("loop_turns_total", pace.turns, name)
        samples.put("loop_failures_total", pace.failures, name)
        samples.put("loop_failing", loop.failing(now) is not None, name)
        if loop.turns:
            samples.put("loop_last_turn_seconds", loop.turns[-1].seconds, name)
        if loop.quiet_since is not None:
            samples.put("loop_last_turn_age_seconds", time - loop.quiet_since, name)
        if pace.succeeded_at is not None:
            samples.put("loop_last_success_age_seconds", time - pace.succeeded_at, name)


def _put_traffic(samples: Samples, ports: Ports) -> None:
    # A copy: threads of an engine count as well.
    for (service, call, result), count in list(ports.traffic.requests.items()):
        samples.put("engine_requests_total", count, service, call, result.value)
    bounded, now = Bounded((), MOST_RESOURCES), ports.clock.now()
    for limit in list(ports.traffic.limits().values()):
        resource = bounded(limit.resource)
        samples.put("github_requests_limit", limit.limit, resource)
        # Once the window has ended, everything is allowed again, although no answer of GitHub has said so yet.
        samples.put("github_requests_remaining", limit.remaining if limit.resets_at > now else limit.limit, resource)
        samples.put("github_requests_reset_timestamp_seconds", limit.resets_at.timestamp(), resource)


def put_sets(samples: Samples, settings: Settings, service: Service) -> None:
    """The series that GitHub's own controller has too, of the sets that this server listens to. `namespace` is the
    pool's prefix of runner names; an enterprise is none of Bullpen's scopes, so its label is empty."""
    owner, _, repository = settings.github.scope.partition("/")
    for name, holder in list(service.sets.held.items()):
        labels = (name, settings.runner_pool, owner, repository, "")
        rules, counts = holder.scale_set.rules, holder.listener.statistics
        samples.put("gha_min_runners", rules.min, *labels)
        samples.put("gha_max_runners", rules.max, *labels)
        if counts is None:
            continue
        samples.put("gha_assigned_jobs", counts.assigned, *labels)
        samples.put("gha_running_jobs", counts.running, *labels)
        samples.put("gha_registered_runners", counts.registered, *labels)
        samples.put("gha_busy_runners", counts.busy, *labels)
        samples.put("gha_idle_runners", counts.idle, *labels)
        jobs = max(counts.assigned - holder.record.stored.phantom, 0)
        samples.put("gha_desired_runners", min(rules.max, rules.min + jobs), *labels)
    tally = service.sets.tally
    for started, count in tally.started.items():
        samples.put("gha_started_jobs_total", count, *_labels(started))
    for completed, count in tally.completed.items():
        samples.put("gha_completed_jobs_total", count, *_labels(completed), completed.result)
    for group, histogram in tally.startup.items():
        samples.put("gha_job_startup_duration_seconds", histogram, *_labels(group))
    for group, histogram in tally.execution.items():
        samples.put("gha_job_execution_duration_seconds", histogram, *_labels(group), group.result)


def _labels(group: JobGroup) -> tuple[str, str, str, str]:
    return group.organization, group.repository, "", group.event
