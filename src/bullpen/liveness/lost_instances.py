"""Instances of the pool whose worker is lost: the sweep has watched it stand still, with all its protection.

A run would claim such an instance and wait for it in vain. So the pool neither counts nor keeps it: it is ended, and
replaced like any other that is missing (refresh/warm.py). Only the sweep's verdict counts here. A heartbeat that merely
looks old may be a wrong clock, and many that fall silent at once may be a failure of the receiving process
(protection.py).

The same goes for a member of a scale set that has no job: its set gets another. A member that GitHub gave a job to is
left to bullpen.workflows, whether its worker reported that job or died before it could. Once that loss is settled, the
job has ended: the machine may still live, but its runner had one job, and no agent registers it again.
"""

from collections.abc import Sequence

from bullpen.model.activity import names_job
from bullpen.model.instance import CLAIMED, CREATED, RUNNING, Instance
from bullpen.model.set_member import set_of
from bullpen.ports import Ports

MOST = 10_000  # lost workers looked through


def is_unowned(one: Instance) -> bool:
    """True of an instance that is on offer, or that boots ahead of any run: nothing else would notice its silence.

    One that is being cleaned is watched by the release that awaits its attestation (pool/offering.py).
    """
    return one.is_claimable or (one.state is CREATED and one.is_pending)


def is_member(one: Instance) -> bool:
    """True of an instance that serves a scale set: it belongs to no run that would notice its silence."""
    return one.state in (CLAIMED, RUNNING) and set_of(one) is not None


async def lost_instances(ports: Ports, among: Sequence[Instance]) -> dict[str, str]:
    """Why each of these that has lost its worker does not count, by id.

    An agent may have gone on under another key: the newest beat of its instance decides. One that runs a job of another
    CI is left to bullpen.workflows.
    """
    members = {one.id for one in among if is_member(one)}
    unowned = members | {one.id for one in among if is_unowned(one)}
    lost = [one for one in await ports.workers.lost(MOST) if one.instance_id in unowned] if unowned else []
    if not lost:
        return {}
    pulses = await ports.signals.read(list(dict.fromkeys(one.instance_id for one in lost)))
    given = await _given_a_job(ports) if any(one.instance_id in members for one in lost) else set()
    found: dict[str, str] = {}
    for one in lost:
        newest = pulses[one.instance_id].heartbeat
        is_settled = one.instance_id in members and not one.owes_reschedule
        has_job = names_job(one.activity) or one.instance_id in given
        if one.beat_at is None or (has_job and not is_settled):
            continue
        if newest is None or newest.at <= one.beat_at:
            found[one.instance_id] = f"its worker is lost: no beat since {one.beat_at:%H:%M:%S}"
    return found


async def _given_a_job(ports: Ports) -> set[str | None]:
    """The instances to whose runner GitHub gave a job that no heartbeat has named yet."""
    sessions = await ports.records.set_sessions()
    return {ports.ci.instance_of(job.runner) for one in sessions.values() for job in one.started}
