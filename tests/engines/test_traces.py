"""A provision is one trace at a receiver of OTLP/HTTP, and no provision waits or fails for it."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import NOW
from bullpen.config import Settings, TraceSettings
from bullpen.engines.traces import OtlpTraces, stages_of
from bullpen.errors import ConfigError, FailureCause
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.report import Lane, ProvisionReport, ReportOutcome
from bullpen.model.ticket import UsageClass
from bullpen.settings.validation import contradictions
from bullpen.wiring import opened
from engines.otlp_receiver import attributes, receiving
from free_ports import a_free_port
from server.served import CHECKOUT, PATIENCE, command, end_pool, environment

pytestmark = pytest.mark.real_loop

LANES = (
    Lane("i-1", Origin.SELECTED, picked=0.1, claimed=0.2, seen=0.3, registered=1.0, kept=True),
    Lane("i-2", Origin.SELECTED, picked=0.1, claimed=0.4, reason="no signal within 10 s", fate="terminating"),
    Lane("i-3", Origin.CREATED, launched=4.0, booted=6.0, registered=9.0, kept=True),
)
TIMINGS = {
    WorkPhase.SELECT: 2.5,
    WorkPhase.CREATE: 1.5,
    WorkPhase.REGISTER: 5.0,
    WorkPhase.ACQUIRE: 9.5,
    WorkPhase.SETTLE: 0.4,
}


def a_report(**changed: Any) -> ProvisionReport:
    report = ProvisionReport(
        id="p-1",
        run_id="4711",
        repository="acme/web",
        resource_class="small",
        usage_class=UsageClass.SPOT,
        trust_domain="acme/web",
        asked_at=NOW,
        ended_at=NOW + timedelta(seconds=10),
        outcome=ReportOutcome.MET,
        requested=2,
        selected=1,
        created=1,
        collisions=3,
        timings=TIMINGS,
        lanes=LANES,
    )
    return replace(report, **changed)


async def test_a_provision_is_a_span_with_its_stages_and_an_event_for_each_discarded_runner() -> None:
    with receiving() as receiver:
        async with aclosing(OtlpTraces(receiver.url)) as traces:
            traces.note(a_report())
        found = receiver.spans()
        assert set(found) == {"provision", "acquire", "select", "create", "register", "settle"}
        root = found["provision"]
        assert (root.end_time_unix_nano - root.start_time_unix_nano) == 10 * 10**9
        shown = attributes(root.attributes)
        assert shown["bullpen.provision.id"] == "p-1"
        assert shown["bullpen.outcome"] == "met"
        assert (shown["bullpen.selected"], shown["bullpen.created"], shown["bullpen.collisions"]) == (1, 1, 3)
        (event,) = root.events
        assert event.name == "runner discarded"
        assert (event.time_unix_nano - root.start_time_unix_nano) == 400_000_000
        assert attributes(event.attributes) == {
            "bullpen.instance.id": "i-2",
            "bullpen.origin": "selected",
            "bullpen.reached": "claimed",
            "bullpen.fate": "terminating",
            "bullpen.reason": "no signal within 10 s",
        }
        assert {name for name, span in found.items() if span.parent_span_id == root.span_id} == {"acquire", "settle"}
        inner = {name for name, span in found.items() if span.parent_span_id == found["acquire"].span_id}
        assert inner == {"select", "create", "register"}
        for stage, seconds in TIMINGS.items():
            span = found[stage.value]
            assert span.end_time_unix_nano - span.start_time_unix_nano == seconds * 10**9
            assert root.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
        assert receiver.resource()["service.name"] == "bullpen"


async def test_a_provision_that_failed_is_an_error_with_its_cause() -> None:
    with receiving() as receiver:
        async with aclosing(OtlpTraces(receiver.url)) as traces:
            traces.note(a_report(outcome=ReportOutcome.FAILED, cause=FailureCause.CAPACITY, reason="no capacity"))
        root = receiver.spans()["provision"]
        assert root.status.code == root.status.STATUS_CODE_ERROR
        assert root.status.message == "capacity"
        assert attributes(root.attributes)["bullpen.reason"] == "no capacity"


@pytest.mark.parametrize("timings", [{}, {WorkPhase.SETTLE: 99.0}, {WorkPhase.ACQUIRE: 99.0, WorkPhase.SELECT: 50.0}])
def test_stages_lie_within_the_provision_whatever_was_measured(timings: dict[WorkPhase, float]) -> None:
    stages = stages_of(a_report(timings=timings, lanes=()))
    assert set(stages) == set(timings)
    assert all(0 <= begins <= ends <= 10 for begins, ends in stages.values())


async def test_a_secret_header_goes_to_the_receiver_and_into_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=s3cret")
    with receiving() as receiver:
        async with aclosing(OtlpTraces(receiver.url)) as traces:
            traces.note(a_report())
        assert receiver.headers[0]["x-api-key"] == "s3cret"
        assert all(b"s3cret" not in body for body in receiver.bodies)


# ---- receivers in trouble


async def test_to_note_a_trace_returns_at_once_while_the_receiver_hangs() -> None:
    with receiving() as receiver:
        receiver.hangs.clear()
        traces = OtlpTraces(receiver.url)
        for _ in range(5000):  # more than the queue holds
            traces.note(a_report())
        receiver.hangs.set()
        await traces.aclose()


async def test_a_receiver_that_fails_is_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with receiving() as receiver, caplog.at_level(logging.INFO):
        receiver.status = 400
        async with aclosing(OtlpTraces(receiver.url)) as traces:
            for _ in range(3):
                traces.note(a_report())
                assert traces._provider.force_flush()
            receiver.status = 200
            traces.note(a_report())
    said = [one.getMessage() for one in caplog.records if one.name.startswith(("bullpen", "opentelemetry"))]
    assert sum("traces cannot be sent" in line for line in said) == 1
    assert sum("traces are sent again" in line for line in said) == 1


async def test_a_report_that_cannot_be_traced_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    with receiving() as receiver:
        async with aclosing(OtlpTraces(receiver.url)) as traces:
            traces.note(a_report(asked_at=None))
    assert "trace cannot be made" in caplog.text


# ---- switched on and off


def test_nothing_of_opentelemetry_is_imported_unless_it_is_switched_on(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom bullpen.config import Settings\n"
        "from bullpen.wiring import opened\n"
        "async def main():\n    async with opened(Path(sys.argv[1]), Settings()) as ports:\n"
        "        ports.traces.note(None)\n"
        "asyncio.run(main())\nassert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "home")], capture_output=True, text=True, timeout=PATIENCE
    )
    assert ran.returncode == 0, ran.stderr


async def test_a_missing_extra_is_an_error_that_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "bullpen.engines.traces")
    for name in [one for one in sys.modules if one.partition(".")[0] == "opentelemetry"]:
        monkeypatch.setitem(sys.modules, name, None)
    settings = Settings(traces=TraceSettings(endpoint="http://127.0.0.1:4318/v1/traces"))
    with pytest.raises(ConfigError, match=r"^traces\.endpoint: opentelemetry\S* is not installed$") as refused:
        async with opened(tmp_path / "home", settings):
            pytest.fail("opened")
    assert "bullpen-ci[traces]" in refused.value.remedy


@pytest.mark.parametrize(
    "endpoint", ["localhost:4318", "ftp://x/v1/traces", "http://me:pw@x/v1/traces", "http://x/?a=1"]
)
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    (found,) = contradictions(Settings(traces=TraceSettings(endpoint=endpoint)))
    assert found.startswith("traces.endpoint (")
    assert "http://localhost:4318/v1/traces" in found


@pytest.mark.slow
def test_a_command_that_provisions_sends_a_trace_and_none_fails_without_a_receiver(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def provision(run_id: str, endpoint: str) -> subprocess.CompletedProcess[str]:
        arguments = ("provision", "--run-id", run_id, "--count", "1", "--set", f"traces.endpoint={endpoint}")
        words = command(home, *arguments, program=CHECKOUT)
        return subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=PATIENCE)

    try:
        with receiving() as receiver:
            ran = provision("run-1", receiver.url)
            assert ran.returncode == 0, ran.stderr
            shown = attributes(receiver.spans()["provision"].attributes)
            assert (shown["bullpen.run.id"], shown["bullpen.created"]) == ("run-1", 1)
            assert {"create", "register", "settle"} < set(receiver.spans())
        with receiving() as receiver:
            receiver.hangs.clear()  # until the command has ended
            ran = provision("run-3", receiver.url)
            assert ran.returncode == 0, ran.stderr
        ran = provision("run-2", f"http://127.0.0.1:{a_free_port()}/v1/traces")
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr
    finally:
        end_pool(home)
