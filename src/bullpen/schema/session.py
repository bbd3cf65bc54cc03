"""The session of a browser: what it is opened with, and whose it is."""

from typing import Annotated

from msgspec import Meta

from bullpen.auth.tokens import Scope
from bullpen.model import limits
from bullpen.schema.base import AnswerBody, RequestBody, Time


class LogIn(RequestBody, frozen=True):
    """A log-in at the dashboard."""

    token: Annotated[
        str, Meta(min_length=1, max_length=limits.TOKEN_LENGTH, description="Token of an operator. A secret.")
    ]


class SessionAnswer(AnswerBody, frozen=True):
    """Who the caller is: `open` with the scope `admin` at a server without tokens, which needs no log-in."""

    name: Annotated[str, Meta(description="Name of the token; `open` at a server that needs none.")]
    scope: Annotated[Scope, Meta(description="What the caller may do.")]
    expires_at: Annotated[
        Time | None, Meta(description="When the session ends, unless its token does first; null if there is none.")
    ]


class SessionEnded(AnswerBody, frozen=True):
    ended: Annotated[bool, Meta(description="False if there was no session, or it had ended.")]
