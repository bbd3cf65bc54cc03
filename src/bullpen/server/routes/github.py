"""Webhooks of GitHub. A delivery only wakes the controller of its run, and is answered before that looks.

It also shows which repository has a name at this time: the first one that is seen under it is the one that bare names
mean.
"""

from typing import Annotated, Any

import msgspec
from litestar import Router
from litestar.params import HeaderParameter
from msgspec import Meta

from bullpen.errors import BullpenError, NotFound, PermissionDenied
from bullpen.pool import repositories
from bullpen.ports.callers import IgnoredEvent, RunEvent
from bullpen.schema.base import AnswerBody
from bullpen.server.authentication import unauthorized
from bullpen.server.context import Asking, Ctx
from bullpen.server.mistakes import of_decoding
from bullpen.server.problems import bad_input, shown
from bullpen.server.routes.responses import post
from bullpen.structured_log import get_logger

LARGEST = 1024 * 1024  # bytes of a delivery; those of runs and jobs have about ten thousand
ENDED = "completed"  # in GitHub's word, of a run or a job
QUEUED = "queued"  # of a job
OF_RUN = "workflow_run"
FORM = "application/x-www-form-urlencoded"

log = get_logger("bullpen.server")

Signature = Annotated[str, HeaderParameter(name="X-Hub-Signature-256", description="HMAC of the body as it comes.")]
Event = Annotated[str, HeaderParameter(name="X-GitHub-Event", description="What the body is about.")]
Id = Annotated[str, HeaderParameter(name="X-GitHub-Delivery", description="The same if it is sent again.")]


class Delivered(AnswerBody, frozen=True):
    """`noted` is false for what does not concern this pool, and `reason` says why."""

    noted: Annotated[bool, Meta(description="False for what does not concern this pool.")]
    reason: Annotated[str, Meta(description="Why it was not noted; empty if it was.")] = ""


@post(
    "/v1/github/webhook",
    status_code=202,
    summary="Receive a delivery of GitHub's webhook",
    security=[{}],
    request_max_body_size=LARGEST,
    opt={"body": "application/json"},
)
async def receive_webhook(
    request: Asking,
    context: Ctx,
    signature: Signature = "",
    event: Event = "",
    delivery: Id = "",
) -> Delivered:
    """Signed with `github.webhook-secret` over the body as it comes. It only wakes the server, which asks GitHub."""
    if context.verifiers.webhooks is None:
        raise NotFound("this server expects no webhooks", remedy="Set github.webhook-secret, with engines.ci = github.")
    with context.admission.read_unproved():
        body = await request.body()
    try:
        context.verifiers.webhooks.check(signature, body)
    except PermissionDenied as exc:
        log.warning("webhook refused", error=exc)
        remedy = "Set the secret of the webhook at GitHub to github.webhook-secret."
        raise unauthorized("the delivery is not signed with the secret of this webhook", remedy) from exc
    id = shown(delivery)
    if request.headers.get("content-type", "").startswith(FORM):
        remedy = "Choose application/json as the content type of the webhook at GitHub."
        raise bad_input("the delivery is a form", "content-type", FORM, "application/json", remedy=remedy)
    try:
        found = context.verifiers.webhooks.read(event, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        log.warning("webhook cannot be read", kind=shown(event), delivery=id)
        raise of_decoding(exc, body=body) from exc
    again = "yes" if id in context.deliveries else None  # it wakes the controller all the same, without harm
    context.deliveries.append(id)
    delivered: dict[str, Any] = {"kind": shown(event), "delivery": id, "again": again}
    if isinstance(found, IgnoredEvent):
        log.info("webhook ignored", **delivered, reason=found.why)
        return Delivered(False, found.why)
    log.info("webhook received", **delivered, run=found.run, repository=found.repository, action=shown(found.action))
    has_ended = found.action == ENDED
    if has_ended:
        runs = context.service.runs
        (runs.note if event == OF_RUN else runs.note_job)(found.repository, found.run)
    of_a_set = found.action == QUEUED and context.service.sets.note_queued(found.labels, found.repository)
    await _see_repository(context, found)
    return (
        Delivered(True)
        if has_ended or of_a_set
        else Delivered(False, "the action is not completed: other changes are polled")
    )


async def _see_repository(context: Ctx, found: RunEvent) -> None:
    """Note the repository's id under its name, once in this process. A store that does not answer fails no delivery:
    the repository is seen with its next one, or with its next provision."""
    named = (found.repository, found.repository_id)
    if not found.repository_id or named in context.repositories:
        return
    try:
        await repositories.see(context.ports, *named, by="webhook")
        context.repositories.append(named)
    except BullpenError as exc:
        log.warning("id of a repository is not noted", repository=found.repository, error=exc)


ROUTER = Router("/", route_handlers=[receive_webhook], tags=["github"])
