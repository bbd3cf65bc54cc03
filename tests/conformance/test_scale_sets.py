"""Promises of `ports.ScaleSets`, on every engine: in memory; on the GitHub of our tests, as github.com and as an
Enterprise Server; and on an emulator that is not ours."""

from collections.abc import Callable

import pytest

from bullpen.errors import Conflict, NotFound, Refused, SessionGone, UnreadableMessage
from bullpen.ports import (
    JobMessage,
    JobMessageKind,
    MessageSession,
    Removal,
    ScaleSets,
    ScaleSetSpec,
    SetMessage,
    SetStatistics,
)
from conformance.set_services import AdmittingWorld, SetWorld

MEDIUM = ScaleSetSpec("medium")
CAPACITY = 100
ASSIGNED, STARTED, COMPLETED = JobMessageKind.ASSIGNED, JobMessageKind.STARTED, JobMessageKind.COMPLETED


class HeardMessages:
    """A listener of one session: it acquires what is offered, and acknowledges what it has read."""

    def __init__(self, sets: ScaleSets, session: MessageSession) -> None:
        self._sets, self._session = sets, session
        self.last = 0
        self.jobs: list[JobMessage] = []
        self.statistics = session.statistics

    async def until(self, kind: JobMessageKind, count: int = 1, capacity: int = CAPACITY) -> list[JobMessage]:
        """The entries of this kind, once there are so many."""
        for _ in range(200):
            found = [one for one in self.jobs if one.kind is kind]
            if len(found) >= count:
                return found
            await self.poll(capacity)
        raise AssertionError(f"not {count} {kind} among {self.jobs}")

    async def poll(self, capacity: int = CAPACITY) -> SetMessage | None:
        message = await self._sets.poll(self._session, self.last, capacity)
        if message is not None:
            offered = [one.request for one in message.jobs if one.kind is JobMessageKind.AVAILABLE]
            assert await self._sets.acquire(self._session, offered) == offered
            await self._sets.acknowledge(self._session, message.id)
            self.last, self.statistics = message.id, message.statistics
            self.jobs += message.jobs
        return message


async def listening(sets: ScaleSets, spec: ScaleSetSpec = MEDIUM) -> tuple[int, MessageSession, HeardMessages]:
    made = await sets.create(spec)
    session = await sets.open(made.id, "me")
    return made.id, session, HeardMessages(sets, session)


# ---------------------------------------------------------------------------------------------------------------- sets


async def test_a_set_is_found_by_its_id_and_by_its_name(scale_sets: ScaleSets) -> None:
    made = await scale_sets.create(ScaleSetSpec("medium", labels=("medium", "big"), disable_update=True))
    assert (made.name, made.group, made.labels, made.disable_update) == ("medium", 1, ("medium", "big"), True)
    assert await scale_sets.find(made.id) == made
    assert await scale_sets.find_named("medium") == made
    assert await scale_sets.find_named("small") is None
    assert await scale_sets.find(made.id + 1000) is None


async def test_a_set_without_labels_is_asked_for_by_its_name(scale_sets: ScaleSets) -> None:
    assert (await scale_sets.create(MEDIUM)).labels == ("medium",)


async def test_a_name_is_unique_within_its_group_only(scale_sets: ScaleSets) -> None:
    made = await scale_sets.create(MEDIUM)
    other = await scale_sets.create(ScaleSetSpec("medium", group="special"))
    with pytest.raises(Conflict, match="medium"):
        await scale_sets.create(MEDIUM)
    found = [await scale_sets.find_named("medium", group) for group in ("", "special")]
    assert [one.id for one in found if one] == [made.id, other.id]
    assert other.group != made.group


async def test_sets_of_one_name_are_found_in_every_group(scale_sets: ScaleSets) -> None:
    assert await scale_sets.find_everywhere("medium") == {}
    made = await scale_sets.create(MEDIUM)
    other = await scale_sets.create(ScaleSetSpec("medium", group="special"))
    await scale_sets.create(ScaleSetSpec("small"))
    found = await scale_sets.find_everywhere("medium")
    assert {group.casefold(): one.id for group, one in found.items()} == {"default": made.id, "special": other.id}


async def test_a_group_that_does_not_exist_is_refused(scale_sets: ScaleSets) -> None:
    nowhere = ScaleSetSpec("medium", group="nowhere")
    for call in (scale_sets.create(nowhere), scale_sets.find_named("medium", "nowhere")):
        with pytest.raises(Refused, match="nowhere"):
            await call


async def test_a_set_is_corrected(scale_sets: ScaleSets) -> None:
    made = await scale_sets.create(MEDIUM)
    wanted = ScaleSetSpec("large", group="special", labels=("large", "big"), disable_update=False)
    corrected = await scale_sets.correct(made.id, wanted)
    assert (corrected.id, corrected.name, corrected.labels) == (made.id, "large", ("large", "big"))
    assert await scale_sets.find_named("large", "special") == corrected
    assert await scale_sets.find_named("medium") is None


async def test_a_set_cannot_be_corrected_to_a_taken_name_or_once_it_is_gone(scale_sets: ScaleSets) -> None:
    made = await scale_sets.create(MEDIUM)
    await scale_sets.create(ScaleSetSpec("large"))
    with pytest.raises(Conflict, match="large"):
        await scale_sets.correct(made.id, ScaleSetSpec("large"))
    with pytest.raises(NotFound):
        await scale_sets.correct(made.id + 1000, ScaleSetSpec("small"))


async def test_a_deleted_set_is_gone_and_deleting_it_again_is_success(scale_sets: ScaleSets) -> None:
    set_id, session, _ = await listening(scale_sets)
    await scale_sets.delete(set_id)
    await scale_sets.delete(set_id)
    assert await scale_sets.find(set_id) is None
    with pytest.raises(SessionGone):
        await scale_sets.poll(session, 0, CAPACITY)
    for call in (scale_sets.open(set_id, "me"), scale_sets.configure(set_id, "r-1", "_work")):
        with pytest.raises(NotFound):
            await call


# ------------------------------------------------------------------------------------------------------------ sessions


async def test_a_set_has_one_session_at_a_time(scale_sets: ScaleSets) -> None:
    set_id, session, _ = await listening(scale_sets)
    with pytest.raises(Conflict, match="another session is open"):
        await scale_sets.open(set_id, "other")
    await scale_sets.close(set_id, session.id)
    await scale_sets.close(set_id, session.id)
    assert (await scale_sets.open(set_id, "other")).id != session.id


async def test_a_session_is_renewed_with_statistics_of_now(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, session, heard = await listening(scale_sets)
    assert session.statistics == SetStatistics(assigned=0, running=0)
    await set_world.queue(set_id, "medium")
    await heard.until(ASSIGNED)
    renewed = await scale_sets.renew(session)
    assert (renewed.id, renewed.set_id) == (session.id, set_id)
    assert renewed.statistics is not None
    assert renewed.statistics.assigned == 1
    assert await scale_sets.poll(session, heard.last, CAPACITY) is None  # the old value still serves


async def test_a_session_that_has_ended_says_so(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, session, _ = await listening(scale_sets)
    await set_world.drop_session(set_id)
    for call in (scale_sets.poll(session, 0, CAPACITY), scale_sets.renew(session), scale_sets.acquire(session, [1])):
        with pytest.raises(SessionGone):
            await call
    await scale_sets.acknowledge(session, 1)
    await scale_sets.close(set_id, session.id)
    assert (await scale_sets.open(set_id, "me")).id != session.id


async def test_tokens_are_renewed_when_they_are_refused(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, session, heard = await listening(scale_sets)
    jobs = await set_world.queue(set_id, "medium")
    await set_world.end_tokens(set_id)
    await heard.until(ASSIGNED)
    await set_world.end_tokens(set_id)
    await set_world.run_on(jobs[0], await scale_sets.configure(set_id, "r-1", "_work"))
    await heard.until(STARTED)
    await set_world.end_tokens(set_id)
    await scale_sets.close(set_id, session.id)


# ------------------------------------------------------------------------------------------------------------ messages


async def test_a_poll_without_a_message_ends(scale_sets: ScaleSets) -> None:
    _, session, _ = await listening(scale_sets)
    assert await scale_sets.poll(session, 0, CAPACITY) is None


async def test_a_job_is_assigned_starts_and_completes(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, _, heard = await listening(scale_sets)
    jobs = await set_world.queue(set_id, "medium")
    (assigned,) = await heard.until(ASSIGNED)
    assert (assigned.labels, assigned.event, assigned.runner) == (("medium",), "push", "")
    assert assigned.repository.count("/") == 1
    assert assigned.assigned_at is not None
    made = await scale_sets.configure(set_id, "r-1", "_work")
    await set_world.run_on(jobs[0], made)
    (started,) = await heard.until(STARTED)
    assert (started.job_id, started.workflow_run) == (assigned.job_id, assigned.workflow_run)
    assert (started.runner, started.runner_id) == ("r-1", made.runner.id)
    assert heard.statistics is not None
    assert (heard.statistics.assigned, heard.statistics.running) == (1, 1)
    await set_world.complete(jobs[0])
    (completed,) = await heard.until(COMPLETED)
    assert (completed.job_id, completed.runner, completed.result) == (assigned.job_id, "r-1", "succeeded")
    assert heard.statistics == SetStatistics(assigned=0, running=0)
    assert await scale_sets.runner(made.runner.id) is None


async def test_a_message_comes_again_until_it_is_acknowledged(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, session, _ = await listening(scale_sets)
    await set_world.queue(set_id, "medium")
    first = await scale_sets.poll(session, 0, CAPACITY)
    assert first is not None
    again = await scale_sets.poll(session, 0, CAPACITY)
    await scale_sets.close(set_id, session.id)
    session = await scale_sets.open(set_id, "other")
    elsewhere = await scale_sets.poll(session, 0, CAPACITY)
    assert [(one.id, one.jobs) for one in (again, elsewhere) if one] == [(first.id, first.jobs)] * 2
    for _ in range(2):
        await scale_sets.acknowledge(session, first.id)
    assert await scale_sets.poll(session, 0, CAPACITY) is None


async def test_a_burst_comes_in_parts_and_the_statistics_count_all_of_it(
    set_world: SetWorld, scale_sets: ScaleSets
) -> None:
    set_id, _, heard = await listening(scale_sets)
    await set_world.queue(set_id, "medium", 60)
    assert len(await heard.until(ASSIGNED, 60)) == 60
    assert heard.statistics is not None
    assert heard.statistics.assigned == 60
    assert heard.last > 1


# ------------------------------------------------------------------------------------------------------------- runners


async def test_a_registration_is_found_and_removed(scale_sets: ScaleSets) -> None:
    set_id, _, _ = await listening(scale_sets)
    made = await scale_sets.configure(set_id, "r-1", "_work")
    assert (made.runner.name, made.runner.set_id) == ("r-1", set_id)
    assert made.encoded
    assert made.encoded not in repr(made)
    assert await scale_sets.runner(made.runner.id) == made.runner
    assert await scale_sets.runner_named("r-1") == made.runner
    assert [await scale_sets.remove_runner(made.runner.id) for _ in range(2)] == [Removal.REMOVED] * 2
    assert await scale_sets.runner(made.runner.id) is None
    assert await scale_sets.runner_named("r-1") is None


async def test_the_name_of_a_registration_is_given_once(scale_sets: ScaleSets) -> None:
    set_id, _, _ = await listening(scale_sets)
    await scale_sets.configure(set_id, "r-1", "_work")
    with pytest.raises(Conflict, match="r-1"):
        await scale_sets.configure(set_id, "r-1", "_work")
    with pytest.raises(Refused, match="64"):
        await scale_sets.configure(set_id, "r" * 65, "_work")


async def test_a_busy_runner_is_not_removed(set_world: SetWorld, scale_sets: ScaleSets) -> None:
    set_id, _, heard = await listening(scale_sets)
    jobs = await set_world.queue(set_id, "medium")
    await heard.until(ASSIGNED)
    made = await scale_sets.configure(set_id, "r-1", "_work")
    await set_world.run_on(jobs[0], made)
    assert await scale_sets.remove_runner(made.runner.id) is Removal.BUSY
    await set_world.complete(jobs[0])
    assert await scale_sets.remove_runner(made.runner.id) is Removal.REMOVED


# ------------------------------------------------------------------------------------------ what is known of github.com


async def test_capacity_is_a_total_and_the_only_admission(github_sets: AdmittingWorld) -> None:
    sets = github_sets.sets
    set_id, _, heard = await listening(sets)
    jobs = await github_sets.queue(set_id, "medium", 3)
    assert len(await heard.until(ASSIGNED, 2, capacity=2)) == 2
    assert await heard.poll(capacity=2) is None
    made = await sets.configure(set_id, "r-1", "_work")
    await github_sets.run_on(jobs[0], made)
    await heard.until(STARTED, capacity=2)
    await github_sets.complete(jobs[0])
    await heard.until(ASSIGNED, 3, capacity=2)


async def test_a_job_queued_at_capacity_0_is_never_announced_and_a_runner_gets_it(github_sets: AdmittingWorld) -> None:
    sets = github_sets.sets
    set_id, session, heard = await listening(sets)
    assert await heard.poll(capacity=0) is None
    await github_sets.queue(set_id, "medium")
    assert await heard.poll(capacity=5) is None
    await sets.close(set_id, session.id)
    heard = HeardMessages(sets, await sets.open(set_id, "other"))
    assert await heard.poll(capacity=5) is None
    assert heard.statistics == SetStatistics(assigned=0, running=0)
    assert await github_sets.take(await sets.configure(set_id, "r-1", "_work"))
    await heard.until(STARTED)


async def test_the_session_of_a_killed_holder_ends_by_its_silence(github_sets: AdmittingWorld) -> None:
    sets = github_sets.sets
    set_id, session, _ = await listening(sets)
    await github_sets.pass_time(40)
    with pytest.raises(Conflict):
        await sets.open(set_id, "other")
    await github_sets.pass_time(25)
    assert (await sets.open(set_id, "other")).id != session.id
    with pytest.raises(SessionGone):
        await sets.poll(session, 0, CAPACITY)


async def test_an_assignment_lapses_three_times_and_a_late_runner_still_gets_the_job(
    github_sets: AdmittingWorld,
) -> None:
    sets = github_sets.sets
    set_id, _, heard = await listening(sets)
    await github_sets.queue(set_id, "medium")
    for lapsed in range(1, 4):
        await heard.until(ASSIGNED, lapsed)
        for _ in range(8):
            await github_sets.pass_time(38)
            await heard.poll()
        completed = await heard.until(COMPLETED, lapsed)
        assert (completed[-1].runner, completed[-1].result) == ("", "canceled")
    assert len({one.job_id for one in heard.jobs}) == 3
    assert len({one.workflow_run for one in heard.jobs}) == 1
    assert await heard.poll() is None
    assert await github_sets.take(await sets.configure(set_id, "r-1", "_work"))


@pytest.mark.parametrize(
    ("part", "shows"),
    [
        ("body", lambda message: bool(message.trouble) and message.jobs == ()),
        ("entry", lambda message: JobMessageKind.UNKNOWN in [one.kind for one in message.jobs]),
    ],
)
async def test_what_cannot_be_read_leaves_the_statistics_usable(
    github_sets: AdmittingWorld, part: str, shows: Callable[[SetMessage], bool]
) -> None:
    set_id, _, heard = await listening(github_sets.sets)
    await github_sets.garble(part)
    await github_sets.queue(set_id, "medium")
    message = await heard.poll()
    assert message is not None
    assert shows(message)
    assert message.statistics is not None
    assert message.statistics.assigned == 1


async def test_an_unreadable_message_comes_again_until_the_next_id_is_acknowledged(
    github_sets: AdmittingWorld,
) -> None:
    sets = github_sets.sets
    set_id, session, heard = await listening(sets)
    await github_sets.garble("message")
    await github_sets.queue(set_id, "medium")
    for _ in range(2):
        with pytest.raises(UnreadableMessage):
            await heard.poll()
    await sets.acknowledge(session, heard.last + 1)
    assert await heard.poll() is None


async def test_a_runner_that_github_does_not_know_to_be_busy_is_removed_under_its_job(
    github_sets: AdmittingWorld,
) -> None:
    sets = github_sets.sets
    set_id, _, heard = await listening(sets)
    jobs = await github_sets.queue(set_id, "medium")
    await heard.until(ASSIGNED)
    await github_sets.hide_busy(60)
    made = await sets.configure(set_id, "r-1", "_work")
    await github_sets.run_on(jobs[0], made)
    assert await sets.remove_runner(made.runner.id) is Removal.REMOVED
    await github_sets.complete(jobs[0])
    assert (await heard.until(COMPLETED))[0].result == "succeeded"
