"""Both clients against a real `bullpen serve`: a run from its provision to its release, and what can be asked."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from bullpen.auth.tokens import Scope
from bullpen.client import AsyncClient, Client, ProvisionRun, SubmitJob
from bullpen.client.answers import Reply
from bullpen.client.transport import BlockingTransport, HttpRequest, ServerAway
from bullpen.errors import ConfigError, NotFound, PermissionDenied, ProvisionFailed, Unavailable
from bullpen.model.instance import State as InstanceState
from bullpen.model.job import Result
from bullpen.schema.event import EventKind
from bullpen.schema.operation import OperationKind, OperationState, ProgressAnswer
from made_tokens import make_token
from server.served import ServeProcess, a_server, end_pool, environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("client") / "home"


@pytest.fixture(scope="module")
def tokens(home: Path) -> dict[Scope, str]:
    home.mkdir(parents=True)
    return {scope: make_token(home, scope) for scope in (Scope.READ, Scope.OPERATE)}


@pytest.fixture(scope="module")
def served(home: Path, tokens: dict[Scope, str]) -> Iterator[ServeProcess]:
    with a_server(home, "--set", "limits.max-count=5") as served:
        yield served
    end_pool(home)


@pytest.fixture
def client(served: ServeProcess, tokens: dict[Scope, str]) -> Iterator[Client]:
    with Client(served.url, token=tokens[Scope.OPERATE]) as client:
        yield client


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("_")}

    assert methods(Client) == methods(AsyncClient)


@pytest.mark.parametrize("run_id", ["sync-1", "feature/x", "a/../b"])
def test_a_run_from_its_provision_to_its_release(client: Client, run_id: str) -> None:
    reports: list[ProgressAnswer] = []
    provisioned = client.provision(run_id, ProvisionRun(count=2), progress=reports.append)
    assert [one.state for one in provisioned.instances] == [InstanceState.RUNNING] * 2
    job = client.submit(SubmitJob(run_id=run_id, command=("sh", "-c", "echo one; sleep 0.3; echo two"), name="say"))
    assert list(client.job_lines(job.id)) == ["one", "two"]
    assert client.job(job.id).result is Result.SUCCEEDED
    assert [one.id for one in client.jobs(run_id)] == [job.id]
    assert {one.id for one in client.instances(run_id=run_id)} == {one.instance_id for one in provisioned.instances}
    assert run_id in [one.id for one in client.runs()]
    assert len(client.run(run_id).instances) == 2
    assert {one.instance_id for one in client.workers()} >= {one.instance_id for one in provisioned.instances}
    assert client.worker(client.job(job.id).worker).instance_id == client.job(job.id).instance_id
    assert {one.id for one in client.stories(run_id).stories} >= {job.id, provisioned.provision_id}
    first = next(iter(client.operations(run_id=run_id, kind=OperationKind.PROVISION)))
    assert client.operation(first.id).state is OperationState.SUCCEEDED
    assert client.status().counts["small"]["running"] >= 2
    assert len(client.release(run_id).offered) == 2


def test_the_asynchronous_client_does_the_same(served: ServeProcess, tokens: dict[Scope, str]) -> None:
    async def story() -> tuple[list[str], int]:
        async with AsyncClient(served.url, token=tokens[Scope.OPERATE]) as client:
            await client.provision("async-1", ProvisionRun(count=1))
            job = await client.submit(SubmitJob(run_id="async-1", command=("sh", "-c", "echo one; echo two")))
            lines = [line async for line in client.job_lines(job.id)]
            return lines, len((await client.release("async-1")).offered)

    assert asyncio.run(story()) == (["one", "two"], 1)


def test_a_job_is_cancelled(client: Client) -> None:
    client.provision("cancel-1", ProvisionRun(count=1))
    job = client.submit(SubmitJob(run_id="cancel-1", command=("sleep", "600")))
    client.cancel_job(job.id)
    assert list(client.job_lines(job.id)) == []
    assert client.job(job.id).result is Result.CANCELLED
    client.release("cancel-1")


def test_a_job_whose_answer_was_lost_is_queued_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request arrives, and the connection breaks before its answer does."""
    client.provision("lost-1", ProvisionRun(count=1))
    exchange, lost = BlockingTransport.exchange, list[HttpRequest]()

    async def losing(transport: BlockingTransport, request: HttpRequest) -> Reply:
        reply = await exchange(transport, request)
        if request.path == "/v1/jobs" and request.method == "POST" and not lost:
            lost.append(request)
            raise ServerAway("cut", remedy="", was_sent=True)
        return reply

    monkeypatch.setattr(BlockingTransport, "exchange", losing)
    wanted = SubmitJob(run_id="lost-1", command=("true",))
    job = client.submit(wanted, key="mine")
    assert lost
    assert [one.id for one in client.jobs("lost-1")] == [job.id]
    assert client.submit(wanted, key="mine").id == job.id
    with pytest.raises(ConfigError) as caught:
        client.submit(SubmitJob(run_id="lost-1", command=("false",)), key="mine")
    assert caught.value.code == "idempotency-mismatch"
    client.release("lost-1")


def test_events_begin_with_everything_there_is(client: Client) -> None:
    client.provision("events-1", ProvisionRun(count=1))
    seen: set[EventKind] = set()
    for event in client.events():
        seen.add(event.kind)
        if {EventKind.INSTANCE, EventKind.WORKERS, EventKind.OPERATION} <= seen:
            break
    client.release("events-1")


def test_lists_are_read_page_by_page(client: Client) -> None:
    client.provision("pages-1", ProvisionRun(count=3))
    page = client.instance_page(run_id="pages-1", limit=2)
    assert len(page.instances) == 2
    assert page.next
    assert len(client.instance_page(run_id="pages-1", limit=2, after=page.next).instances) == 1
    client.release("pages-1")


def test_a_provision_that_is_not_met_is_raised_with_its_remedy(client: Client) -> None:
    with pytest.raises(ProvisionFailed, match=r"^big: .*local\.small") as caught:
        client.provision("big", ProvisionRun(count=1, mem=32 * 1024 * 1024))
    assert caught.value.exit_code == 1


def test_what_the_server_refuses_names_the_field(client: Client) -> None:
    with pytest.raises(ConfigError) as caught:
        client.provision("many", ProvisionRun(count=6))
    assert (caught.value.field, caught.value.code) == ("count", "invalid-request")
    with pytest.raises(NotFound) as missing:
        client.job("j-0000000000000000")
    assert (missing.value.code, missing.value.exit_code) == ("not-found", 1)


def test_a_token_of_a_lower_scope_is_refused_with_the_scope_that_is_needed(
    served: ServeProcess, tokens: dict[Scope, str]
) -> None:
    with Client(served.url, token=tokens[Scope.READ]) as client:
        assert client.status().pools
        with pytest.raises(PermissionDenied, match="the token's scope is read: this needs operate") as caught:
            client.provision("4711", ProvisionRun(count=1))
    assert "bullpen token create --scope operate" in caught.value.remedy
    assert tokens[Scope.READ] not in str(caught.value)


@pytest.mark.parametrize(("token", "says"), [("", "a token is needed"), ("bp_wrong", "wrong, expired or revoked")])
def test_a_missing_or_wrong_token_is_refused_with_a_remedy(served: ServeProcess, token: str, says: str) -> None:
    with Client(served.url, token=token) as client, pytest.raises(PermissionDenied, match=says) as caught:
        client.status()
    assert caught.value.code == "unauthenticated"
    assert "bullpen token create" in caught.value.remedy or "BULLPEN_TOKEN" in caught.value.remedy


def test_streams_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    """Its port and home stay; a job is followed, and events are read, across the kill."""
    with a_server(tmp_path / "home") as first:
        port = str(first.address[1])
        with Client(first.url, patience=120.0) as client:
            client.provision("4711", ProvisionRun(count=1))
            job = client.submit(SubmitJob(run_id="4711", command=("sh", "-c", "echo one; sleep 3; echo two")))
            lines, events = client.job_lines(job.id), client.events()
            assert next(lines) == "one"
            assert next(events).kind in EventKind
            first.process.kill()
            first.process.wait()
            with a_server(tmp_path / "home", "--port", port):
                assert list(lines) == ["two"]
                kinds = {event.kind for event in islice(events, 3)}
                assert EventKind.INSTANCE in kinds or EventKind.WORKERS in kinds
                client.release("4711")


def test_a_server_that_is_gone_ends_a_request_within_its_patience(tmp_path: Path) -> None:
    with a_server(tmp_path / "home") as served, Client(served.url, patience=1.0) as client:
        client.status()
        served.process.kill()
        served.process.wait()
        with pytest.raises(Unavailable, match="does not answer"):
            client.status()


def test_importing_the_client_loads_neither_engines_nor_use_cases_nor_http() -> None:
    """Nor what only a server or the command line needs."""
    heavy = {"httpx", "litestar", "uvicorn", "rich", "click", "sqlite3", "bullpen.engines"}
    heavy |= {
        f"bullpen.{name}" for name in ("provision", "inventory", "liveness", "run", "release", "pool", "settings")
    }
    code = f"import sys, bullpen.client; print(sorted({heavy!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
