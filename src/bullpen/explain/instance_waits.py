"""Why an instance is not at work yet: it boots, registers, or is being cleaned. One on offer waits for nothing."""

from datetime import timedelta

from bullpen.explain.pool_view import PoolView, age
from bullpen.explain.provision_waits import Because, boot_wait
from bullpen.model.instance import CLAIMED, CREATED, IDLE, Instance
from bullpen.model.wait import ExplainedWait, WaitCause, WaitKind

OVERDUE = timedelta(seconds=30)
"""After a debt is due: a server pays one within seconds."""


async def explain_instance(view: PoolView, one: Instance) -> ExplainedWait | None:
    """None if it waits for nothing."""
    if one.state is CREATED:
        why = await boot_wait(view, one)
    elif one.state is CLAIMED:
        why = Because(
            WaitCause.BOOTING,
            f"claimed for run {one.run_id}, and registering",
            f"It registers within {view.settings.timings.registration:g} s, or is ended and another one is taken.",
        )
    elif one.state is IDLE and not one.attested:
        why = await _cleaning(view, one)
    else:
        return None
    story = await view.story(one.id)
    return ExplainedWait(
        subject=one.id,
        kind=WaitKind.INSTANCE,
        cause=why.cause,
        because=why.because,
        next=why.next,
        run_id=one.run_id,
        repository=one.repository,
        resource_class=one.resource_class,
        since=story[-1].at if story else None,
        seconds_left=why.seconds_left,
    )


async def _cleaning(view: PoolView, one: Instance) -> Because:
    pulse = (await view.pulses([one.id])).get(one.id)
    heard = view.is_heard(pulse)
    is_overdue = one.owes is not None and one.owes.due_at + OVERDUE <= view.now
    if is_overdue and not await view.services():
        assert one.owes is not None
        return Because(
            WaitCause.NO_SERVER,
            f"its cleaning was due {age(view.now, one.owes.due_at):.0f} s ago, and no server runs that would finish it",
            "Start `bullpen serve`, or run `bullpen refresh`.",
        )
    silent = "" if heard else "; its agent is silent"
    return Because(
        WaitCause.CLEANING,
        f"its runner deregisters, and its agent cleans it{silent}",
        f"It goes on offer once it has attested, or is ended at {one.threshold:%H:%M:%S}Z.",
    )
