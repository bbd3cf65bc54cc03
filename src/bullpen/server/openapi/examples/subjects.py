"""What an example is, and the run, the job and the instance that most examples are about."""

from typing import Any

from bullpen.lazy_dataclass import dataclass
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import Result as JobResult
from bullpen.model.job import State as JobState
from bullpen.model.signal import Kind as SignalKind
from bullpen.model.ticket import UsageClass
from bullpen.schema import (
    instance,
    job,
    story,
)


@dataclass(frozen=True, slots=True)
class Example:
    answer: Any = None
    request: Any = None
    refusal: Any = None


BEGAN, ENDED, LATER = "2026-11-16T16:01:34Z", "2026-11-16T16:01:35Z", "2026-11-16T16:12:34Z"
RUN, INSTANCE, JOB, PROVISION = "4711", "i-6a545d338e2efa60", "j-7cb708c3f456da5a", "p-ffde469822cdb88a"
LINE = story.StoryLineAnswer(1, "submit", "queued", BEGAN, "operator dashboard", "")

SUBMITTED = job.JobAnswer(
    id=JOB,
    run_id=RUN,
    name="unit",
    index=0,
    command=("make", "test"),
    state=JobState.QUEUED,
    result=JobResult.NONE,
    exit_code=None,
    reason="",
    fence=0,
    worker="",
    epoch=0,
    instance_id="",
    losses=0,
    cancelling=False,
    timeout_seconds=0.0,
    capability="",
    side_effects=False,
    source="",
    artifacts=(),
    queued_at=BEGAN,
    finished_at=None,
)
RUNNER = instance.InstanceAnswer(
    id=INSTANCE,
    state=InstanceState.RUNNING,
    run_id=RUN,
    round="0f1e2d3c4b5a6978",
    version=3,
    threshold=LATER,
    attested=False,
    trust_domain="default",
    image_generation=1,
    resource_class="small",
    instance_type="local.small",
    usage_class=UsageClass.ON_DEMAND,
    cpu=2,
    mem=2048,
    provision_id=PROVISION,
    repository="",
    offered_at=None,
    owes=None,
    purge_at=None,
    signal=SignalKind.REG_OK,
    heartbeat_at=ENDED,
)
