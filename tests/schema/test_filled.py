"""Answers that take their fields from a record: each field has the type that its struct declares."""

from datetime import UTC, datetime

import msgspec
import pytest

from bullpen.errors import Unavailable
from bullpen.inventory import Pool, Silence, Status, Story
from bullpen.liveness.protection import DomainState
from bullpen.model import control
from bullpen.model.activity import Activity
from bullpen.model.instance import RUNNING, Instance, InstanceDebt, InstanceFate
from bullpen.model.job import RUNNING as JOB_RUNNING
from bullpen.model.job import Job
from bullpen.model.progress import WorkPhase
from bullpen.model.provision import Origin
from bullpen.model.transition import Debt, StoryLine
from bullpen.model.worker import ACTIVE, Card, Worker
from bullpen.ports import StoredToken
from bullpen.ports.health import FailingLoop, Limit
from bullpen.provision.outcome import Discarded, Member, Outcome
from bullpen.refresh import Action
from bullpen.release import ReleaseOutcome
from bullpen.run import RunOutcome
from bullpen.schema.base import AnswerBody, filled
from bullpen.schema.instance import instance_of
from bullpen.schema.job import job_of, log_of
from bullpen.schema.provision import provision_of
from bullpen.schema.release import release_of
from bullpen.schema.run import run_result_of
from bullpen.schema.status import pool_status_of
from bullpen.schema.story import StoryLineAnswer, story_of
from bullpen.schema.upkeep import created_token_of, refresh_of, token_of
from bullpen.schema.worker import silent_worker_of, worker_of

AT = datetime(2026, 1, 31, 12, 0, 0, 999_999, tzinfo=UTC)
LINE = StoryLine(3, "commit", "running", AT, "cli", "all are verified")
ACTIVITY = Activity("acme/app", "12", 1, "12-1", "runner-1", "build")
INSTANCE = Instance("i-1", RUNNING, 3, AT, offered_at=AT, owes=Debt(InstanceDebt.TERMINATE, AT), purge_at=AT)
JOB = Job("j-1", JOB_RUNNING, 3, "run-1", ("true",), timeout=1.5, exit_code=1, queued_at=AT, finished_at=AT)
WORKER = Worker("i-1/a", ACTIVE, 3, "i-1", deadline=AT, cleanup_at=AT, beat_at=AT, leaving=AT)
CARD = Card(("gpu",), "build-1", "host", 7, "1.0", (("rack", "4"),))
MEMBER = Member(INSTANCE, Origin.SELECTED)
OUTCOME = Outcome(
    "run-1",
    "p-1",
    2,
    members=(MEMBER,),
    kept=(MEMBER,),
    held=(MEMBER,),
    discarded=(Discarded("i-2", Origin.CREATED, "mute", next(iter(InstanceFate))),),
    timings={next(iter(WorkPhase)): 1.25},
)
RELEASED = ReleaseOutcome("run-1", ("i-1",), ("i-2",), ("i-3",), 1.25, ("i-4",))
TOKEN = StoredToken("ops", "id", "read", "00", AT, AT, AT)
STATUS = Status(
    counts={("small", RUNNING): 1},
    instances=(),
    pools=(Pool("small", 2, 1, counts_expired=True),),
    silent=(Silence(WORKER, ("j-1",)),),
    domains=(DomainState("zone-a", 3, 1, AT),),
    controls=(control.absent("store"),),
    failing=(FailingLoop("reap", AT, "no answer", "serve"),),
)
ANSWERS = [
    instance_of(INSTANCE, pid=7, leaving=AT, activity=ACTIVITY, story=[LINE]),
    job_of(JOB, [LINE]),
    log_of(job_of(JOB), ["line"]),
    worker_of(WORKER, CARD, [LINE]),
    silent_worker_of(Silence(WORKER, ("j-1",))),
    provision_of(OUTCOME),
    release_of(RELEASED),
    run_result_of(RunOutcome(OUTCOME, (JOB,), RELEASED)),
    run_result_of(RunOutcome(OUTCOME, interrupted=True)),
    pool_status_of(STATUS, [Limit("core", 5000, 4999, AT)]),
    story_of(Story("i-1", INSTANCE, (LINE,), AT, ACTIVITY)),
    refresh_of([Action("terminate", "i-1", "overdue")], dry_run=True, failure=Unavailable("no answer")),
    token_of(TOKEN, AT),
    created_token_of("secret", TOKEN, AT),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: type(one).__name__)
def test_every_field_of_an_answer_has_its_declared_type(answer: AnswerBody) -> None:
    assert msgspec.json.decode(msgspec.json.encode(answer), type=type(answer)) == answer


def test_a_field_comes_from_the_value_given_else_from_the_last_source_that_has_it() -> None:
    later = StoryLine(4, "release", "idle", AT, "cli", "the run ended")
    answer = filled(StoryLineAnswer, LINE, later, why="asked")
    assert (answer.version, answer.step, answer.why) == (4, "release", "asked")


def test_times_are_text_in_whole_seconds() -> None:
    assert filled(StoryLineAnswer, LINE).at == "2026-01-31T12:00:00Z"


def test_a_required_field_that_no_source_has_is_an_error() -> None:
    with pytest.raises(TypeError, match="version"):
        filled(StoryLineAnswer, INSTANCE.owes)
