"""What refresh, the loops of servers and operators did, and why."""

from typing import Annotated

from msgspec import Meta

from bullpen.model.activity_note import ActionNote
from bullpen.schema.base import AnswerBody, Time, filled


class NotedAction(AnswerBody, frozen=True):
    """One action."""

    at: Annotated[Time, Meta(description="When it was done.")]
    by: Annotated[str, Meta(description="Process and controller that did it, such as `serve on host (4711)/reap`.")]
    did: Annotated[str, Meta(description="What was done.")]
    subject: Annotated[str, Meta(description="Instance, class, run or other subject.")]
    reason: Annotated[str, Meta(description="Why.")]
    is_done: Annotated[bool, Meta(description="False if it could not be done.")]
    trouble: Annotated[bool, Meta(description="Whether an operator should look at it.")]


class ActivityList(AnswerBody, frozen=True):
    """A page of actions, the newest first. It may have fewer than its limit, even none, and still have a next one."""

    actions: Annotated[list[NotedAction], Meta(description="The actions.")]
    next: Annotated[str, Meta(description="`before` of the next page; empty at the end.")]


def action_of(note: ActionNote) -> NotedAction:
    return filled(NotedAction, note)
