"""Records as answers show them."""

from collections.abc import Sequence
from datetime import datetime

from bullpen.model.control import Control
from bullpen.model.instance import Instance
from bullpen.model.job import Job
from bullpen.model.signal import Pulse
from bullpen.model.ticket import format_time
from bullpen.model.transition import StoryLine
from bullpen.model.worker import Card, Worker
from bullpen.ports import FailingLoop
from bullpen.server.schema import ControlAnswer, FailingAnswer, InstanceAnswer, JobAnswer, StoryLineAnswer, WorkerAnswer


def of_job(job: Job, story: Sequence[StoryLine] = ()) -> JobAnswer:
    return JobAnswer(
        id=job.id,
        run_id=job.run_id,
        name=job.name,
        index=job.index,
        command=job.command,
        state=job.state.value,
        result=job.result.value,
        exit_code=job.exit_code,
        reason=job.reason,
        fence=job.fence,
        worker=job.worker,
        epoch=job.epoch,
        instance_id=job.instance_id,
        losses=job.losses,
        cancelling=job.cancelling,
        timeout_seconds=job.timeout,
        capability=job.capability,
        side_effects=job.side_effects,
        queued_at=time_of(job.queued_at),
        finished_at=time_of(job.finished_at),
        story=[of_line(line) for line in story],
    )


def of_instance(one: Instance, pulse: Pulse | None = None, story: Sequence[StoryLine] = ()) -> InstanceAnswer:
    return InstanceAnswer(
        id=one.id,
        state=one.state.value,
        run_id=one.run_id,
        round=one.round,
        version=one.version,
        threshold=format_time(one.threshold),
        attested=one.attested,
        trust_domain=one.trust_domain,
        resource_class=one.resource_class,
        instance_type=one.instance_type,
        usage_class=one.usage_class.value,
        cpu=one.cpu,
        mem=one.mem,
        provision_id=one.provision_id,
        repository=one.repository,
        signal=pulse.signal.kind.value if pulse and pulse.signal else None,
        heartbeat_at=time_of(pulse.heartbeat.at) if pulse and pulse.heartbeat else None,
        story=[of_line(line) for line in story],
    )


def of_worker(worker: Worker, card: Card, story: Sequence[StoryLine] = ()) -> WorkerAnswer:
    return WorkerAnswer(
        key=worker.id,
        state=worker.state.value,
        instance_id=worker.instance_id,
        domain=worker.domain,
        epoch=worker.epoch,
        token=worker.token,
        lease_seconds=worker.lease,
        deadline=time_of(worker.deadline),
        cleanup_at=time_of(worker.cleanup_at),
        beat_at=time_of(worker.beat_at),
        owes_reschedule=worker.owes_reschedule,
        capabilities=card.capabilities,
        build_id=card.build_id,
        host=card.host,
        pid=card.pid,
        agent_version=card.agent_version,
        extras=dict(card.extras),
        leaving_at=time_of(worker.leaving),
        story=[of_line(line) for line in story],
    )


def of_control(control: Control) -> ControlAnswer:
    return ControlAnswer(
        name=control.id,
        state=control.state.value,
        why=control.why,
        held_since=time_of(control.held_since),
        recovered_at=time_of(control.recovered_at),
    )


def of_failing(one: FailingLoop) -> FailingAnswer:
    return FailingAnswer(one.process, one.loop, format_time(one.since), one.error)


def of_line(line: StoryLine) -> StoryLineAnswer:
    return StoryLineAnswer(line.version, line.step, line.state, format_time(line.at), line.by, line.why)


def time_of(at: datetime | None) -> str | None:
    return format_time(at) if at else None
