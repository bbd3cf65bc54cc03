"""When a runner counts as mute: no beat for as long as it takes to declare its worker lost."""

from datetime import datetime, timedelta

from bullpen.config import Settings
from bullpen.model.signal import Heartbeat


def is_mute(settings: Settings, last: Heartbeat | None, now: datetime) -> bool:
    """True if it has beaten, and not for that long."""
    lease = settings.timings.lease
    # The sweeper confirms for at least a third of the lease: a replacement before that would be in vain.
    patience = timedelta(seconds=lease + max(settings.liveness.confirm, lease / 2 + 2.0))
    return last is not None and last.at + patience <= now
