"""The files of a job come and go although the server stops in the middle and starts again."""

import json
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from bullpen.agent import unpack_source
from bullpen.agent.collect_artifacts import collect
from bullpen.agent.config import Config
from bullpen.agent.forked import CannotDo
from bullpen.agent.progress import HeldJob, LeaseHolder
from bullpen.agent.store.base import Order
from bullpen.agent.unpack_source import directory_of, fill
from bullpen.host.packs import bundle_head
from bullpen.model.manifest import FileEntry, Manifest, encode, source_id

CONTENT = b"content of a file" * 1000
ENCODED = encode(Manifest((FileEntry("a", False, (0,)),), blocks=((sha256(CONTENT).hexdigest(), len(CONTENT)),)))
BUNDLE = bundle_head(ENCODED) + CONTENT


class Unsteady(ThreadingHTTPServer):
    """Breaks off its first answers, then says 503 once, then works."""

    breaks = 2

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked = 0
        self.taken = b""


class Answering(BaseHTTPRequestHandler):
    server: Unsteady

    def do_GET(self) -> None:
        self._unsteadily(lambda: self._answer(200, BUNDLE, len(BUNDLE)))

    def do_POST(self) -> None:
        piece = self.rfile.read(int(self.headers["content-length"]))
        offset = int(parse_qs(urlsplit(self.path).query)["offset"][0])
        self.server.taken += piece[len(self.server.taken) - offset :]
        said = json.dumps({"length": len(self.server.taken)}).encode()
        self._unsteadily(lambda: self._answer(200, said, len(said)))

    def _unsteadily(self, answer: Callable[[], None]) -> None:
        self.server.asked += 1
        if self.server.asked <= self.server.breaks:
            self._answer(200, BUNDLE[:1000], len(BUNDLE))
        elif self.server.asked == self.server.breaks + 1:
            self._answer(503, b"", 0)
        else:
            answer()

    def _answer(self, status: int, content: bytes, length: int) -> None:
        self.send_response(status)
        self.send_header("content-length", str(length))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unsteady]:
    monkeypatch.setattr(unpack_source, "ASK_AGAIN", 0.01)
    with Unsteady() as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def an_agent(server: Unsteady, directory: Path) -> Config:
    (directory / "work").mkdir(parents=True)
    url = f"http://127.0.0.1:{server.server_port}"
    return Config("i-1", directory, directory, 1.0, 1.0, 1.0, "", 1.0, (), serve_url=url)


def an_order(artifacts: tuple[str, ...] = ()) -> Order:
    job = HeldJob("j-1", 1, "r", 0.0, LeaseHolder("w", 1))
    return Order(job, ("true",), source=source_id(ENCODED), artifacts=artifacts)


def test_files_are_fetched_again_from_a_server_that_broke_off(server: Unsteady, tmp_path: Path) -> None:
    config = an_agent(server, tmp_path)
    fill(config, an_order(), None)
    assert (directory_of(config, an_order()) / "a").read_bytes() == CONTENT


def test_a_server_that_stays_away_gives_the_job_to_another_runner(
    server: Unsteady, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the files that are damaged: the job must not fail for good."""
    monkeypatch.setattr(unpack_source, "RESTARTED_WITHIN", 0.0)
    with pytest.raises(CannotDo, match="were not fetched") as refused:
        fill(an_agent(server, tmp_path), an_order(), None)
    assert refused.value.code == CannotDo("", elsewhere=True).code


def test_artifacts_are_sent_again_to_a_server_that_broke_off(server: Unsteady, tmp_path: Path) -> None:
    config = an_agent(server, tmp_path)
    (tmp_path / "work/a").write_bytes(CONTENT)
    assert collect(config, an_order(("a",)), None, tmp_path / "work") == "1"
    assert server.taken == BUNDLE
