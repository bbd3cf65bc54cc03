"""What every store promises to an agent, whichever way the agent reaches it: see `bullpen.agent.store.base`.

Differences are named: DynamoDB gives no jobs, and there a sweeper decides about workers (`judged_by_sweepers`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import (
    NOW,
    Walk,
    claim,
    claimed,
    cleaning,
    expire,
    offer,
    on_offer,
    registered,
    release,
    running,
    used_and_on_offer,
)
from bullpen.agent.build import build_id
from bullpen.agent.decide import ABSENT
from bullpen.agent.progress import End, HeldJob, InstanceRecord, InstanceState, LeaseHolder, SignalKind
from bullpen.agent.store.base import (
    AgentStore,
    NoCredentials,
    Order,
    OwnList,
    RunnerCredentials,
    StoreUnreachable,
)
from bullpen.model import job as jobs
from bullpen.model import worker as workers
from bullpen.model.instance import Instance
from bullpen.model.job import Result
from bullpen.model.limits import REASON_LENGTH
from bullpen.model.worker import WorkerFate
from bullpen.ports import Secret
from conformance import agent_stores
from conformance.agent_stores import PATIENCE, Side, jobs_of, record_of
from conformance.leases import clean_up

HTTP = pytest.param("http", marks=pytest.mark.slow)  # a server on a socket for each test
DYNAMODB = pytest.param("dynamodb", marks=pytest.mark.engines)
JOBS = ["sqlite", HTTP]  # DynamoDB gives none to agents
DIRECT = ["sqlite", DYNAMODB]  # the agent reads GitHub's token from the store itself
GITHUB = {"url": "https://github.com/acme", "group": "big", "registration": "R", "removal": "V", "oldest": "2.1"}


@pytest.fixture(params=["sqlite", HTTP, DYNAMODB])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Side]:
    given = (tmp_path, request.getfixturevalue("aws_settings")) if request.param == "dynamodb" else (tmp_path,)
    with ExitStack() as stack:
        side = stack.enter_context(getattr(agent_stores, request.param)(*given))
        stack.callback(side.close)
        yield side


@pytest.fixture
def store(side: Side) -> AgentStore:
    """As the agent of i-1 opens it."""
    return side.store()


@pytest.fixture
def judged_by_sweepers(request: pytest.FixtureRequest) -> bool:
    """The agent only counts up its beats; a sweeper accepts them and keeps the worker's epochs."""
    return bool(request.node.callspec.params["side"] == "dynamodb")


for_jobs = pytest.mark.parametrize("side", JOBS, indirect=True)
for_direct = pytest.mark.parametrize("side", DIRECT, indirect=True)


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def seen(store: AgentStore) -> InstanceRecord:
    record = store.read_record()
    assert isinstance(record, InstanceRecord)
    return record


# -------------------------------------------------------------------------------------------------------------- looking


def test_a_record_that_is_not_there_is_absent(store: AgentStore) -> None:
    assert store.read_record() is ABSENT


@pytest.mark.parametrize(
    "walk",
    [
        registered(),
        claimed(),
        running(repository="acme/widgets"),
        registered(trust_domain="main"),
        cleaning(),
        used_and_on_offer(),
        on_offer(threshold=NOW + timedelta(milliseconds=500)),
    ],
    ids=["created", "claimed", "running", "of-a-domain", "cleaning", "on-offer", "half-seconds"],
)
def test_a_record_is_read_as_the_control_plane_wrote_it(side: Side, store: AgentStore, walk: Walk) -> None:
    stored = side.put(walk)
    assert store.read_record() == record_of(stored)


def test_a_change_of_the_record_is_announced(side: Side, store: AgentStore) -> None:
    first = side.put(running())
    until(store.has_changed)
    assert store.read_record() == record_of(first)
    until(lambda: not store.has_changed())
    second = side.apply(release(first))
    until(lambda: store.has_changed() and store.read_record() == record_of(second))


# -------------------------------------------------------------------------------------------------------------- beating


def test_the_first_beat_registers_a_worker_of_this_instance_that_is_alive(
    side: Side, store: AgentStore, judged_by_sweepers: bool
) -> None:
    began = datetime.now(UTC)
    grant = store.beat(None)
    worker = side.worker(grant.holder.worker)
    assert grant.holder.worker.startswith("i-1/")
    assert not grant.retired
    assert not grant.resurrected
    assert (worker.state, worker.instance_id, worker.epoch, worker.token) == (workers.ACTIVE, "i-1", 1, 1)
    assert grant.holder.epoch == 1
    assert worker.lease == side.settings.timings.lease
    assert worker.beat_at is not None
    if not judged_by_sweepers:
        assert worker.deadline == worker.beat_at + timedelta(seconds=worker.lease)
    pulse = side.wait_for(side.ports.signals.read(["i-1"]))["i-1"].heartbeat
    assert pulse is not None
    a_second = timedelta(seconds=1)  # some stores keep whole ones
    assert began - a_second <= pulse.at <= datetime.now(UTC) + a_second


def test_a_card_says_what_the_worker_can_do_and_which_build_it_runs(side: Side) -> None:
    store = side.store(capabilities=["gpu", "docker"])
    key = store.beat(None).holder.worker
    card = side.wait_for(side.ports.workers.cards([key]))[key]
    assert (card.capabilities, card.build_id) == (("gpu", "docker"), build_id())
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\+[0-9a-f]{12}", card.build_id)


@for_direct
def test_a_worker_names_what_fails_together_with_it(side: Side) -> None:
    store = side.store(domain="zone-a")
    assert side.worker(store.beat(None).holder.worker).domain == "zone-a"


@pytest.mark.parametrize("side", [HTTP], indirect=True)
def test_a_server_does_not_believe_an_agent_what_fails_together_with_it(side: Side) -> None:
    store = side.store(domain="zone-a")
    assert side.worker(store.beat(None).holder.worker).domain == ""


def test_every_beat_counts_up_and_none_is_a_line_in_the_story(side: Side, store: AgentStore) -> None:
    keys = {store.beat(None).holder.worker for _ in range(3)}
    (key,) = keys
    assert side.worker(key).token == 3
    story = side.wait_for(side.ports.records.stories([key]))[key]
    assert [line.step for line in story] in (["register"], [])


def test_a_beat_says_what_runs_here_for_another_ci(side: Side, store: AgentStore) -> None:
    for activity in ("", "build", "test", ""):
        key = store.beat(None, activity=activity).holder.worker
        assert side.worker(key).activity == activity


def test_a_beat_says_when_the_machine_will_be_taken_away(side: Side, store: AgentStore) -> None:
    key = store.beat(None).holder.worker
    assert side.worker(key).leaving is None
    store.beat(None, NOW)
    assert side.worker(key).leaving == NOW


def test_a_worker_that_was_lost_beats_on_in_a_new_epoch(
    side: Side, store: AgentStore, judged_by_sweepers: bool
) -> None:
    before = store.beat(None).holder
    side.lose(before.worker)
    grant = store.beat(None)
    assert not grant.retired
    assert grant.holder.worker == before.worker
    if not judged_by_sweepers:
        assert (grant.resurrected, grant.holder.epoch) == (True, 2)
        worker = side.worker(before.worker)
        assert (worker.state, worker.epoch, worker.lost_epoch, worker.settled_epoch) == (workers.ACTIVE, 2, 1, 0)


def test_a_retired_worker_learns_it(side: Side, store: AgentStore) -> None:
    key = store.beat(None).holder.worker
    side.lose(key, fate=WorkerFate.RETIRE)
    assert store.beat(None).retired
    assert side.worker(key).state is workers.INACTIVE


def test_a_worker_that_was_cleaned_up_does_not_come_back(
    side: Side, store: AgentStore, judged_by_sweepers: bool
) -> None:
    before = store.beat(None).holder
    side.lose(before.worker)
    side.apply(clean_up(side.worker(before.worker), NOW))
    grant = store.beat(None)
    assert side.worker(before.worker).state is workers.CLEANED_UP
    assert grant.retired if judged_by_sweepers else grant.holder.worker != before.worker


def test_two_processes_of_one_instance_are_not_taken_for_one(
    side: Side, store: AgentStore, judged_by_sweepers: bool
) -> None:
    first, second = store.beat(None).holder, side.store().beat(None).holder
    if judged_by_sweepers:  # there the instance is the worker, and its beats go on counting
        assert (first, side.worker(first.worker).token) == (second, 2)
    else:
        assert first.worker != second.worker


def test_a_worker_that_has_stopped_is_cleaned_up_at_once(
    side: Side, store: AgentStore, judged_by_sweepers: bool
) -> None:
    store.stop()  # before any beat there is nothing to report
    key = store.beat(None).holder.worker
    for _ in range(2):
        store.stop()
        assert side.worker(key).state is (workers.ACTIVE if judged_by_sweepers else workers.CLEANED_UP)


# ------------------------------------------------------------------------------------------------------------ reporting


def test_a_signal_says_what_of_which_round(side: Side, store: AgentStore) -> None:
    side.put(running())
    record = seen(store)
    store.report(SignalKind.REG_FAILED, record, "x" * (REASON_LENGTH + 1))
    signal = side.signal()
    assert signal is not None
    assert (signal.kind, signal.run_id, signal.round) == ("UD_REG_FAILED", "run-1", record.round)
    assert signal.text == "x" * REASON_LENGTH


def test_every_signal_has_a_higher_number_than_any_before_even_of_an_earlier_process(
    side: Side, store: AgentStore
) -> None:
    side.put(running())
    record = seen(store)
    store.report(SignalKind.OK, record, "")
    store.report(SignalKind.REG_OK, record, "")
    restarted = side.store()
    restarted.report(SignalKind.REG_FAILED, record, "why")
    signal = side.signal()
    assert signal is not None
    assert (signal.kind, signal.seq, signal.text) == ("UD_REG_FAILED", 3, "why")


# ---------------------------------------------------------------------------------------------------------- registering


@pytest.mark.parametrize(
    "walk", [registered(run_id="run-1"), claimed(), running()], ids=["created", "claimed", "running"]
)
def test_a_runner_appears_under_its_run_and_disappears(side: Side, store: AgentStore, walk: Walk) -> None:
    side.put(walk)
    assert store.register(seen(store)) is OwnList.LISTED
    assert side.registrations() == [("i-1", "run-1")]
    for _ in range(2):
        store.deregister()
        assert side.registrations() == []


def released(side: Side, one: Instance) -> None:
    side.apply(release(one))


def ended(side: Side, one: Instance) -> None:
    side.apply(expire(one))


def claimed_by_another(side: Side, one: Instance) -> None:
    side.apply(claim(side.apply(offer(side.apply(release(one)))), "run-2"))


def claimed_by_the_same_again(side: Side, one: Instance) -> None:
    side.apply(claim(side.apply(offer(side.apply(release(one)))), "run-1"))


MOVES = [released, ended, claimed_by_another, claimed_by_the_same_again]


@pytest.mark.parametrize("move", MOVES)
def test_a_record_that_has_moved_on_is_not_registered(
    side: Side, store: AgentStore, move: Callable[[Side, Instance], None]
) -> None:
    one = side.put(running())
    record = seen(store)
    move(side, one)
    assert store.register(record) is OwnList.MOVED_ON
    assert side.registrations() == []


def test_an_instance_without_a_record_is_not_registered(store: AgentStore) -> None:
    assert store.register(InstanceRecord(InstanceState.RUNNING, "run-1", "r1", 0.0)) is OwnList.MOVED_ON


def put_secret(side: Side, content: str = json.dumps({**GITHUB, "pool": "pool"}), lasts: float = 3600.0) -> None:
    """As `refresh` writes it."""
    secret = Secret(content, datetime.now(UTC) + timedelta(seconds=lasts))
    side.wait_for(side.ports.vault.write("github", secret))


@for_direct
def test_on_github_a_runner_gets_credentials_and_is_not_in_the_embedded_list(side: Side) -> None:
    store = side.store(ci="github")
    record = record_of(side.put(running()))
    put_secret(side)
    given = store.register(record)
    assert isinstance(given, RunnerCredentials)
    assert re.fullmatch(rf"pool\.i-1\.{record.round[:8]}\.[0-9]+", given.runner)
    expected = RunnerCredentials(given.runner, "run-1", "https://github.com/acme", "big", "R", "V", oldest="2.1")
    assert given == expected
    assert store.removal_token() == "V"
    assert side.registrations() == []
    store.deregister(given.runner)


@for_direct
@pytest.mark.parametrize("ci", ["", "github"])
def test_an_agent_without_serve_does_not_register_for_a_scale_set(side: Side, ci: str) -> None:
    put_secret(side)
    record = InstanceRecord(InstanceState.RUNNING, "set:m", "r1", 0.0)
    with pytest.raises(NoCredentials, match=r"set agent\.serve-url"):
        side.store(ci=ci).register(record)
    assert side.registrations() == []


@for_direct
def test_every_registration_of_a_round_has_a_name_of_its_own(side: Side) -> None:
    store = side.store(ci="github")
    record = record_of(side.put(running()))
    put_secret(side)
    given = [store.register(record) for _ in range(3)]
    assert len({one.runner for one in given if isinstance(one, RunnerCredentials)}) == 3


@for_direct
@pytest.mark.parametrize("move", MOVES)
def test_on_github_a_record_that_has_moved_on_gets_no_secret(
    side: Side, move: Callable[[Side, Instance], None]
) -> None:
    store = side.store(ci="github")
    one = side.put(running())
    record = seen(store)
    put_secret(side)
    move(side, one)
    assert store.register(record) is OwnList.MOVED_ON


@for_direct
@pytest.mark.parametrize("spoilt", [{"lasts": -1.0}, {"content": "hidden"}, {"content": "[]"}, None])
def test_without_a_valid_secret_an_agent_says_what_to_do(side: Side, spoilt: dict[str, Any] | None) -> None:
    store = side.store(ci="github")
    record = record_of(side.put(running()))
    if spoilt is not None:
        put_secret(side, **spoilt)
    for ask in (lambda: store.register(record), store.removal_token):
        with pytest.raises(NoCredentials, match="no valid registration token; run `bullpen refresh`") as caught:
            ask()
        assert "hidden" not in str(caught.value)


# ----------------------------------------------------------------------------------------------------------------- jobs


def test_only_a_store_of_the_embedded_queue_gives_jobs(store: AgentStore, judged_by_sweepers: bool) -> None:
    assert (store.jobs is None) is judged_by_sweepers


def taken(store: AgentStore) -> Order:
    order = jobs_of(store).take_job(seen(store))
    assert order is not None
    return order


def with_job(side: Side, store: AgentStore, **changed: Any) -> Order:
    """A job that this worker has taken and reported to run."""
    side.put(running())
    side.submit(**changed)
    store.beat(None)
    order = taken(store)
    store.beat(order.job)
    return order


def reported(store: AgentStore, order: Order, exit_code: int = 0, end: End = End.RAN) -> bool:
    return jobs_of(store).settle_job(replace(order.job, exit_code=exit_code, end=end))


@for_jobs
def test_a_waiting_job_of_the_run_shows_once_the_worker_could_take_it(side: Side, store: AgentStore) -> None:
    side.put(running())
    side.submit()
    assert not seen(store).has_job
    store.beat(None)
    until(lambda: seen(store).has_job)


@for_jobs
def test_the_oldest_job_is_taken_first_and_only_once(side: Side, store: AgentStore) -> None:
    side.put(running())
    side.submit("j-late", at=NOW + timedelta(seconds=1))
    side.submit("j-early")
    store.beat(None)
    for name in ("j-early", "j-late"):
        order = taken(store)
        assert order.job.id == name
        assert reported(store, order)
    assert jobs_of(store).take_job(seen(store)) is None


@for_jobs
def test_a_job_that_was_lost_goes_before_those_that_were_not(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    side.submit("j-0", at=NOW - timedelta(seconds=60))
    side.apply(jobs.reschedule(side.job(), lost_now(side)))
    assert taken(store).job.id == order.job.id


@for_jobs
@pytest.mark.parametrize("move", MOVES)
def test_an_instance_that_does_not_run_in_this_round_takes_no_job(
    side: Side, store: AgentStore, move: Callable[[Side, Instance], None]
) -> None:
    one = side.put(running())
    side.submit()
    store.beat(None)
    record = seen(store)
    move(side, one)
    assert jobs_of(store).take_job(record) is None
    assert (side.job().state, side.job().fence) == (jobs.QUEUED, 0)


@for_jobs
def test_a_worker_whose_lease_is_out_takes_no_job(side: Side, store: AgentStore) -> None:
    side.put(running())
    side.submit()
    side.lose(store.beat(None).holder.worker)
    assert jobs_of(store).take_job(seen(store)) is None
    assert side.job().state is jobs.QUEUED


@for_jobs
def test_a_worker_whose_machine_leaves_takes_no_job(side: Side, store: AgentStore) -> None:
    side.put(running())
    side.submit()
    store.beat(None, NOW)
    assert jobs_of(store).take_job(seen(store)) is None


@for_jobs
def test_an_assignment_names_worker_epoch_and_fence_and_is_bound_by_the_next_beat(
    side: Side, store: AgentStore
) -> None:
    side.put(running())
    side.submit(index=7, timeout=9.0)
    holder = store.beat(None).holder
    before = datetime.now(UTC)
    order = taken(store)
    assert (order.job.holder, order.job.fence, order.job.timeout, order.index) == (holder, 1, 9.0, 7)
    assert order.command == ("make", "test")
    job = side.job()
    assert (job.state, job.worker, job.epoch, job.fence, job.instance_id) == (jobs.RUNNING, holder.worker, 1, 1, "i-1")
    assert not job.bound
    assert job.verify_by is not None
    verify = timedelta(seconds=side.settings.liveness.verify)
    assert before + verify <= job.verify_by <= datetime.now(UTC) + verify
    store.beat(order.job)
    until(lambda: side.job().bound)
    assert side.job().verify_by is None
    story = side.wait_for(side.ports.records.stories(["j-1"]))["j-1"]
    assert sorted(line.step for line in story) == ["assign", "bind", "submit"]


@for_jobs
@pytest.mark.parametrize(
    ("asked", "has", "fits"), [("", [], True), ("gpu", [], False), ("gpu", ["docker", "gpu"], True)]
)
def test_a_job_goes_only_to_a_worker_that_can_do_it(side: Side, asked: str, has: list[str], fits: bool) -> None:
    store = side.store(capabilities=has)
    side.put(running())
    side.submit(capability=asked)
    store.beat(None)
    assert (jobs_of(store).take_job(seen(store)) is not None) is fits


@for_jobs
def test_a_lost_job_goes_to_another_worker_while_there_is_one(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    side.apply(jobs.reschedule(side.job(), lost_now(side)))
    other = side.store("i-2")
    side.put(running("i-2"))
    other.beat(None)
    assert jobs_of(store).take_job(seen(store)) is None
    assert taken(other).job.id == order.job.id


@for_jobs
def test_a_lost_job_goes_to_the_same_worker_if_it_is_the_only_one(side: Side, store: AgentStore) -> None:
    with_job(side, store)
    side.apply(jobs.reschedule(side.job(), lost_now(side)))
    assert taken(store).job.fence == 2


@for_jobs
def test_a_runner_that_has_had_a_job_leaves_the_next_to_one_that_has_had_none(side: Side, store: AgentStore) -> None:
    now = datetime.now(UTC)
    order = with_job(side, store, at=now)
    side.submit("j-2", at=now)
    other = side.store("i-2")
    side.put(running("i-2"))
    assert jobs_of(store).settle_job(replace(order.job, exit_code=0))
    assert jobs_of(store).take_job(seen(store)) is None, "the other's first heartbeat is on its way"
    other.beat(None)
    assert not seen(store).has_job
    assert jobs_of(store).take_job(seen(store)) is None
    assert seen(other).has_job
    second = taken(other)
    assert second.job.id == "j-2"
    side.submit("j-3", at=now)
    assert taken(store).job.id == "j-3", "more wait than there are runners that have had none"


def lost_now(side: Side, wait: float = 0.0) -> jobs.Lost:
    job, now = side.job(), datetime.now(UTC)
    held = {"worker": job.worker, "epoch": job.epoch, "fence": job.fence}
    return jobs.Lost(at=now, by="a test", not_before=now + timedelta(seconds=wait), **held)  # type: ignore[arg-type]


@for_jobs
def test_a_job_that_waits_for_its_time_is_not_taken(side: Side, store: AgentStore) -> None:
    with_job(side, store)
    side.apply(jobs.reschedule(side.job(), lost_now(side, wait=3600.0)))
    assert jobs_of(store).take_job(seen(store)) is None


@for_jobs
@pytest.mark.parametrize(
    ("end", "code", "stored"),
    [
        (End.RAN, 0, (Result.SUCCEEDED, "")),
        (End.RAN, 3, (Result.FAILED, "exit code 3")),
        (End.CANCELLED, -9, (Result.CANCELLED, "its processes were ended")),
        (End.TIMED_OUT, -9, (Result.TIMED_OUT, "it ran longer than its 5 s, and its processes were ended")),
        (End.RELEASED, -9, (Result.CANCELLED, "its run was released")),
    ],
)
def test_an_end_is_stored_with_its_reason(
    side: Side, store: AgentStore, end: End, code: int, stored: tuple[Result, str]
) -> None:
    order = with_job(side, store, timeout=5.0)
    before = datetime.now(UTC)
    assert reported(store, order, code, end)
    job = side.job()
    assert (job.state, job.exit_code, job.result, job.reason) == (jobs.FINISHED, code, *stored)
    assert job.purge_at is not None
    purge = timedelta(seconds=side.settings.timings.purge)
    assert before + purge <= job.purge_at <= datetime.now(UTC) + purge


@for_jobs
def test_the_result_of_an_older_assignment_is_refused(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    side.apply(jobs.reschedule(side.job(), lost_now(side)))
    again = taken(store)
    assert not reported(store, order)
    assert (side.job().state, side.job().exit_code) == (jobs.RUNNING, None)
    assert reported(store, again, 4)
    assert side.job().exit_code == 4


@for_jobs
def test_the_same_end_again_is_accepted_because_its_answer_may_have_been_lost(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    assert [reported(store, order, 3), reported(store, order, 3)] == [True, True]
    assert side.job().exit_code == 3


@for_jobs
def test_the_result_of_a_job_that_was_given_up_is_refused(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    over = jobs.GivenUp(at=datetime.now(UTC), by="a test", why="its run is over", purge_at=NOW, result=Result.CANCELLED)
    side.apply(jobs.give_up(side.job(), over))
    assert not reported(store, order, 0)
    assert (side.job().result, side.job().exit_code) == (Result.CANCELLED, None)


@for_jobs
def test_what_was_lost_is_not_reported(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    assert not reported(store, order, -9, End.LOST)
    assert side.job().state is jobs.RUNNING


def given_back(side: Side, store: AgentStore, losses: int) -> float:
    """Let the job lose its worker as often, at last because the agent leaves; how many seconds the job waits then."""
    with_job(side, store)
    for _ in range(losses - 1):
        side.apply(jobs.reschedule(side.job(), lost_now(side)))
        store.beat(taken(store).job)
    job, before = side.job(), datetime.now(UTC)
    held = HeldJob(job.id, job.fence, "", 0.0, LeaseHolder(job.worker, job.epoch))
    jobs_of(store).give_back_job(held, "it left")
    not_before = side.job().not_before
    return (not_before - before).total_seconds() if not_before is not None else 0.0


@for_jobs
@pytest.mark.parametrize(("losses", "wait"), [(1, 1.0), (2, 2.0)])
def test_a_job_that_is_given_back_waits_twice_as_long_after_each_loss(
    side: Side, store: AgentStore, losses: int, wait: float
) -> None:
    assert wait <= given_back(side, store, losses) < wait + 0.9
    job = side.job()
    assert (job.state, job.losses, job.worker, job.result) == (jobs.QUEUED, losses, "", Result.NONE)
    assert job.avoid == store.beat(None).holder.worker


@for_jobs
@pytest.mark.parametrize("allowed", [1, 2, 3])
def test_a_job_fails_with_the_loss_that_the_settings_name(side: Side, allowed: int) -> None:
    side.go_by(losses=allowed)
    store = side.store()
    given_back(side, store, allowed)
    job = side.job()
    assert (job.state, job.result, job.losses) == (jobs.FINISHED, Result.FAILED, allowed - 1)
    often = "lost once" if allowed == 1 else f"lost {allowed} times; the last time"
    assert job.reason == f"{often}: it left"
    assert job.purge_at is not None


@for_jobs
def test_a_job_that_is_being_cancelled_ends_when_its_worker_leaves(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    cancelled(side)
    jobs_of(store).give_back_job(order.job, "it left")
    job = side.job()
    assert (job.state, job.result, job.reason) == (jobs.FINISHED, Result.CANCELLED, "cancelled; it left")


@for_jobs
def test_a_job_is_given_back_by_its_holder_alone(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    held = order.job
    for other in (replace(held, fence=7), replace(held, holder=replace(held.holder, epoch=7))):
        jobs_of(store).give_back_job(other, "it left")
    assert (side.job().state, side.job().losses) == (jobs.RUNNING, 0)


def cancelled(side: Side) -> None:
    side.apply(jobs.ask_to_cancel(side.job(), jobs.CancelAsked(at=datetime.now(UTC), by="a test", why="")))


def lost(side: Side) -> None:
    side.apply(jobs.reschedule(side.job(), lost_now(side)))


@for_jobs
@pytest.mark.parametrize(("happens", "end"), [(None, None), (cancelled, End.CANCELLED), (lost, End.LOST)])
def test_the_store_says_when_a_job_must_end(
    side: Side, store: AgentStore, happens: Callable[[Side], None] | None, end: End | None
) -> None:
    order = with_job(side, store)
    if happens is not None:
        happens(side)
    store.beat(order.job)
    assert jobs_of(store).standing(order.job) is end


@for_jobs
def test_a_beat_after_a_loss_holds_none_of_the_old_jobs(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    side.lose(order.job.holder.worker)
    side.apply(jobs.reschedule(side.job(), lost_now(side)))
    store.beat(order.job)
    assert jobs_of(store).standing(order.job) is End.LOST
    assert (side.job().state, side.job().bound) == (jobs.QUEUED, False)


@for_jobs
def test_output_reaches_the_log_of_its_assignment(side: Side, store: AgentStore) -> None:
    order = with_job(side, store)
    log = jobs_of(store).open_log(order.job)
    log.write(b"one\n")
    log.write(b"two\n")
    log.close()
    assert side.wait_for(side.ports.logs.read("j-1", 1, 0, 100)) == b"one\ntwo\n"


# --------------------------------------------------------------------------------------------------------- out of reach


def test_a_store_that_does_not_answer_is_out_of_reach(side: Side) -> None:
    store, record = side.store(**side.nowhere), InstanceRecord(InstanceState.RUNNING, "run-1", "r1", 0.0)
    asked: list[Callable[[], object]] = [
        store.read_record,
        lambda: store.beat(None),
        lambda: store.report(SignalKind.OK, record, ""),
        lambda: store.register(record),
        store.deregister,
    ]
    for ask in asked:
        with pytest.raises(StoreUnreachable):
            ask()
