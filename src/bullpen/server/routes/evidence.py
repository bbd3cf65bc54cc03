"""Everything that is known about one record, as a zip."""

import os
from collections.abc import AsyncIterator
from typing import Annotated

from litestar import Router
from litestar.params import PathParameter
from litestar.response import Stream

from bullpen.auth.tokens import Scope
from bullpen.evidence import gather
from bullpen.evidence.archive import safe_part, zipped
from bullpen.evidence.scrub import Scrubber, known_secrets
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import check_query
from bullpen.server.routes.responses import get

ZIP = "application/zip"
Subject = Annotated[
    str, PathParameter(description="Id of an instance, provision, job or run, key of a worker, or name of a scale set.")
]


@get(
    "/v1/evidence/{subject:path}",
    summary="Get the record, story, logs and settings that explain something, as a zip",
    media_type=ZIP,
    opt={"answer": ZIP},
)
async def read_evidence(request: Asking, context: Ctx, subject: Subject) -> Stream:
    """Records with their stories, logs of machines and jobs, what workers report about themselves, the settings and
    versions. `manifest.json` lists the files, and what is missing and why. Each log is its end, of 256 KiB, and all
    files together have at most 16 MiB. Secrets are removed, but a job may print what has no form of one: so the scope
    is `operate`."""
    subject = subject.removeprefix("/")
    with context.serving(request, Scope.OPERATE):
        scrubber = Scrubber(known_secrets(context.settings, os.environ))
        files = await gather(context.ports, context.settings, subject, scrubber)
        # Before the answer begins, so that an error is still an answer, and its work is counted.
        pieces = [piece async for piece in zipped(files, context.ports.clock.now())]

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    name = f"evidence-{safe_part(subject)}.zip"
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Stream(stream(), media_type=ZIP, headers=headers | {"x-content-type-options": "nosniff"})


ROUTER = Router("/", route_handlers=[read_evidence], tags=["pool"], before_request=check_query)
