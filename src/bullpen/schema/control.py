"""How the pool is kept: the loops of a server, what records owe, what holds losses and new work back."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from bullpen.model.instance import Instance
from bullpen.model.provision import Provision
from bullpen.schema.base import AnswerBody, Time
from bullpen.schema.pause import PauseAnswer
from bullpen.schema.status import ControlAnswer, RateLimitAnswer
from bullpen.schema.story import DebtKind, debt_of

WAITS = {
    DebtKind.OFFER: "its agent, which deregisters the runner and cleans up",
    DebtKind.TERMINATE: "the end of its machine",
    DebtKind.SETTLE: "its decision to be carried out on every instance",
    DebtKind.RELEASE: "its instances to be given back",
}


class LoopTurnAnswer(AnswerBody, frozen=True):
    """One run of a loop."""

    at: Annotated[Time, Meta(description="When it began.")]
    seconds: Annotated[float, Meta(description="How long it took.")]
    ok: Annotated[bool, Meta(description="Whether it worked.")]


class LoopAnswer(AnswerBody, frozen=True):
    """A loop of the server that answers. Each replica has its own."""

    process: Annotated[str, Meta(description="Process that runs the loop.")]
    name: Annotated[str, Meta(description="Name of the loop.")]
    every: Annotated[float, Meta(description="Seconds between two turns, give or take a fifth.")]
    alive: Annotated[bool, Meta(description="Whether it ran recently.")]
    last_turn: Annotated[Time | None, Meta(description="When its last turn began; null before the first.")]
    last_seconds: Annotated[float | None, Meta(description="How long that took.")]
    turns: Annotated[list[LoopTurnAnswer], Meta(description="Its last 60 turns, oldest first.")]
    failing: Annotated[bool, Meta(description="Whether every turn of it has failed for a while.")]
    error: Annotated[str, Meta(description="Why its last turn failed; empty if it worked.")]


class OwedAnswer(AnswerBody, frozen=True):
    """Work that a record owes. Any process pays it from the time when it is due."""

    subject: Annotated[str, Meta(description="Id of the instance or provision that owes it.")]
    kind: Annotated[DebtKind, Meta(description="What is owed.")]
    due_at: Annotated[Time, Meta(description="From when on another process takes it over.")]
    waits_for: Annotated[str, Meta(description="What it waits for, or why it could not be paid the last time.")]


class RunnerVersionAnswer(AnswerBody, frozen=True):
    """The version of GitHub's runner that is refused first, of those that the pool uses."""

    version: Annotated[str, Meta(description="Version of GitHub's runner.")]
    deadline: Annotated[
        Time | None, Meta(description="From when GitHub gives it no more jobs; null while that is far away or unknown.")
    ]


class StoreKind(StrEnum):
    SQLITE = "SQLite"
    DYNAMODB = "DynamoDB"


class StoreAnswer(AnswerBody, frozen=True):
    works: Annotated[bool, Meta(description="Whether the store can be read and written.")]
    kind: Annotated[StoreKind, Meta(description="Which store it is.")]


class ReplicaAnswer(AnswerBody, frozen=True):
    """A server on this store."""

    process: Annotated[str, Meta(description="The process, and its machine.")]
    seen_at: Annotated[Time, Meta(description="When it last noted that it lives.")]


class ControlsAnswer(AnswerBody, frozen=True):
    """Whether the pool is being kept."""

    loops: Annotated[list[LoopAnswer], Meta(description="The loops of the server that answers.")]
    debts: Annotated[
        list[OwedAnswer],
        Meta(description="What records owe, due or due within an hour, the longest overdue first; at most 200."),
    ]
    more_debts: Annotated[bool, Meta(description="Whether records owe more than is listed.")]
    hold: Annotated[str, Meta(description="Why no worker is declared lost now; empty if workers are.")]
    protection: Annotated[list[ControlAnswer], Meta(description="Whether losses are held back, by failure domain.")]
    pauses: Annotated[list[PauseAnswer], Meta(description="Pauses in force; that of the whole pool first.")]
    rate_limits: Annotated[
        list[RateLimitAnswer], Meta(description="What GitHub still allows, as its last answers to this server said.")
    ]
    runner_version: Annotated[
        RunnerVersionAnswer | None, Meta(description="GitHub's runner; null where the CI is not GitHub, or none runs.")
    ]
    store: Annotated[StoreAnswer, Meta(description="The store of the pool.")]
    replicas: Annotated[list[ReplicaAnswer], Meta(description="Servers on this store, by name.")]


def owed_of(records: Iterable[Instance | Provision], failed: Mapping[str, str]) -> list[OwedAnswer]:
    """What each of them owes; `failed` says why it could not be paid."""
    return [
        OwedAnswer(one.id, owed.kind, owed.due_at, failed.get(one.id, "") or WAITS.get(owed.kind, ""))
        for one in records
        if (owed := debt_of(one.owes)) is not None
    ]
