"""Which lost jobs wait for the runner that replaces the lost one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bullpen.model.job import QUEUED, RUNNING, Job, absent
from bullpen.run.replacement import KeptJobs, Replacements


class Supply:
    """The runners of the run, as the test says."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = list(ids)

    async def lasting(self) -> list[str]:
        return self.ids

    async def top_up(self, count: int, stop: object) -> str:
        return ""


@pytest.mark.parametrize("every", [0.0, 2.0])
async def test_a_runner_that_replaces_one_is_promised_to_one_job_also_between_two_counts(every: float) -> None:
    supply = Supply(["a2", "b"])  # a is lost, a2 replaces it, b works
    replacements = Replacements(supply, 2, lambda report: None, True, every)
    kept = KeptJobs(replacements)
    of_a = replace(_job("j-a"), state=QUEUED, losses=1)
    of_b = replace(_job("j-b"), state=RUNNING, instance_id="b")
    assert await _postponed(replacements, kept, 100.0, [of_a, of_b], {"a", "b"}) == {"j-a": 0.0}
    of_a = replace(of_a, state=RUNNING, instance_id="a2")
    of_b = replace(of_b, state=QUEUED, instance_id="", losses=1)
    supply.ids = ["a2"]  # now b is lost, too
    (kept_for,) = (await _postponed(replacements, kept, 100.5, [of_a, of_b], {"a", "b", "a2"})).values()
    assert kept_for > 0
    await replacements.close()


async def test_a_runner_is_not_promised_again_while_its_job_is_still_queued() -> None:
    replacements = Replacements(Supply(["a2"]), 2, lambda report: None, True, 0.0)
    kept = KeptJobs(replacements)
    of_a, of_b = (replace(_job(id), state=QUEUED, losses=1) for id in ("j-a", "j-b"))
    assert await _postponed(replacements, kept, 100.0, [of_a], {"a"}) == {"j-a": 0.0}
    assert (await _postponed(replacements, kept, 100.5, [of_a, of_b], {"a", "b"}))["j-b"] > 0
    await replacements.close()


def _job(id: str) -> Job:
    return absent(id, "4711", ("true",))


async def _postponed(
    replacements: Replacements, kept: KeptJobs, time: float, jobs: Sequence[Job], used: set[str]
) -> dict[str, float]:
    await replacements.replace_lost(time, jobs, used, ())
    return {job.id: seconds for job, seconds in kept.to_postpone(time, jobs)}
