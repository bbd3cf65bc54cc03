"""Every series of `/metrics`. docs/metrics.md describes the same ones; a test compares both with a scrape.

A series of the *pool* has the same value at every server, because all read it from the store: use `max`, not `sum`. One
of the *process* is of the server that answers: use `sum`. One of the *holder* comes from the server that listens to a
scale set; the others do not have it.
"""

from enum import StrEnum

from bullpen.lazy_dataclass import dataclass


class SeriesKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class SeriesSource(StrEnum):
    POOL = "pool"
    PROCESS = "process"
    HOLDER = "holder"


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    kind: SeriesKind
    source: SeriesSource
    text: str
    labels: tuple[str, ...] = ()


OF_SET = ("name", "namespace", "organization", "repository", "enterprise")
OF_JOB = ("organization", "repository", "enterprise", "event_name")
OF_ENDED_JOB = (*OF_JOB, "job_result")


def _pool(name: str, text: str, *labels: str, kind: SeriesKind = SeriesKind.GAUGE) -> Family:
    return Family(f"bullpen_{name}", kind, SeriesSource.POOL, text, labels)


def _process(name: str, text: str, *labels: str, kind: SeriesKind = SeriesKind.GAUGE) -> Family:
    return Family(f"bullpen_{name}", kind, SeriesSource.PROCESS, text, labels)


def _holder(name: str, text: str, labels: tuple[str, ...] = OF_SET, kind: SeriesKind = SeriesKind.GAUGE) -> Family:
    return Family(f"gha_{name}", kind, SeriesSource.HOLDER, text, labels)


CLASS = "resource_class"
COUNTER, HISTOGRAM = SeriesKind.COUNTER, SeriesKind.HISTOGRAM

FAMILIES = (
    _process("build_info", "Always 1; the label has the version of the server.", "version"),
    _process("store_up", "Whether this server could read the store for this scrape: 1 or 0."),
    _process("store_read_seconds", "How long the read of the store for this scrape took."),
    # ---- the pool
    _pool("instances", "Instances by class and state; terminated ones until their end is certain.", CLASS, "state"),
    _pool("instances_claimable", "Instances that a run could claim now.", CLASS),
    _pool(
        "instances_idle_target",
        "Instances that the pool keeps on offer now, by settings and schedules.",
        CLASS,
    ),
    _pool("instances_max", "Largest number of live instances of the class; the pool's where it has none.", CLASS),
    _pool("pool_instances_max", "Largest number of live instances of the pool."),
    _pool("tickets", "Offers in the queue of the class, expired ones included on SQS.", CLASS),
    _pool("paused", "Whether the class is paused: 1 or 0.", CLASS),
    _pool("price_per_hour_dollars", "What the instances cost in an hour, by the prices of the settings.", CLASS),
    _pool("instances_unpriced", "Instances of types without a price; they are missing in the price per hour.", CLASS),
    _pool("provisions_open", "Provisions that are not decided, at most 1000.", CLASS),
    _pool("provisions_waiting", "Provisions that wait for room under a cap, at most 500.", CLASS),
    _pool("oldest_wait_seconds", "How long the oldest open provision, or job of a scale set, has waited.", CLASS),
    _pool("runs_with_queued_jobs", "Runs with queued jobs of Bullpen's own CI, at most 50."),
    _pool("job_oldest_wait_seconds", "How long the oldest queued job of these runs has waited."),
    _pool("debts_due", "Debts of instances and workers that are due, at most 1000.", "kind"),
    _pool("debt_overdue_seconds", "How long the oldest debt of an instance is overdue."),
    _pool("workers", "Workers by state, tombstones excluded.", "state"),
    _pool("hold_active", "Whether no worker is declared lost, because all are silent: 1 or 0."),
    _pool("domains_braked", "Failure domains in which the brake released a loss during the last minute."),
    _pool("servers", "Processes of `bullpen serve` that noted in the store that they live."),
    _pool("scale_sets", "Scale sets that a server should listen to, by whether one does.", "state"),
    # ---- provisions, from the reports of all processes
    _pool("provisions_total", "Provisions that ended, by outcome.", CLASS, "outcome", kind=COUNTER),
    _pool("provisions_failed_total", "Provisions that failed, by cause.", CLASS, "cause", kind=COUNTER),
    _pool("provision_runners_total", "Runners that provisions got, by origin.", CLASS, "origin", kind=COUNTER),
    _pool("provision_requested_runners_total", "Runners that provisions asked for.", CLASS, kind=COUNTER),
    _pool("provision_duration_seconds", "Seconds from request to answer.", CLASS, "outcome", kind=HISTOGRAM),
    _pool("provision_stage_seconds", "Seconds that provisions waited, by stage.", "stage", kind=HISTOGRAM),
    _pool("claim_collisions_total", "Claims that another process was faster with.", CLASS, kind=COUNTER),
    _pool("pickup_verdicts_total", "Verdicts on tickets that provisions received.", CLASS, "verdict", kind=COUNTER),
    _pool(
        "runners_discarded_total",
        "Runners that a provision did not keep, by how far they came and what became of them.",
        *("origin", "reached", "fate"),
        kind=COUNTER,
    ),
    # ---- this process
    _process("heartbeats_total", "Heartbeats received, by result.", "result", kind=COUNTER),
    _process(
        "leases_lost_total",
        "Workers that this server declared lost, except those of instances that the pool has ended.",
        kind=COUNTER,
    ),
    _process("leases_resurrected_total", "Lost workers that beat again at this server.", kind=COUNTER),
    _process("leases_suspect", "Workers past their lease, in the last sweep."),
    _process("leases_braked", "Silent workers that only the brake keeps from being declared lost, in the last sweep."),
    _process("workers_cleaned_up_total", "Lost workers whose time to come back has passed.", kind=COUNTER),
    _process("jobs_rescheduled_total", "Jobs of lost workers that were given to others.", kind=COUNTER),
    _process("jobs_given_up_total", "Jobs that failed because they lost too many workers or had none.", kind=COUNTER),
    _process("debts_paid_total", "Debts that this server paid.", kind=COUNTER),
    _process("loop_turns_total", "Turns of a loop.", "loop", kind=COUNTER),
    _process("loop_failures_total", "Turns of a loop that failed.", "loop", kind=COUNTER),
    _process("loop_last_turn_seconds", "How long the last turn of a loop took.", "loop"),
    _process("loop_last_turn_age_seconds", "How long ago a loop last ended a turn, or began its first one.", "loop"),
    _process("loop_last_success_age_seconds", "How long ago a turn of a loop last succeeded.", "loop"),
    _process("loop_failing", "Whether every turn of a loop has failed for 30 seconds: 1 or 0.", "loop"),
    _process("event_streams", "Open streams of events."),
    _process(
        "engine_requests_total", "Requests to services, by call and result.", "service", "call", "result", kind=COUNTER
    ),
    _process("github_requests_limit", "Requests that GitHub allows in its current window.", "resource"),
    _process("github_requests_remaining", "Requests that GitHub still allows in its current window.", "resource"),
    _process("github_requests_reset_timestamp_seconds", "When the window of GitHub ends, as Unix time.", "resource"),
    # ---- scale sets, with the names of GitHub's own controller
    _holder("assigned_jobs", "Jobs assigned to the scale set: those that wait, and those that run."),
    _holder("running_jobs", "Jobs of the scale set that run."),
    _holder("registered_runners", "Runners registered for the scale set."),
    _holder("busy_runners", "Registered runners that execute a job."),
    _holder("idle_runners", "Registered runners that execute no job."),
    _holder("min_runners", "Runners that wait registered, by the settings."),
    _holder("max_runners", "Largest number of runners, by the settings."),
    _holder("desired_runners", "Runners that the scale set should have now."),
    _holder("started_jobs_total", "Jobs that started on a runner.", OF_JOB, COUNTER),
    _holder("completed_jobs_total", "Jobs that ended on a runner.", OF_ENDED_JOB, COUNTER),
    _holder("job_startup_duration_seconds", "Seconds from a job's assignment to its start.", OF_JOB, HISTOGRAM),
    _holder("job_execution_duration_seconds", "Seconds from a job's start to its end.", OF_ENDED_JOB, HISTOGRAM),
)

BY_NAME = {one.name: one for one in FAMILIES}
