"""The files of projects, sent in pieces, and the artifacts of jobs, read in pieces.

A piece that is sent twice counts once. An upload that was cut goes on where it was, also one of another process: the
server is asked how much it has.
"""

import os
from asyncio import Event
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bullpen.client.base import Methods, part
from bullpen.client.transport import HttpRequest
from bullpen.errors import Conflict, Interrupted, Refused
from bullpen.host.packs import index_of
from bullpen.model.manifest import source_id
from bullpen.schema.sources import ArtifactList, AskMissing, MissingBlocks, PieceStored, SourceLimits

if TYPE_CHECKING:
    from bullpen.client.async_client import AsyncClient

PIECE = 512 * 1024  # bytes that a server takes at once
ATTEMPTS = 3  # to send a pack that the server loses, or that arrives damaged
SendPiece = Callable[[int, int, bytes], Awaitable[PieceStored]]
OCTETS = {"content-type": "application/octet-stream"}


class FileMethods(Methods):
    async def source_limits(self) -> SourceLimits:
        """How large a project may be that the server takes. Raise ConfigError if it takes none."""
        return await self._get("/v1/sources/limits", SourceLimits)

    async def missing_blocks(self, blocks: Sequence[str]) -> set[str]:
        """Which of at most 10,000 blocks the server lacks. It keeps the others for an hour."""
        # Asked twice, it answers the same: it is repeated as a GET would be.
        content = msgspec.json.encode(AskMissing(tuple(blocks)))
        request = HttpRequest("POST", "/v1/sources/missing", content=content)
        return set((await self._requester.ask(request, MissingBlocks)).missing)

    async def send_pack_piece(self, pack_id: str, offset: int, size: int, content: bytes) -> PieceStored:
        """Send at most 512 KiB of a pack of `size` bytes. The answer says where to go on. Raise Conflict for a gap,
        and if the whole is not what its id says."""
        return await self._put(f"/v1/sources/packs/{part(pack_id)}", offset, size, content)

    async def send_manifest_piece(self, source: str, offset: int, size: int, content: bytes) -> PieceStored:
        """As a piece of a pack. Raise Conflict for one that names a block which the server lacks."""
        return await self._put(f"/v1/sources/manifests/{part(source)}", offset, size, content)

    async def artifacts(self, job_id: str) -> ArtifactList:
        """The files that a job left, once it has ended. Raise NotFound for an unknown job."""
        return await self._get(f"/v1/jobs/{part(job_id)}/artifacts", ArtifactList)

    async def read_artifacts(self, job_id: str, offset: int = 0) -> bytes:
        """At most 1 MiB of the bundle that has a job's artifacts; nothing at its end. `bullpen.sources.fetch_artifacts`
        writes its files to a directory."""
        path = f"/v1/jobs/{part(job_id)}/artifacts/content"
        return (await self._requester.reply(HttpRequest("GET", path, {"offset": offset}))).content

    async def _put(self, path: str, offset: int, size: int, content: bytes) -> PieceStored:
        query = {"offset": offset, "size": size}
        request = HttpRequest("PUT", path, query, content=content, headers=OCTETS)
        return await self._requester.ask(request, PieceStored)


class ServerStore:
    """A server as the store that `bullpen.sources.send` sends a project to. `stop` ends it between two pieces."""

    def __init__(self, client: "AsyncClient", stop: Event | None = None) -> None:
        self._client = client
        self._stop = stop

    async def missing(self, blocks: Sequence[str]) -> set[str]:
        return await self._client.missing_blocks(blocks)

    async def add_pack(self, pack: Path) -> None:
        send = partial(self._client.send_pack_piece, index_of(pack).id)
        for last in range(1 - ATTEMPTS, 1):
            try:
                await self._send(send, os.stat(pack).st_size, partial(_piece_of, pack))
                break
            except Conflict as exc:
                if not last:
                    raise Refused(f"the server does not take the files: {exc}", remedy=exc.remedy) from exc

    async def add_manifest(self, content: bytes) -> str:
        """Raise Refused if the server has removed blocks since it was asked about them."""
        source = source_id(content)
        send = partial(self._client.send_manifest_piece, source)
        try:
            await self._send(send, len(content), lambda offset: content[offset : offset + PIECE])
        except Conflict as exc:
            raise Refused(f"the server does not take the files: {exc}", remedy=exc.remedy) from exc
        return source

    async def _send(self, send: SendPiece, size: int, read: Callable[[int], bytes]) -> None:
        """Send what the server lacks of it. What fits into one piece is sent without asking how much that is."""
        stored = await send(0, size, b"") if size > PIECE else PieceStored(0, False)
        while not stored.complete:
            if self._stop is not None and self._stop.is_set():
                raise Interrupted("interrupted while the files were sent", remedy="Nothing was acquired.")
            offset = stored.length
            stored = await send(offset, size, read(offset))
            if stored.length <= offset:
                raise Conflict(f"the server has {stored.length} of {size} bytes after it was sent more")


def _piece_of(pack: Path, offset: int) -> bytes:
    with pack.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE)
