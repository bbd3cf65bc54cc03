"""Provisions as OpenTelemetry traces, sent by OTLP over HTTP. Imported only if `traces.endpoint` is set.

    provision ────────────────────────────────────────  events: each discarded runner, at the last thing it did
      └ acquire ───────────────────────────
          └ select ───────
          └ create        ──────────
          └ register                ──────
      └ settle                               ────

A trace is made of the report, after the provision has ended. The lengths of the stages are exact. Selection, creation
and registration run side by side: where they begin follows from what the runners did.

The SDK sends from a thread of its own, out of a queue of bounded length. A receiver that is slow, away or broken costs
the traces, and nothing else.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

import bullpen
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.structured_log import get_logger

SENDING = 2.0  # seconds for one request to the receiver, repeats included
CLOSING = 3.0  # seconds that a process waits at its end for traces that are not sent yet
QUEUE = 2048  # spans; of more, new ones are dropped
DELAY = 1.0  # seconds until a trace is sent: several go together
MOST_EVENTS = 100  # discarded runners of one trace
PREFIX = "bullpen"
MILESTONES = ("registered", "booted", "launched", "seen", "claimed", "picked")

log = get_logger("bullpen.traces")

Attributes = dict[str, str | int | float]


class OtlpTraces:
    """`endpoint` is the URL of a receiver, as `http://localhost:4318/v1/traces`. Headers that it asks for, which may be
    secret, are read from OTEL_EXPORTER_OTLP_HEADERS."""

    def __init__(self, endpoint: str) -> None:
        # Its own lines come with every attempt; `_LoggedExporter` says the same once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource.create({"service.name": PREFIX, "service.version": bullpen.__version__})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = _LoggedExporter(OTLPSpanExporter(endpoint=endpoint, timeout=SENDING))
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=QUEUE, schedule_delay_millis=DELAY * 1000)
        )
        self._tracer = self._provider.get_tracer(PREFIX, bullpen.__version__)

    def note(self, report: ProvisionReport) -> None:
        try:
            self._trace(report)
        except Exception as exc:  # whatever it is: the provision has ended well, and stays so
            log.error("trace cannot be made", provision=report.id, error=exc)

    async def aclose(self) -> None:
        """Send what waits, for a few seconds at most."""
        ending = threading.Thread(target=self._provider.shutdown, name="bullpen-traces-end", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, CLOSING)

    def _trace(self, report: ProvisionReport) -> None:
        root = self._begin("provision", None, report.asked_at, SpanKind.SERVER, _attributes(report))
        for lane in _discarded(report):
            attributes: Attributes = {
                f"{PREFIX}.instance.id": lane.instance_id,
                f"{PREFIX}.origin": lane.origin.value,
                f"{PREFIX}.reached": _reached(lane)[0],
                f"{PREFIX}.fate": lane.fate,
                f"{PREFIX}.reason": lane.reason,
            }
            root.add_event("runner discarded", attributes, _nanos(_after(report, _reached(lane)[1])))
        stages = stages_of(report)
        spans = {WorkPhase.ACQUIRE: root, WorkPhase.SETTLE: root}
        for stage, (begins, ends) in stages.items():
            parent = root if stage in (WorkPhase.ACQUIRE, WorkPhase.SETTLE) else spans.get(WorkPhase.ACQUIRE, root)
            span = self._begin(stage.value, parent, _after(report, begins), SpanKind.INTERNAL, {})
            if stage is WorkPhase.ACQUIRE:
                spans[stage] = span
            span.end(_nanos(_after(report, ends)))
        if report.outcome is ReportOutcome.FAILED:
            root.set_status(StatusCode.ERROR, report.cause.value)
        root.end(_nanos(report.ended_at))

    def _begin(
        self, name: str, parent: Span | None, at: datetime, kind: SpanKind, attributes: Mapping[str, str | int | float]
    ) -> Span:
        context = set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, kind, attributes, start_time=_nanos(at))


class _LoggedExporter(SpanExporter):
    """Says once that the receiver does not take traces, and once that it does again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            remedy = "See traces.endpoint and the log of the receiver. Provisions go on without traces."
            log.warning("traces cannot be sent", spans=len(spans), remedy=remedy)
        elif self._fails and not fails:
            log.info("traces are sent again")
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def stages_of(report: ProvisionReport) -> dict[WorkPhase, tuple[float, float]]:
    """When each stage began and ended, in seconds since the provision was asked for; within the provision, in order."""
    whole, lasted = report.waited, report.timings
    settles = whole - min(lasted.get(WorkPhase.SETTLE, 0.0), whole)
    acquires = max(settles - lasted.get(WorkPhase.ACQUIRE, 0.0), 0.0)
    created = [lane for lane in report.lanes if lane.origin is Origin.CREATED]
    launched = [lane.launched for lane in created if lane.launched is not None]
    registered = [lane.registered for lane in created if lane.registered is not None]
    ends = {
        WorkPhase.ACQUIRE: settles,
        WorkPhase.SELECT: acquires + lasted.get(WorkPhase.SELECT, 0.0),
        WorkPhase.CREATE: max(launched, default=acquires + lasted.get(WorkPhase.CREATE, 0.0)),
        WorkPhase.REGISTER: max(registered, default=settles),
        WorkPhase.SETTLE: whole,
    }
    found = {}
    for stage, end in ends.items():
        if stage in lasted:
            end = min(max(end, 0.0), whole)
            found[stage] = (max(end - lasted[stage], 0.0), end)
    return found


def _attributes(report: ProvisionReport) -> Attributes:
    return {
        f"{PREFIX}.provision.id": report.id,
        f"{PREFIX}.run.id": report.run_id,
        f"{PREFIX}.repository": report.repository,
        f"{PREFIX}.resource_class": report.resource_class,
        f"{PREFIX}.usage_class": report.usage_class.value,
        f"{PREFIX}.trust_domain": report.trust_domain,
        f"{PREFIX}.outcome": report.outcome.value,
        f"{PREFIX}.cause": report.cause.value,
        f"{PREFIX}.reason": report.reason,
        f"{PREFIX}.requested": report.requested,
        f"{PREFIX}.selected": report.selected,
        f"{PREFIX}.created": report.created,
        f"{PREFIX}.collisions": report.collisions,
        f"{PREFIX}.tickets.taken": report.taken,
        f"{PREFIX}.tickets.put_back": report.put_back,
        f"{PREFIX}.tickets.dropped": report.dropped,
    }


def _discarded(report: ProvisionReport) -> list[Lane]:
    return [lane for lane in report.lanes if not lane.kept][:MOST_EVENTS]


def _reached(lane: Lane) -> tuple[str, float]:
    """The last thing that happened to a runner, and when."""
    times = [(name, getattr(lane, name)) for name in MILESTONES]
    return next(((name, at) for name, at in times if at is not None), ("none", 0.0))


def _after(report: ProvisionReport, seconds: float) -> datetime:
    return report.asked_at + timedelta(seconds=seconds)


def _nanos(at: datetime) -> int:
    """Whole microseconds, as nanoseconds since 1970."""
    since = at - datetime.fromtimestamp(0, at.tzinfo)
    return (since // timedelta(microseconds=1)) * 1000
