"""Why something failed is a word that programs compare, and a sentence that people read."""

import pytest

from bullpen.errors import (
    BullpenError,
    ConfigError,
    FailureCause,
    InsufficientCapacity,
    Interrupted,
    LimitReached,
    NotFound,
    PermissionDenied,
    ProvisionFailed,
    Throttled,
)
from bullpen.provision.outcome import Outcome
from bullpen.schema.base import WorkState
from bullpen.schema.provision import provision_of

CAUSES = [
    (ConfigError("x"), "configuration"),
    (NotFound("x"), "not-found"),
    (Throttled("x", retry_after=1.0), "unavailable"),
    (InsufficientCapacity("x"), "capacity"),
    (LimitReached("x"), "limit"),
    (PermissionDenied("x"), "permission"),
    (ProvisionFailed("x"), "not-met"),
    (Interrupted("x"), "interrupted"),
]


@pytest.mark.parametrize(("error", "cause"), CAUSES, ids=lambda one: type(one).__name__)
def test_a_provision_says_why_it_failed(error: BullpenError, cause: str) -> None:
    answer = provision_of(Outcome("run-1", "p-1", 1).failed(error))
    assert (answer.state, answer.cause.value, answer.reason) == (WorkState.FAILED, cause, "x")


def test_a_provision_that_succeeded_has_no_cause() -> None:
    assert provision_of(Outcome("run-1", "p-1", 1)).cause is FailureCause.NONE


def test_every_error_has_a_cause() -> None:
    def below(kind: type[BullpenError]) -> list[type[BullpenError]]:
        return [kind, *(one for child in kind.__subclasses__() for one in below(child))]

    assert {one.cause for one in below(BullpenError)} == set(FailureCause) - {FailureCause.NONE, FailureCause.FAULT}
