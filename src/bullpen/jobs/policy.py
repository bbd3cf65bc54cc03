"""The settings that jobs go by, for `bullpen.model.job_policy`."""

from bullpen.config import Settings
from bullpen.model.job_policy import JobPolicy


def of_settings(settings: Settings) -> JobPolicy:
    liveness = settings.liveness
    return JobPolicy(verify=liveness.verify, purge=settings.timings.purge, losses=liveness.losses)
