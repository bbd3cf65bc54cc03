"""The requests of GitHub's own client are kept as a table. It sends the same to every service, and Bullpen's engine
sends no others.

The table was recorded from the client v0.4.0 on the emulator 0.1.0. A new version of either may change it:
`python tests/fakes/tests/scale_sets/test_recorded_requests.py` prints what it would be.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bullpen.config import Github
from bullpen.engines.github.client import GithubClient
from bullpen.engines.github.scale_sets.port import GithubScaleSets
from bullpen.engines.system import SystemClock
from bullpen.errors import Conflict
from bullpen.ports import JobMessageKind, ScaleSetSpec
from fakes.scale_sets.go_process import a_go_client
from fakes.scale_sets.recorder import RecordedRequest, recording
from fakes.tests.scale_sets.services import SET, SetPeer

TABLE = Path(__file__).with_name("recorded_requests.json")
UNNEEDED = ("createdOn", "sessionId")  # of what is yet to be made
ACQUIRING = "T/_apis/runtime/runnerscalesets/{id}/acquirejobs"
pytestmark = pytest.mark.slow


def kept() -> list[RecordedRequest]:
    rows = json.loads(TABLE.read_text())
    return [RecordedRequest(**{**row, "query": tuple(row["query"]), "body": tuple(row["body"])}) for row in rows]


def whole_life(peer: SetPeer, go_client: Path) -> list[RecordedRequest]:
    """Everything that the client can ask: its tour, and a listener with a job, a renewed token and a proper end."""
    with recording(peer.url) as recorder:
        page = f"{recorder.url}/acme/widgets"
        with a_go_client(go_client, "tour", page, peer.token) as client:
            assert client.wait() == 0, client.events
        with a_go_client(go_client, "listen", page, peer.token) as client:
            client.wait_for("session")
            job = peer.queue("build")
            peer.run(job, client.wait_for("configured"))
            client.wait_for("started")
            peer.end_queue_token()
            peer.complete(job)
            client.wait_for("completed")
            client.terminate()
            assert client.wait() == 0, client.events
        return recorder.requests()


async def all_calls(peer: SetPeer, url: str) -> None:
    """Every method of the engine, once at least."""
    client = GithubClient(Github(scope="acme/widgets", url=url, token=peer.token), SystemClock())
    sets = GithubScaleSets(client, SystemClock())
    made = await sets.create(ScaleSetSpec(SET, group="Default"))
    assert await sets.find(made.id) == await sets.find_named(SET)
    with pytest.raises(Conflict):
        await sets.create(ScaleSetSpec(SET))
    await sets.correct(made.id, ScaleSetSpec(SET, labels=(SET, "more")))
    session = await sets.open(made.id, "me")
    peer.queue("build")
    message, last = await sets.poll(session, 0, 5), 0
    while message is not None:
        offered = [one.request for one in message.jobs if one.kind is JobMessageKind.AVAILABLE]
        assert await sets.acquire(session, offered) == offered
        await sets.acknowledge(session, message.id)
        last = message.id
        message = await sets.poll(session, last, 5)
    await sets.renew(session)
    configured = await sets.configure(made.id, "r-1", "_work")
    assert await sets.runner(configured.runner.id) == await sets.runner_named("r-1")
    await sets.remove_runner(configured.runner.id)
    await sets.close(made.id, session.id)
    await sets.delete(made.id)
    await client.aclose()


def test_githubs_client_sends_what_the_table_says(peer: SetPeer, go_client: Path) -> None:
    expected = [one for one in kept() if peer.offers or one.path != ACQUIRING]
    assert whole_life(peer, go_client) == expected


def test_the_engine_sends_nothing_that_githubs_client_does_not(peer: SetPeer) -> None:
    """But for headers that no service needs, and for fields that GitHub's client sends without need."""

    def essence(one: RecordedRequest) -> RecordedRequest:
        has_version = one.accept if "api-version" in one.accept else ""
        fields = tuple(name for name in one.body if name not in UNNEEDED)
        return replace(one, accept=has_version, content_type="", body=fields)

    with recording(peer.url) as recorder:
        asyncio.run(all_calls(peer, recorder.url))
        sent = {essence(one) for one in recorder.requests()}
    known = {essence(one) for one in kept() if peer.offers or one.path != ACQUIRING}
    assert sent == known


if __name__ == "__main__":
    from fakes import peers
    from fakes.scale_sets.emulator import emulating
    from fakes.tests.scale_sets.services import Emulated

    with emulating(peers.emulator()) as emulator:
        rows = [json.dumps(asdict(one)) for one in whole_life(Emulated(emulator), peers.go_client())]
        print("[\n  " + ",\n  ".join(rows) + "\n]")
