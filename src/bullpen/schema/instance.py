"""An instance: its record, what its agent last reported, and its story."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import field

from bullpen.inventory import InstanceView
from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.instance import State as InstanceState
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.signal import Pulse
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import StoryLine
from bullpen.schema.base import AnswerBody, filled, time_of
from bullpen.schema.story import CiJobAnswer, DebtAnswer, StoryLineAnswer, ci_job_of, debt_of, lines_of


class InstanceAnswer(AnswerBody, frozen=True):
    """`threshold` is until when it may stay in its state. `pid` is its agent's process, known only to `bullpen status`
    on the machine where it runs. Events and lists leave out `story`, events also what the agent reported."""

    id: str
    state: InstanceState
    run_id: str
    round: str
    version: int
    threshold: str
    attested: bool
    trust_domain: str
    image_generation: int
    resource_class: str
    instance_type: str
    usage_class: UsageClass
    cpu: int
    mem: int
    provision_id: str
    repository: str
    offered_at: str | None
    owes: DebtAnswer | None
    purge_at: str | None
    pid: int | None = None
    signal: SignalKind | None = None
    heartbeat_at: str | None = None
    leaving_at: str | None = None
    job: CiJobAnswer | None = None
    story: list[StoryLineAnswer] = field(default_factory=list)


class InstanceList(AnswerBody, frozen=True):
    """`next` is where the next page begins; empty at the end."""

    instances: list[InstanceAnswer]
    next: str


def instance_of(
    one: Instance,
    pulse: Pulse | None = None,
    *,
    pid: int | None = None,
    leaving: datetime | None = None,
    activity: Activity | None = None,
    story: Sequence[StoryLine] = (),
) -> InstanceAnswer:
    return filled(
        InstanceAnswer,
        one,
        owes=debt_of(one.owes),
        pid=pid,
        signal=pulse.signal.kind if pulse and pulse.signal else None,
        heartbeat_at=time_of(pulse.heartbeat.at) if pulse and pulse.heartbeat else None,
        leaving_at=time_of(leaving),
        job=ci_job_of(activity),
        story=lines_of(story),
    )


def instance_of_view(view: InstanceView) -> InstanceAnswer:
    return instance_of(view.instance, view.pulse, pid=view.pid, leaving=view.leaving, activity=view.activity)
