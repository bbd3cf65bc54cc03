"""The session of a browser: log-in, who it is, log-out. No other endpoint opens one.

`server.gate` lets these requests pass without a caller: what they show or end is the session of the cookie that they
bring, and a log-in brings its token in the body. Neither is ever logged.
"""

from litestar import Response, Router
from litestar.params import JSONBody

from bullpen.auth.tokens import Operator, Scope
from bullpen.errors import BullpenError
from bullpen.schema.base import time_of
from bullpen.schema.session import LogIn, SessionAnswer, SessionEnded
from bullpen.server.authentication import OPEN, UnknownToken, forbidden, must_be_operator, unauthorized
from bullpen.server.context import Asking, Context, Ctx
from bullpen.server.head import Head
from bullpen.server.parameters import check_query
from bullpen.server.problems import Problem
from bullpen.server.routes.responses import delete, get, post
from bullpen.server.sessions import OpenedSession, is_loopback_name
from bullpen.structured_log import get_logger

PATH = "/v1/session"
LARGEST = 4096  # bytes of a log-in
OTHERS = {"bpa_": "an agent's", "bpr_": "a run's"}
WRONG = "the token is wrong, expired or revoked"
CREATE = "Create one with `bullpen token create`, on the machine of the pool."
UNENCRYPTED = "Use https, through a proxy that passes the header Host on, or forward a port with `ssh -L`."

log = get_logger("bullpen.server")


@post(
    PATH,
    summary="Log in: exchange an operator's token for the session of a browser",
    security=[{}],
    request_max_body_size=LARGEST,
)
async def open_session(request: Asking, context: Ctx, data: JSONBody[LogIn]) -> Response[SessionAnswer]:
    """For the dashboard; programs send their token with each request. The answer sets a cookie that no script can read.
    The session has the token's scope and ends with the token, after 12 hours, or with a log-out. A server without
    tokens needs no log-in, and sets none."""
    head = context.head(request)
    context.doorkeeper.sessions.check_page(head)
    if context.doorkeeper.is_open():
        return Response(_answer_of(context, await _admitted(context, head), head))
    if not is_loopback_name(head.host) and (head.origin or "").lower().startswith("http://"):
        raise forbidden("a browser keeps no session of an unencrypted page of another machine", UNENCRYPTED)
    with context.admission.work():
        opened = await _opened(context, head, data.token.strip(), request.client.host if request.client else "")
    log.info("operator logged in", operator=opened.operator.id, scope=opened.operator.scope, until=opened.ends_at)
    answer = SessionAnswer(opened.operator.id, opened.operator.scope, time_of(opened.ends_at))
    return Response(answer, headers={"set-cookie": opened.cookie, "cache-control": "no-store"})


@get(PATH, summary="Show who the caller is")
async def show_session(request: Asking, context: Ctx) -> SessionAnswer:
    """By the cookie of a session, or by a token. A 401 without one says that a log-in is needed. A server without
    tokens answers `open`, and every caller on its machine may do everything."""
    head = context.head(request)
    return _answer_of(context, await _admitted(context, head), head)


@delete(PATH, summary="Log out", security=[{}])
async def end_session(request: Asking, context: Ctx) -> Response[SessionEnded]:
    """The session of the cookie ends: at this server at once, open streams included, and at others of its pool within
    about two seconds. Without a session there is nothing to end, and that is no error."""
    head, sessions = context.head(request), context.doorkeeper.sessions
    sessions.check_page(head)
    session = sessions.find(head)
    forget = {"set-cookie": sessions.gone(head), "cache-control": "no-store"}
    operator = None if session is None else sessions.operator_of(session)
    if session is None or operator is None:
        return Response(SessionEnded(False), headers=forget)
    try:
        await sessions.end(session)
    except BullpenError as exc:
        log.error("log-out is noted in this process only", operator=operator.id, error=exc)
        remedy = "Revoke the token if others could have the session: `bullpen token revoke`."
        error = "the session has ended at this server; the store could not note it for others"
        raise Problem(503, error, remedy=remedy, headers={**forget, "retry-after": "5"}) from exc
    log.info("operator logged out", operator=operator.id)
    return Response(SessionEnded(True), headers=forget)


def _answer_of(context: Context, operator: Operator, head: Head) -> SessionAnswer:
    session = context.doorkeeper.sessions.find(head) if head.authorization is None and operator != OPEN else None
    return SessionAnswer(operator.id, operator.scope, time_of(session.ends_at if session else None))


async def _opened(context: Context, head: Head, token: str, peer: str) -> OpenedSession:
    """Raise a 401 for a wrong token, a 429 after too many."""
    sessions, limits, keys = context.doorkeeper.sessions, context.logins, context.keys
    now = context.ports.clock.now().timestamp()
    found = keys.stored(token, now)
    if found is None and keys.may_be_new(token):  # created a moment ago, perhaps
        limits.check_wrong(peer)  # first: it is not worth a read of the store
        with context.admission.wait_for_tokens():
            await context.doorkeeper.catch_up()
        found = keys.stored(token, now)
    if found is None:
        limits.note_wrong(peer)
        other = OTHERS.get(token[:4])
        raise unauthorized(f"this is {other} token: the dashboard needs an operator's" if other else WRONG, CREATE)
    limits.check_right(found.id)
    opened = sessions.open(token, head)
    if opened is None:
        raise unauthorized(WRONG, CREATE)
    return opened


async def _admitted(context: Context, head: Head) -> Operator:
    """As `server.gate` admits other requests."""
    try:
        speaker = context.doorkeeper.identify(head)
    except UnknownToken:
        with context.admission.wait_for_tokens():
            await context.doorkeeper.catch_up()
        speaker = context.doorkeeper.identify(head)
    return must_be_operator(speaker, Scope.READ)


ROUTER = Router(
    "/", route_handlers=[open_session, show_session, end_session], tags=["session"], before_request=check_query
)
