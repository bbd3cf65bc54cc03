"""What is known of a job that a runner was given is forgotten only when no rescue can need it."""

from datetime import UTC, datetime, timedelta

from bullpen.model.set_session import STARTED_LIMIT, StartedJob
from bullpen.scale_sets.started_jobs import UNSETTLED, RunnerWord, StartedJobs

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNER = "bullpen.i-1.abc.1"


def a_job(id: str = "j-1", runner: str = RUNNER, at: datetime = NOW) -> StartedJob:
    return StartedJob(id, runner, "acme/widgets", "4711", "build", at)


def instance_of(runner: str) -> str | None:
    return runner.split(".")[1]


def started(*jobs: StartedJob, heard_at: float = 100.0) -> StartedJobs:
    made = StartedJobs((), instance_of)
    for job in jobs:
        made.begin(job, heard_at)
    return made


def kept(jobs: StartedJobs) -> list[str]:
    return [job.id for job in jobs.all()]


def test_a_message_alone_ends_no_entry() -> None:
    jobs = started(a_job())
    jobs.complete("j-1")
    assert kept(jobs) == ["j-1"]


def test_a_heartbeat_that_names_the_job_ends_its_entry() -> None:
    jobs = started(a_job(), a_job("j-2", "bullpen.i-2.abc.1"))
    jobs.bound({RUNNER})
    assert kept(jobs) == ["j-2"]


def test_a_later_heartbeat_that_names_another_runner_of_the_instance_ends_it() -> None:
    jobs = started(a_job())
    jobs.hear({"i-1": RunnerWord(RUNNER, 101.0), "i-2": RunnerWord("bullpen.i-2.abc.1", 101.0)})
    assert kept(jobs) == ["j-1"]
    jobs.hear({"i-1": RunnerWord("bullpen.i-1.abc.2", 101.0)})
    assert kept(jobs) == []


def test_a_later_heartbeat_without_a_runner_ends_it_only_after_the_message_that_the_job_completed() -> None:
    jobs = started(a_job())
    jobs.hear({"i-1": RunnerWord("", 101.0)})
    assert kept(jobs) == ["j-1"]
    jobs.complete("j-1")
    jobs.hear({"i-1": RunnerWord("", 102.0)})
    assert kept(jobs) == []


def test_a_heartbeat_from_before_the_job_ends_nothing() -> None:
    jobs = started(a_job())
    jobs.complete("j-1")
    jobs.hear({"i-1": RunnerWord("", 100.0)})
    jobs.hear({"i-1": RunnerWord("bullpen.i-1.abc.0", 99.0)})
    assert kept(jobs) == ["j-1"]


def test_an_instance_that_left_the_set_is_asked_about_after_a_while() -> None:
    jobs = started(a_job(), a_job("j-2", "bullpen.i-2.abc.1"))
    assert jobs.left({"i-2"}, NOW + timedelta(seconds=UNSETTLED - 1)) == []
    assert jobs.left({"i-2"}, NOW + timedelta(seconds=UNSETTLED)) == ["i-1"]
    jobs.forget(["i-1"])
    assert kept(jobs) == ["j-2"]


def test_what_an_earlier_holder_knew_is_kept() -> None:
    jobs = StartedJobs([a_job()], instance_of)
    assert kept(jobs) == ["j-1"]
    jobs.hear({"i-1": RunnerWord("bullpen.i-1.abc.2", 1.0)})
    assert kept(jobs) == []


def test_the_oldest_entries_give_way_to_new_ones() -> None:
    jobs = started(*(a_job(f"j-{n}") for n in range(STARTED_LIMIT + 2)))
    assert kept(jobs)[0] == "j-2"
    assert len(kept(jobs)) == STARTED_LIMIT
