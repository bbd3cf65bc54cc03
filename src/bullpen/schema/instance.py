"""An instance: its record, what its agent last reported, and its story."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, field

from bullpen.model.activity import Activity
from bullpen.model.instance import Instance
from bullpen.model.instance import State as InstanceState
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.signal import Pulse
from bullpen.model.ticket import UsageClass
from bullpen.model.transition import StoryLine
from bullpen.schema.base import AnswerBody, Time, filled, time_of
from bullpen.schema.story import CiJobAnswer, DebtAnswer, StoryLineAnswer, ci_job_of, debt_of, lines_of

if TYPE_CHECKING:
    from bullpen.inventory import InstanceView


class InstanceAnswer(AnswerBody, frozen=True):
    """`threshold` is until when it may stay in its state. `pid` is its agent's process, known only to `bullpen status`
    on the machine where it runs. Events and lists leave out `story`, events also what the agent reported."""

    id: Annotated[str, Meta(description="Id of the instance.")]
    state: Annotated[InstanceState, Meta(description="State of the instance.")]
    run_id: Annotated[str, Meta(description="Run that it serves; empty if none.")]
    round: Annotated[str, Meta(description="Round of the instance, drawn again whenever its owner changes.")]
    version: Annotated[int, Meta(description="Number of changes of the record.")]
    threshold: Annotated[Time, Meta(description="Until when it may stay in its state. Later it is ended.")]
    attested: Annotated[bool, Meta(description="Whether it has proven that it is clean, and is on offer.")]
    trust_domain: Annotated[str, Meta(description="Trust domain whose runs may use it.")]
    image_generation: Annotated[
        int, Meta(description="Generation of the image that it was launched from; 0 once it is drained.")
    ]
    resource_class: Annotated[str, Meta(description="Resource class.")]
    instance_type: Annotated[str, Meta(description="Type of the machine.")]
    usage_class: Annotated[UsageClass, Meta(description="How the machine is paid for.")]
    cpu: Annotated[int, Meta(description="Processors.")]
    mem: Annotated[int, Meta(description="Memory in MiB.")]
    provision_id: Annotated[str, Meta(description="Provision that launched it, or claimed it last.")]
    repository: Annotated[str, Meta(description="Repository of the run; jobs of other repositories are refused.")]
    offered_at: Annotated[Time | None, Meta(description="When it was put on offer; null if it is not.")]
    owes: Annotated[DebtAnswer | None, Meta(description="Work that is still to be done for it; null if none.")]
    purge_at: Annotated[Time | None, Meta(description="When the record is removed; null while the instance lives.")]
    pid: Annotated[
        int | None,
        Meta(description="Process id of its agent. Only `bullpen status` knows it, on the machine where it runs."),
    ] = None
    signal: Annotated[SignalKind | None, Meta(description="Last signal of its agent; null if there is none.")] = None
    heartbeat_at: Annotated[Time | None, Meta(description="When its agent last beat; null if never.")] = None
    leaving_at: Annotated[
        Time | None, Meta(description="When its machine is going to be taken away; null if that is not known.")
    ] = None
    silent: Annotated[
        bool, Meta(description="Whether its agent has been silent long enough to declare its worker lost.")
    ] = False
    job: Annotated[
        CiJobAnswer | None, Meta(description="Job of a CI with jobs of its own that it runs now; null if none.")
    ] = None
    story: Annotated[
        list[StoryLineAnswer], Meta(description="Its last steps, oldest first. Lists and events leave them out.")
    ] = field(default_factory=list)


class InstanceList(AnswerBody, frozen=True):
    """`next` is where the next page begins; empty at the end."""

    instances: Annotated[list[InstanceAnswer], Meta(description="The instances of this page, by id.")]
    next: Annotated[str, Meta(description="`after` of the next page; empty at the end.")]


def instance_of(
    one: Instance,
    pulse: Pulse | None = None,
    *,
    pid: int | None = None,
    leaving: datetime | None = None,
    silent: bool = False,
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
        silent=silent,
        job=ci_job_of(activity),
        story=lines_of(story),
    )


def instance_of_view(view: "InstanceView") -> InstanceAnswer:
    return instance_of(
        view.instance, view.pulse, pid=view.pid, leaving=view.leaving, silent=view.silent, activity=view.activity
    )
