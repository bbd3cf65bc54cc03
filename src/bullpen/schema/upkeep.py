"""What the commands that keep the pool answer: refresh, down, doctor and token."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from bullpen.errors import BullpenError, FailureCause
from bullpen.ports import StoredToken
from bullpen.ports.health import Finding, Health
from bullpen.refresh import Action
from bullpen.schema.base import AnswerBody, WorkState, filled, time_of


class ActionAnswer(AnswerBody, frozen=True):
    """What refresh does to a subject, or would do, and why."""

    what: str
    subject: str
    reason: str


class RefreshAnswer(AnswerBody, frozen=True):
    """`cause`, `reason` and `remedy` are empty unless something failed; all other actions were performed."""

    state: WorkState
    dry_run: bool
    actions: list[ActionAnswer]
    cause: FailureCause = FailureCause.NONE
    reason: str = ""
    remedy: str = ""


class DownAnswer(AnswerBody, frozen=True):
    """Ids: `terminated` were ended, `left` would not end; `listed` are runners that GitHub keeps on its list until it
    has given up on their jobs."""

    state: WorkState
    terminated: tuple[str, ...]
    left: tuple[str, ...]
    listed: tuple[str, ...] = ()
    cause: FailureCause = FailureCause.NONE
    reason: str = ""
    remedy: str = ""


class CheckAnswer(AnswerBody, frozen=True):
    name: str
    state: Health
    found: str
    remedy: str


class DoctorAnswer(AnswerBody, frozen=True):
    state: WorkState
    checks: list[CheckAnswer]


class TokenState(StrEnum):
    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class TokenAnswer(AnswerBody, frozen=True):
    """A token of an operator, without its secret."""

    name: str
    scope: str
    state: TokenState
    created: str | None
    expires: str | None
    revoked: str | None


class CreatedToken(TokenAnswer, frozen=True, kw_only=True):
    """With its secret, this once."""

    token: str


class RevokedToken(AnswerBody, frozen=True):
    name: str
    state: TokenState = TokenState.REVOKED


class TokenList(AnswerBody, frozen=True):
    tokens: list[TokenAnswer]


def refresh_of(actions: Sequence[Action], *, dry_run: bool, failure: BullpenError | None) -> RefreshAnswer:
    return filled(
        RefreshAnswer,
        failure,
        state=WorkState.FAILED if failure else WorkState.SUCCEEDED,
        dry_run=dry_run,
        actions=[filled(ActionAnswer, one) for one in actions],
        reason=str(failure) if failure else "",
    )


def doctor_of(findings: Sequence[Finding]) -> DoctorAnswer:
    failed = any(one.health is Health.FAILED for one in findings)
    return DoctorAnswer(
        WorkState.FAILED if failed else WorkState.SUCCEEDED,
        [CheckAnswer(one.name, one.health, one.found, one.remedy) for one in findings],
    )


def token_of(token: StoredToken, now: datetime) -> TokenAnswer:
    return filled(
        TokenAnswer,
        token,
        state=token_state(token, now),
        created=time_of(token.created),
        expires=time_of(token.expires),
        revoked=time_of(token.revoked),
    )


def created_token_of(secret: str, token: StoredToken, now: datetime) -> CreatedToken:
    return filled(CreatedToken, token_of(token, now), token=secret)


def token_state(token: StoredToken, now: datetime) -> TokenState:
    if token.revoked is not None:
        return TokenState.REVOKED
    return TokenState.VALID if token.is_valid(now) else TokenState.EXPIRED
