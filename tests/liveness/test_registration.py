"""Registration and lease: cases 1 to 13."""

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest

from bullpen.config import Agent, Settings
from bullpen.engines.memory.clock import BEGINNING
from bullpen.errors import ConfigError
from bullpen.liveness.heartbeat import record_heartbeat, record_heartbeats
from bullpen.liveness.schema import Binding, HeartbeatAnswer, HeartbeatRequest, WorkerMetadata
from bullpen.model import limits
from bullpen.model import worker as workers
from bullpen.model.worker import ACTIVE, Code, Rejected
from bullpen.settings.validation import contradictions
from liveness.fixtures import Crew, settings


def after(seconds: float) -> Any:
    return BEGINNING + timedelta(seconds=seconds)


async def refused(crew: Crew, **fields: Any) -> str:
    """What the refusal of a beat says; nothing may have been written, nor asked of the store."""
    with pytest.raises(ConfigError) as caught:
        await record_heartbeat(crew.ports, crew.settings, HeartbeatRequest(**{"key": "w", **fields}))
    assert not crew.memory.tables.workers
    assert not crew.requests()
    assert caught.value.field == str(caught.value).partition(": ")[0]
    return str(caught.value)


async def test_case_01_a_first_beat_makes_the_worker_active_with_one_timer() -> None:
    crew = Crew()
    answer = await crew.answered(lease=15)
    worker = crew.worker()
    assert (worker.state, worker.epoch, worker.token, answer.token, answer.epoch) == (ACTIVE, 1, 1, 1, 1)
    assert worker.deadline == worker.due_at == after(15)


def test_case_02_a_worker_before_any_beat_has_neither_lease_nor_token() -> None:
    worker = workers.absent("w")
    assert (worker.deadline, worker.due_at, worker.token, worker.epoch, worker.request_id) == (None, None, 0, 0, "")
    assert not worker.owes_reschedule


async def test_case_03_a_second_beat_moves_the_deadline_of_the_same_worker() -> None:
    crew = Crew()
    await crew.beats()
    await asyncio.sleep(5)
    answer = await crew.answered()
    assert list(crew.memory.tables.workers) == ["w"]
    assert (crew.worker().deadline, answer.token, answer.epoch, answer.state) == (after(20), 2, 1, ACTIVE)


@pytest.mark.parametrize("skew", [-3600, 3600])
async def test_case_04_no_clock_of_a_worker_moves_its_deadline(skew: float) -> None:
    """A request carries no time at all, and a card that does is only a card."""
    crew = Crew()
    said = WorkerMetadata(extras={"now": str(BEGINNING + timedelta(seconds=skew))})
    await crew.beats(metadata=said)
    assert crew.worker().deadline == after(15)


@pytest.mark.parametrize("lease", [None, 0])
async def test_case_05_without_a_lease_the_default_is_granted(lease: float | None) -> None:
    assert (await Crew().answered(lease=lease)).granted_lease == 60


@pytest.mark.parametrize("lease", [-1, 0.0, math.nan, math.inf, 1.5, "15", True, [15], 10**400])
async def test_case_06_a_lease_that_is_no_whole_number_of_seconds_is_refused(lease: Any) -> None:
    assert (await refused(Crew(), lease=lease)).startswith("leaseSeconds: ")


@pytest.mark.parametrize(("asked", "granted"), [(1, 5), (5, 5), (3600, 3600), (10**9, 3600)])
async def test_case_07_a_lease_out_of_bounds_is_granted_at_the_nearest_bound(asked: int, granted: float) -> None:
    crew = Crew()
    assert (await crew.answered(lease=asked)).granted_lease == crew.worker().lease == granted


async def test_case_08_a_shorter_lease_pulls_the_timer_earlier() -> None:
    crew = Crew()
    await crew.beats(lease=60)
    await crew.beats(lease=10)
    assert crew.worker().due_at == crew.worker().deadline == after(10)


async def test_case_09_a_longer_lease_never_leaves_the_timer_later_than_the_deadline() -> None:
    crew = Crew()
    for lease in (10, 60, 5, 3600, 20, 15, 60):
        await crew.beats(lease=lease)
        worker = crew.worker()
        assert worker.due_at is not None
        assert worker.deadline is not None
        assert worker.due_at <= worker.deadline
        await asyncio.sleep(1)


@pytest.mark.parametrize("key", ["", "k" * 129, "a b", "a\n", "a\0b", None, 7])
async def test_case_10_a_missing_or_impossible_key_is_refused(key: Any) -> None:
    assert (await refused(Crew(), key=key)).startswith("workerInstanceKey: ")


async def test_case_11_in_a_batch_each_beat_has_its_own_result() -> None:
    crew = Crew()
    batch = [HeartbeatRequest(key="a"), HeartbeatRequest(key=""), HeartbeatRequest(key="b", token=9)]
    first, second, third = await record_heartbeats(crew.ports, crew.settings, [*batch])
    assert isinstance(first, HeartbeatAnswer)
    assert isinstance(second, ConfigError)
    assert third == Rejected(Code.UNKNOWN, workers.ABSENT, 0)
    assert list(crew.memory.tables.workers) == ["a"]
    assert crew.requests() == {"workers.beat": 1}


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_of_none_or_too_many_is_refused(count: int) -> None:
    crew = Crew()
    with pytest.raises(ConfigError, match="heartbeats: "):
        await record_heartbeats(crew.ports, crew.settings, [HeartbeatRequest(key="w")] * count)


async def test_case_12_of_two_first_beats_at_once_one_registers_the_worker() -> None:
    crew = Crew()
    ports = [crew.process(), crew.process()]
    beats = [HeartbeatRequest(key="w", request_id=f"r{n}") for n in range(2)]
    answers = await asyncio.gather(*(record_heartbeat(p, crew.settings, b) for p, b in zip(ports, beats, strict=True)))
    winners = [one for one in answers if isinstance(one, HeartbeatAnswer)]
    assert [one.epoch for one in winners] == [1]
    assert [one for one in answers if isinstance(one, Rejected)] == [Rejected(Code.MISMATCH, ACTIVE, 1)]
    assert (crew.worker().epoch, crew.worker().token) == (1, 1)


async def test_case_13_with_tracking_off_a_beat_is_answered_and_nothing_stored() -> None:
    crew = Crew(settings(tracking=False))
    answer = await record_heartbeat(crew.ports, crew.settings, HeartbeatRequest(key="w", token=7, lease=15))
    assert isinstance(answer, HeartbeatAnswer)
    assert (answer.token, answer.epoch, answer.state, answer.granted_lease) == (7, 0, workers.ABSENT, 15)
    assert not crew.memory.tables.workers
    assert not crew.requests()


async def test_a_capability_that_no_job_can_ask_for_is_ignored_and_does_not_end_the_lease_of_an_older_agent() -> None:
    crew = Crew()
    longest = "x" * limits.CAPABILITY_LENGTH
    await crew.answered(metadata=WorkerMetadata(capabilities=(longest, f"{longest}x", "gpu")))
    (card,) = (await crew.ports.workers.cards(["w"])).values()
    assert card.capabilities == (longest, "gpu")


async def test_every_capability_that_the_settings_allow_is_accepted_in_a_heartbeat() -> None:
    words = tuple(f"{number:0{limits.CAPABILITY_LENGTH}}" for number in range(limits.CAPABILITIES))
    assert list(contradictions(Settings(agent=Agent(capabilities=words)))) == []
    crew = Crew()
    await crew.answered(metadata=WorkerMetadata(capabilities=words))
    (card,) = (await crew.ports.workers.cards(["w"])).values()
    assert card.capabilities == words


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token", -1),
        ("token", True),
        ("token", 2**60),
        ("request_id", "x" * 129),
        ("domain", "a b"),
        ("domain", 3),
        ("bound", "j"),
        ("bound", (("j", 1),)),
        ("bound", (Binding("", 1),)),
        ("bound", (Binding("j", 0),)),
        ("unbound", (Binding("j", True),)),
        ("running", (Binding("j", 1),) * 1001),
        ("metadata", WorkerMetadata(capabilities=("",))),
        ("metadata", WorkerMetadata(capabilities=("gpu",) * 65)),
        ("metadata", WorkerMetadata(pid=-1)),
        ("metadata", WorkerMetadata(host="h" * 129)),
        ("metadata", WorkerMetadata(extras={"name": "v" * 1025})),
        ("metadata", WorkerMetadata(extras={"name": 7})),  # type: ignore[dict-item]
    ],
)
async def test_every_other_field_is_checked_and_named(field: str, value: Any) -> None:
    assert (await refused(Crew(), **{field: value})).startswith(SPELLED.get(field, field))


SPELLED = {"request_id": "requestId", "bound": "boundActivities", "unbound": "unboundActivities"}
SPELLED |= {"running": "runningActivities"}  # as in JSON


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"token": -1}, "token: expected 'int' >= 0, got -1"),
        ({"domain": "a b"}, "domain: 'a b' must be printable characters without spaces"),
        ({"bound": (Binding("j", 0),)}, "boundActivities[0].fence: expected 'int' >= 1, got 0"),
        ({"request_id": "x" * 129}, f"requestId: expected 'str' of length <= 128, got '{'x' * 58}…"),
        ({"metadata": WorkerMetadata(pid=-1)}, "metadata.pid: expected 'int' >= 0, got -1"),
    ],
)
async def test_a_refusal_names_the_field_its_value_and_what_is_allowed(fields: dict[str, Any], said: str) -> None:
    assert await refused(Crew(), **fields) == said


async def test_a_beat_that_names_no_job_and_no_card_is_one_request() -> None:
    crew = Crew()
    for _ in range(3):
        await crew.beats()
    assert crew.requests() == {"workers.beat": 3}


async def test_a_card_is_stored_when_it_changes_only() -> None:
    crew = Crew()
    for build in ("1", "1", "2"):
        await crew.beats(metadata=WorkerMetadata(build_id=build))
    assert crew.requests()["workers.describe"] == 2
    assert crew.memory.tables.cards["w"].build_id == "2"


async def test_the_next_beat_is_asked_for_at_about_a_third_of_the_lease() -> None:
    crew = Crew()
    waits = [(await crew.answered()).next_in for _ in range(50)]
    assert all(4.5 <= wait <= 5.5 for wait in waits)
    assert len(set(waits)) > 10


async def test_under_load_the_lease_is_longer_and_the_next_beat_later() -> None:
    crew = Crew()
    asked = HeartbeatRequest(key="w", lease=15)
    answer = await record_heartbeat(crew.ports, crew.settings, asked, overloaded=True)
    assert isinstance(answer, HeartbeatAnswer)
    assert answer.granted_lease == crew.worker().lease == 30
    assert answer.next_in >= 9


def test_our_own_agents_lease_is_within_the_bounds() -> None:
    rules, times = Settings().liveness, Settings().timings
    assert rules.min_lease <= times.lease <= rules.max_lease
