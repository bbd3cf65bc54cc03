"""The files of projects, as clients send them, and the artifacts of jobs, as clients read them.

A client asks which blocks are missing, sends packs of those, and then the manifest, each in pieces of a bounded size:
a piece that is sent twice counts once, and a client that lost its connection goes on where it was.
"""

from typing import Annotated

from litestar import Response, Router
from litestar.params import JSONBody, PathParameter, QueryParameter

from bullpen import jobs
from bullpen.auth.tokens import Scope
from bullpen.errors import Refused
from bullpen.host.packs import LENGTH, read_head
from bullpen.model import limits, manifest
from bullpen.ports import Ports
from bullpen.ports.sources import NoSources, no_store
from bullpen.schema.sources import ArtifactFile, ArtifactList, AskMissing, MissingBlocks, PieceStored, SourceLimits
from bullpen.server.context import Asking, Ctx
from bullpen.server.parameters import JobPath
from bullpen.server.problems import bad_input
from bullpen.server.routes.jobs import NEXT_OFFSET
from bullpen.server.routes.responses import get, post, put

PIECE = 512 * 1024  # bytes of a pack or a manifest in one request
PAGE = 1024 * 1024  # bytes of artifacts in one answer
LARGEST_LIST = (
    8 * 1024 * 1024
)  # bytes of a manifest of artifacts: an agent sends it, and heartbeats wait while it is read

OCTETS = "application/octet-stream"
PackPath = Annotated[str, PathParameter(description="SHA-256 of the pack's index.")]
SourcePath = Annotated[str, PathParameter(description="SHA-256 of the manifest.")]
Offset = Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Where the bytes of the body begin.")]
Size = Annotated[int, QueryParameter(ge=1, le=limits.NUMBER, description="Bytes of the whole.")]


@get("/v1/sources/limits", summary="Show how large a project may be")
async def show_source_limits(request: Asking, context: Ctx) -> SourceLimits:
    """Ask before the files of a project are read: a client refuses one that is larger."""
    with context.serving(request, Scope.OPERATE):
        if isinstance(context.ports.sources, NoSources):
            raise no_store()
        return SourceLimits(context.settings.sync.max_bytes)


@post("/v1/sources/missing", summary="Ask which blocks are not stored")
async def list_missing_blocks(request: Asking, context: Ctx, data: JSONBody[AskMissing]) -> MissingBlocks:
    """The store keeps the blocks that it has for an hour: send the others, then the manifest."""
    with context.serving(request, Scope.OPERATE):
        return MissingBlocks(sorted(await context.ports.sources.missing(data.blocks)))


@put("/v1/sources/packs/{pack_id:str}", summary="Send a piece of a pack", opt={"body": OCTETS})
async def send_pack(request: Asking, context: Ctx, pack_id: PackPath, offset: Offset, size: Size) -> PieceStored:
    """At most 512 KiB. What is there already is left alone. The last piece has the pack verified. A gap is a 409, and
    so is a pack that the store has no room for (`sync.store-size`)."""
    context.operator(request, Scope.OPERATE)
    content = await piece_of(request)
    with context.admission.work():
        room = context.settings.sync.store_bytes
        length = await context.ports.sources.receive_pack(pack_id, offset, size, content, room=room)
    return PieceStored(length, length == size)


@put("/v1/sources/manifests/{source_id:str}", summary="Send a piece of a manifest", opt={"body": OCTETS})
async def send_manifest(
    request: Asking, context: Ctx, source_id: SourcePath, offset: Offset, size: Size
) -> PieceStored:
    """As a pack. A manifest that names a block which is not stored is a 409: ask again which blocks are missing."""
    context.operator(request, Scope.OPERATE)
    content = await piece_of(request)
    with context.admission.work():
        room = context.settings.sync.store_bytes
        length = await context.ports.sources.receive_manifest(source_id, offset, size, content, room=room)
    return PieceStored(length, length == size)


async def piece_of(request: Asking) -> bytes:
    """The body. Raise a 413 if it is longer than a piece."""
    content = await request.body()
    if len(content) > PIECE:
        raise bad_input("the piece is too large", "body", len(content), f"at most {PIECE} bytes", status=413)
    return content


@get("/v1/jobs/{job_id:str}/artifacts", summary="List the files that a job left")
async def list_artifacts(request: Asking, context: Ctx, job_id: JobPath) -> ArtifactList:
    """Those of the job's last assignment, once it has ended."""
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        found, begin = await _manifest_of(context.ports, job_id, job.fence)
        files = [ArtifactFile(_shown(one.path), found.file_size(one), one.executable) for one in found.files]
        size = begin + sum(length for _, length in found.blocks)
        return ArtifactList(job_id, job.fence, size, files)


@get(
    "/v1/jobs/{job_id:str}/artifacts/content",
    summary="Read the bundle of a job's artifacts from an offset on",
    media_type=OCTETS,
    opt={"answer": OCTETS, "headers": NEXT_OFFSET},
)
async def read_artifacts(
    request: Asking,
    context: Ctx,
    job_id: JobPath,
    offset: Annotated[int, QueryParameter(ge=0, le=limits.NUMBER, description="Where to begin.")] = 0,
) -> Response[bytes]:
    """At most 1 MiB from `offset` on, and nothing at the end. The header `bullpen-next-offset` says where to go on."""
    with context.serving(request, Scope.READ):
        job = await jobs.find(context.ports, job_id)
        content = await context.ports.artifacts.read(job_id, job.fence, offset, PAGE)
        headers = {"x-content-type-options": "nosniff", "bullpen-next-offset": str(offset + len(content))}
        return Response(content, media_type=OCTETS, headers=headers)


async def _manifest_of(ports: Ports, job_id: str, fence: int) -> tuple[manifest.Manifest, int]:
    """The manifest of a bundle, and where its blocks begin; an empty one if there is no bundle."""
    head = await ports.artifacts.read(job_id, fence, 0, LENGTH.size)
    if not head:
        return manifest.Manifest(), 0
    try:
        end, encoded = LENGTH.size + read_head(head), b""
        if end > LARGEST_LIST:
            raise manifest.BadManifest(f"the list of files has more than {LARGEST_LIST} bytes")
        while len(encoded) < end - LENGTH.size:
            at = LENGTH.size + len(encoded)
            piece = await ports.artifacts.read(job_id, fence, at, min(PAGE, end - at))
            if not piece:
                raise manifest.BadManifest("the bundle ends before its manifest does")
            encoded += piece
        return manifest.decode(encoded), end
    except manifest.BadManifest as exc:
        raise Refused(f"the artifacts of {job_id} are damaged: {exc}") from exc


def _shown(path: str) -> str:
    """As JSON can say it: bytes that are not UTF-8 as in `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


ROUTER = Router(
    "/",
    route_handlers=[show_source_limits, list_missing_blocks, send_pack, send_manifest, list_artifacts, read_artifacts],
    tags=["sources"],
)
