"""Fills the working directory of a job with the files of its source. Runs in a process of its own, see `forked`.

    beside the store    the manifest and the packs are read where they lie
    through `serve`     the manifest and its blocks come as one bundle, into a file without a name

What is needed is opened as the agent's user; everything is written as the user of the jobs.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

from bullpen.agent.config import Config
from bullpen.agent.forked import CannotDo, become
from bullpen.host.packs import offsets, read_bundle
from bullpen.host.unpack import BadContent, Blocks, unpack
from bullpen.model import manifest as manifests
from bullpen.model.manifest import BadManifest, Manifest, is_hash

if TYPE_CHECKING:
    from bullpen.agent.account import Account
    from bullpen.agent.store.base import Order

T = TypeVar("T")

PATIENCE = 30.0  # seconds for the server to send the next bytes
RESTARTED_WITHIN = 60.0  # seconds for a server that does not answer, such as one that is upgraded
ASK_AGAIN = 1.0  # seconds
PIECE = 256 * 1024
AGAIN = "run it again: what is damaged is sent again"


def directory_of(config: Config, order: Order) -> Path:
    """The working directory of a job with files: one for each assignment."""
    return config.places["work"] / f"{order.job.id}.{order.job.fence}"


def fill(config: Config, order: Order, account: Account | None) -> str:
    """Make the directory and unpack the source into it; returns where in it the job begins. Raise CannotDo."""
    blocks = Blocks()
    packs: dict[str, str] = {}  # block → the pack that should have it
    try:
        if not order.source:
            manifest = Manifest()
        elif config.serve_url:
            manifest = _fetch(config, order, blocks)
        else:
            manifest = _open(config.home / "sources", order.source, blocks, packs)
        become(account)
        directory = directory_of(config, order)
        directory.mkdir(mode=0o755)
        top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        unpack(manifest, blocks, top)
        return manifest.start
    except (BadManifest, BadContent) as exc:
        pack = packs.get(exc.digest, "") if isinstance(exc, BadContent) else ""
        raise CannotDo(f"the files of the project are damaged: {exc}; {AGAIN}", about=pack) from exc
    except OSError as exc:
        if exc.errno in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
            raise CannotDo(f"{os.fsdecode(exc.filename or '')}: this name cannot be used here: {exc.strerror}") from exc
        where = f"{os.fsdecode(exc.filename)}: " if exc.filename else ""
        text = f"the files of the project cannot be unpacked here: {where}{exc.strerror or exc}"
        raise CannotDo(text, elsewhere=True) from exc


def set_aside(config: Config, pack: str) -> None:
    """Take a damaged pack out of the store: the next run that needs its content sends it again."""
    store = config.home / "sources"
    if is_hash(pack) and not config.serve_url:
        (store / "incoming").mkdir(mode=0o700, exist_ok=True)
        (store / "packs" / pack).rename(store / "incoming" / f"damaged-{pack}")


def _open(store: Path, source: str, blocks: Blocks, packs_of: dict[str, str]) -> Manifest:
    if not is_hash(source):
        raise BadManifest(f"{source!r} is not the id of a source")
    try:
        encoded = (store / "manifests" / f"{source}.json").read_bytes()
        where = json.loads((store / "manifests" / f"{source}.where").read_bytes())
    except FileNotFoundError:
        raise CannotDo(f"the files of the project, {source[:12]}, are not stored any more; run it again") from None
    except ValueError as exc:
        raise BadManifest(str(exc)) from exc
    manifest = _checked(encoded, source)
    try:
        packs, places = [str(name) for name in where["packs"]], where["where"]
        by_pack: list[dict[str, tuple[int, int]]] = [{} for _ in packs]
        for (digest, length), (number, offset) in zip(manifest.blocks, places, strict=True):
            by_pack[number][digest] = (offset, length)
            packs_of[digest] = packs[number]
    except (KeyError, TypeError, ValueError, IndexError) as exc:
        raise BadManifest(f"the places of its blocks: {exc!r}") from exc
    for name, content in zip(packs, by_pack, strict=True):
        try:
            fd = os.open(store / "packs" / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BadContent(f"pack {name[:12]} is gone", "") from None
        blocks.add(fd, content)
        os.close(fd)
    return manifest


def _checked(encoded: bytes, source: str) -> Manifest:
    if manifests.source_id(encoded) != source:
        raise BadManifest("the manifest has other content than its id says")
    return manifests.decode(encoded)


def _fetch(config: Config, order: Order, blocks: Blocks) -> Manifest:
    with tempfile.TemporaryFile(dir=config.directory) as spool:
        try:
            patiently(lambda: _download(config, order, spool))
        except HTTPException as exc:
            raise CannotDo(f"the files of the project were not fetched: {exc!r}", elsewhere=True) from exc
        spool.flush()
        spool.seek(0)
        encoded, manifest, begin = read_bundle(spool)
        if manifests.source_id(encoded) != order.source:
            raise BadManifest("the server sent another manifest")
        places = {digest: (offset, length) for digest, offset, length in offsets(manifest, begin)}
        blocks.add(spool.fileno(), places)
        return manifest


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while a server does not answer, or stops in the middle: it may be starting again."""
    give_up = time.monotonic() + RESTARTED_WITHIN
    while True:
        try:
            return ask()
        except (ConnectionError, TimeoutError, HTTPException):
            if time.monotonic() >= give_up:
                raise
            time.sleep(ASK_AGAIN)


def _download(config: Config, order: Order, spool: BinaryIO) -> None:
    spool.seek(0)
    spool.truncate()
    connection = connected(config)
    try:
        path = f"/v1/agents/{quote(config.instance_id, safe='')}/jobs/{quote(order.job.id)}/source"
        connection.request("GET", f"{path}?fence={order.job.fence}", headers=authorization(config))
        answer = connection.getresponse()
        if answer.status >= 500:
            raise HTTPException(f"the server answers {answer.status}")
        if answer.status != 200:
            said = answer.read(2000).decode(errors="replace")
            is_final = answer.status in (400, 404, 409)
            text = f"the server does not give the files of the project: {answer.status} {said}"
            raise CannotDo(text, elsewhere=not is_final)
        while piece := answer.read(PIECE):
            spool.write(piece)
        if answer.length:  # `read` does not mind
            raise HTTPException(f"the answer ends {answer.length} bytes early")
    finally:
        connection.close()


def connected(config: Config) -> HTTPConnection:
    url = urlsplit(config.serve_url)
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    return kind(url.netloc, timeout=PATIENCE)


def authorization(config: Config) -> dict[str, str]:
    return {"Authorization": f"Bearer {config.token}"} if config.token else {}
