"""GitHub's own client on the GitHub of our tests: it does there what it does on an emulator that is not ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.scale_sets.go_process import GoClient, a_go_client
from fakes.tests.scale_sets.services import SetPeer

pytestmark = pytest.mark.slow


@pytest.fixture
def listener(peer: SetPeer, go_client: Path) -> Iterator[GoClient]:
    """It listens to the set, as the only one."""
    with a_go_client(go_client, "listen", f"{peer.url}/acme/widgets", peer.token) as client:
        client.wait_for("session")
        yield client


def test_every_call_of_the_client_is_answered_as_it_expects(peer: SetPeer, go_client: Path) -> None:
    with a_go_client(go_client, "tour", f"{peer.url}/acme/widgets", peer.token) as client:
        assert client.wait() == 0, client.events
        sets = client.wait_for("sets", group=1, corrected="medium-corrected")
        assert len({sets["made"], sets["byName"], sets["byID"]}) == 1
        assert "409" in client.wait_for("refused")["error"]
        assert client.wait_for("taken")["exists"]
        runners = client.wait_for("runners", gone=True, set=sets["made"])
        assert runners["id"] == runners["named"]
        assert "404" in client.wait_for("deleted")["error"]


def test_a_job_runs_to_its_completion(peer: SetPeer, listener: GoClient) -> None:
    job = peer.queue("build")
    peer.run(job, listener.wait_for("configured"))
    started = listener.wait_for("started")
    assert started["runner"] == "medium-go-1"
    peer.complete(job)
    assert listener.wait_for("completed")["result"] == "succeeded"
    listener.terminate()
    assert listener.wait() == 0
    desired = [one["count"] for one in listener.events if one["event"] == "desired"]
    assert (desired[0], max(desired), desired[-1]) == (0, 1, 0)


def test_a_refused_token_of_the_queue_is_renewed(peer: SetPeer, listener: GoClient) -> None:
    peer.end_queue_token()
    peer.queue("build")
    listener.wait_for("desired", count=1)


def test_an_error_of_the_server_is_waited_out(peer: SetPeer, listener: GoClient) -> None:
    peer.fail_polls(503, times=2)
    peer.queue("build")
    listener.wait_for("desired", count=1)


def test_a_second_session_is_refused(peer: SetPeer, listener: GoClient, go_client: Path) -> None:
    with a_go_client(go_client, "listen", f"{peer.url}/acme/widgets", peer.token) as second:
        assert second.wait() == 1
        assert "409" in second.wait_for("failed")["error"]
    assert peer.has_session()


def test_sigterm_closes_the_session(peer: SetPeer, listener: GoClient) -> None:
    listener.terminate()
    assert listener.wait() == 0
    listener.wait_for("closed")
    assert not peer.has_session()


def test_a_revoked_jwt_ends_the_client_and_leaks_its_session(peer: SetPeer, listener: GoClient) -> None:
    """Not what a listener should do: it is why Bullpen has one of its own."""
    peer.revoke_jwts()
    peer.end_queue_token()
    assert listener.wait() == 1
    assert "401" in listener.wait_for("unclosed")["error"]
    assert peer.has_session()
