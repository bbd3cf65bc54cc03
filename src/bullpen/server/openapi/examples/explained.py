"""Why something waits, what a provision would do, and evidence."""

import msgspec

from bullpen.model.instance import State as InstanceState
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.ticket import RefusalRule, UsageClass
from bullpen.model.wait import SubjectKind, TimelineOutcome, WaitCause, WaitKind
from bullpen.schema import (
    plan,
    queue,
    story,
    why,
)
from bullpen.server.openapi.examples.subjects import BEGAN, ENDED, INSTANCE, JOB, LINE, PROVISION, RUN, Example

FULL = "limits.max-instances is 2; the total would be 3; in use: 2 small running (run 4710 holds 2)"
REFUSED = why.CandidateAnswer("i-0f3c7a1b5d9e2468", InstanceState.RUNNING, RefusalRule.TAKEN, "serves run 4710")
WAIT = why.WaitAnswer(
    subject=RUN,
    kind=WaitKind.RUN,
    run_id=RUN,
    repository="acme/widgets",
    resource_class="small",
    since=BEGAN,
    cause=WaitCause.CAP,
    because=FULL,
    next="It goes on as soon as it can get 1 runner, and gives up at 16:12:34Z at the latest.",
    seconds_left=None,
    refusals=[why.RefusalCount(RefusalRule.TAKEN, 1)],
    candidates=[REFUSED],
)
TIMELINE = why.TimelineAnswer(
    provision_id=PROVISION,
    asked_at=BEGAN,
    ended_at=ENDED,
    seconds=0.742,
    outcome=TimelineOutcome.MET,
    reason="",
    stages={"picked": 0.011, "claimed": 0.02, "seen": 0.1, "registered": 0.731},
    phases={WorkPhase.SELECT: 0.731},
    lanes=[
        why.LaneAnswer(
            instance_id=INSTANCE,
            origin=Origin.SELECTED,
            picked=0.011,
            claimed=0.02,
            seen=0.1,
            launched=None,
            booted=None,
            registered=0.731,
            first_job=None,
            kept=True,
            reason="",
            fate=None,
        )
    ],
)
STORIES = [story.StoryAnswer(JOB, "queued", None, None, None, [LINE])]

EXAMPLES = {
    "showStories": Example(story.StoryList(JOB, [story.StoryAnswer(JOB, "queued", None, None, None, [LINE])])),
    "explainSubject": Example(
        why.WhyAnswer(RUN, SubjectKind.RUN, f"{RUN} waits: {FULL}", [WAIT], TIMELINE, STORIES),
    ),
    "planProvision": Example(
        plan.PlanAnswer(
            run_id=RUN,
            requested=2,
            serving=[],
            would_claim=[plan.PlannedClaim(INSTANCE, "small", "m7g.large", UsageClass.ON_DEMAND)],
            would_end=[],
            would_launch=plan.PlannedLaunch(1, "small", UsageClass.ON_DEMAND, ["m7g.*"], 1, 1024, 1),
            refusals=[why.RefusalCount(RefusalRule.TAKEN, 1)],
            refused=[REFUSED],
            price_per_hour=0.1632,
            missing_prices=[],
            caps=[plan.PlannedCap("limits.max-instances", 100, 2, 3)],
            idle_target=plan.PlannedTarget("classes.small.schedule", 1, 1, 0, "mon-fri 08:00-18:00 Europe/Berlin"),
            blocked_by=None,
        ),
        plan.PlanRun(count=2, run_id=RUN),
    ),
    "showQueue": Example(
        queue.QueueAnswer(
            waits=[msgspec.structs.replace(WAIT, candidates=[])],
            more=0,
            unmatched=[],
            latencies=[queue.LatencyAnswer("small", "acme/widgets", 12, 0.7, 41.2, 48.0, 20.0)],
            data_since=BEGAN,
        )
    ),
    "readEvidence": Example("BYTES"),
}
