"""The files that jobs work on, and those that they leave behind."""

from typing import Annotated

from msgspec import Meta

from bullpen.schema.base import AnswerBody, RequestBody

MOST_BLOCKS = 10_000  # in one request: it stays below a megabyte
Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern="^[0-9a-f]{64}$", description="A SHA-256.")]


class AskMissing(RequestBody, frozen=True):
    """Which of these blocks does the store lack?"""

    blocks: Annotated[
        tuple[Sha256, ...], Meta(min_length=1, max_length=MOST_BLOCKS, description="The SHA-256 of each block.")
    ]


class SourceLimits(AnswerBody, frozen=True):
    """What the server takes of a project."""

    max_size: Annotated[int, Meta(description="Bytes that the files of one project may have: `sync.max-size`.")]


class MissingBlocks(AnswerBody, frozen=True):
    """The blocks to send. The store keeps the others for an hour."""

    missing: Annotated[list[str], Meta(description="Those that the store lacks, in order.")]


class PieceStored(AnswerBody, frozen=True):
    """How much of a pack or a manifest has arrived."""

    length: Annotated[int, Meta(description="Bytes that are stored; send the next ones from there.")]
    complete: Annotated[bool, Meta(description="Whether all of it is stored, and was verified.")]


class ArtifactFile(AnswerBody, frozen=True):
    path: Annotated[
        str, Meta(description="Below the working directory of the job. A byte that is not UTF-8 is shown as \\xff.")
    ]
    size: Annotated[int, Meta(description="Bytes.")]
    executable: Annotated[bool, Meta(description="Whether its owner may execute it.")]


class ArtifactList(AnswerBody, frozen=True):
    """The artifacts of the job's last assignment. None: `size` is 0."""

    job_id: Annotated[str, Meta(description="The job's id.")]
    fence: Annotated[int, Meta(description="Which assignment left them.")]
    size: Annotated[int, Meta(description="Bytes of the bundle that has them all.")]
    files: Annotated[list[ArtifactFile], Meta(description="The files, by path.")]
