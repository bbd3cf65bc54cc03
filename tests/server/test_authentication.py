"""What each caller may do: operators by scope, agents for their own instance, others nothing."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from bullpen.auth.loopback import is_loopback
from bullpen.auth.tokens import AGENT_LASTS, LOOK_EVERY, STALE, AgentIdentity, Keys, Operator, Scope, drawn
from bullpen.errors import ConfigError, Unavailable
from bullpen.ports import TokenBook
from bullpen.server.authentication import check_bind
from bullpen.server.load_limits import MOST_UNKNOWN
from server.fixtures import INSTANCE, OTHER, House, a_house, keys_of
from server.wired import Wire

NOW = datetime(2026, 1, 1, tzinfo=UTC)

READS = ["/v1/status", "/v1/instances", "/v1/workers", "/v1/jobs?runId=r", "/v1/runs/r", "/v1/operations/op-1"]
WRITES = {
    "/v1/jobs": {"runId": "r", "command": ["true"]},
    "/v1/runs/r/release": None,
    "/v1/jobs/j-1/cancel": None,
    "/v1/jobs/j-1/postpone": {"seconds": 30},
    "/v1/heartbeats": {"workerInstanceKey": "w"},
}
AGENTS = [
    ("GET", "record", None),
    ("POST", "signals", {"kind": "UD_OK", "runId": "", "round": "a", "seq": 1}),
    ("PUT", "registration", {"runId": "r", "round": "a"}),
    ("DELETE", "registration", None),
    ("POST", "jobs/take", {"workerInstanceKey": f"{INSTANCE}/1", "round": "a"}),
    ("POST", "jobs/j-1/bind", {"workerInstanceKey": f"{INSTANCE}/1", "epoch": 1, "fence": 1}),
    ("POST", "jobs/j-1/finish", {"workerInstanceKey": f"{INSTANCE}/1", "epoch": 1, "fence": 1, "exitCode": 0}),
    ("POST", "jobs/j-1/give-back", {"workerInstanceKey": f"{INSTANCE}/1", "epoch": 1, "fence": 1}),
    ("GET", f"jobs/j-1/standing?worker={INSTANCE}/1&epoch=1&fence=1", None),
    ("POST", "jobs/j-1/log?fence=1&offset=0", None),
]


@pytest.mark.parametrize("path", READS)
async def test_reading_needs_a_token_of_any_scope(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask("GET", path)).status_code == 401
        assert (await house.ask("GET", path, "bpo_0_0")).status_code == 401
        assert (await house.ask("GET", path, INSTANCE)).status_code == 403
        for scope in Scope:
            assert (await house.ask("GET", path, scope.value)).status_code in (200, 404)


@pytest.mark.parametrize("path", WRITES)
async def test_changing_needs_more_than_the_scope_read(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        for token, wanted in {None: 401, "wrong": 401, "read": 403, INSTANCE: 403}.items():
            assert (await house.ask("POST", path, token, json=WRITES[path])).status_code == wanted
        assert await house.is_untouched()
        for token in ("operate", "admin"):
            assert (await house.ask("POST", path, token, json=WRITES[path])).status_code in (200, 201, 202, 404, 409)


async def test_a_scope_that_does_not_suffice_says_how_to_get_one_that_does(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        answer = await house.ask("POST", "/v1/runs/run-1/release", "read")
        assert "bullpen token create --scope operate" in answer.json()["remedy"]


@pytest.mark.parametrize(("method", "path", "body"), AGENTS)
async def test_only_an_instances_own_agent_speaks_for_it(tmp_path: Path, method: str, path: str, body: object) -> None:
    async with a_house(tmp_path) as house:
        path = f"/v1/agents/{INSTANCE}/{path}"
        assert (await house.ask(method, path, json=body)).status_code == 403  # open to operators, not to agents
        house.guard()
        assert (await house.ask(method, path, json=body)).status_code == 401
        assert (await house.ask(method, path, OTHER, json=body)).status_code == 403
        assert (await house.ask(method, path, "admin", json=body)).status_code == 403
        assert (await house.ask(method, path, INSTANCE, json=body)).status_code in (200, 404)


async def test_an_agent_cannot_name_the_worker_of_another(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        body = {"workerInstanceKey": f"{OTHER}/1", "round": "a"}
        assert (await house.ask("POST", f"/v1/agents/{INSTANCE}/jobs/take", INSTANCE, json=body)).status_code == 403
        assert (await house.beat(f"{OTHER}/1", token=INSTANCE)).status_code == 403
        assert await house.is_untouched()


async def test_health_needs_no_token(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask("GET", "/healthz")).status_code == 200
        assert (await house.ask("GET", "/readyz")).json()["store"] is True


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
async def test_an_open_service_answers_no_foreign_page(tmp_path: Path, headers: dict[str, str]) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/v1/status", headers=headers)).status_code == 403
        beat = {"workerInstanceKey": "w"}
        assert (await house.ask("POST", "/v1/heartbeats", json=beat, headers=headers)).status_code == 403
        assert await house.is_untouched()


# ---- tokens themselves


def test_a_token_is_kept_as_a_hash() -> None:
    stored, token = drawn(Scope.READ, NOW, None)
    assert token.split("_")[2] not in f"{stored} {stored.sha256}"
    assert stored.name.startswith("token-")


@pytest.mark.parametrize("name", ["-x", "a b", "x" * 65, "ä", "open", "a/b", "a\n"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--name"):
        drawn(Scope.READ, NOW, None, name)


async def test_a_token_is_known_until_it_expires(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        now = house.ports.clock.now()
        token = house.create(Scope.OPERATE, now + timedelta(seconds=60), "ci")
        keys, at = house.context.keys, now.timestamp()
        assert keys.bearer(token, at + 59) == Operator("ci", Scope.OPERATE)
        assert keys.bearer(token, at + 60) is None


async def test_a_revoked_token_is_refused_and_tokens_stay_required(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        for scope in Scope:
            assert (await house.ask("GET", "/v1/status", scope.value)).status_code == 200
            await house.revoke(scope.value)
            assert (await house.ask("GET", "/v1/status", scope.value)).status_code == 401
        assert (await house.ask("GET", "/v1/status")).status_code == 401


def created_elsewhere(house: House, name: str = "new") -> str:
    """A token that the store has, and this process has not read yet."""
    stored, token = drawn(Scope.ADMIN, house.ports.clock.now(), None, name)
    house.memory.shelf.add(stored)
    return token


def counted(house: House, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the tokens are read."""
    reads: list[float] = []
    read = house.ports.tokens.read

    async def noted() -> TokenBook:
        reads.append(asyncio.get_running_loop().time())
        return await read()

    monkeypatch.setattr(house.ports.tokens, "read", noted)
    return reads


async def test_a_token_is_known_as_soon_as_it_is_created(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        before = house.ports.clock.now()
        assert (await house.ask("GET", "/v1/status", created_elsewhere(house))).status_code == 200
        assert house.ports.clock.now() == before
        assert (await house.beat(token=created_elsewhere(house, "beats"))).status_code == 200


@pytest.mark.parametrize("body", [b"", b'{"workerInstanceKey":"w"}'])
async def test_a_connection_admits_a_token_as_soon_as_it_is_created(tmp_path: Path, body: bytes) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        wire = Wire(house)
        head = f"Host: x\r\nAuthorization: Bearer {created_elsewhere(house)}\r\nContent-Length: {len(body)}\r\n\r\n"
        line = "POST /v1/heartbeats HTTP/1.1\r\n" if body else "GET /v1/status HTTP/1.1\r\n"
        for _ in range(2):
            wire.send((line + head).encode(), body)
            await asyncio.sleep(0.1)
        assert wire.statuses == [200, 409 if body else 200]  # the second beat needs the token of the first answer


async def test_a_flood_of_unknown_tokens_adds_one_read_a_second_and_keeps_no_new_token_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        reads = counted(house, monkeypatch)

        async def ask(place: int) -> int:
            await asyncio.sleep(place / 100)
            token = created_elsewhere(house) if place == 250 else drawn(Scope.READ, NOW, None)[1]
            return (await house.ask("GET", "/v1/status", token)).status_code

        found = await asyncio.gather(*(ask(place) for place in range(500)))
        assert [place for place, status in enumerate(found) if status == 200] == [250]
        assert set(found) == {200, 401}
        assert len(reads) <= 500 / 100 / LOOK_EVERY + 2
        assert min(later - sooner for sooner, later in pairwise(reads)) >= LOOK_EVERY


async def test_too_many_unknown_tokens_at_once_are_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        reads = counted(house, monkeypatch)
        wrong = drawn(Scope.READ, NOW, None)[1]
        asked = (house.ask("GET", "/v1/status", wrong) for _ in range(MOST_UNKNOWN + 100))
        found = Counter(one.status_code for one in await asyncio.gather(*asked))
        assert set(found) == {401, 429}
        assert found[429] <= 100
        assert len(reads) <= 2


async def test_callers_that_know_a_token_or_send_no_token_of_operators_cause_no_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        await house.revoke("operate")
        reads = counted(house, monkeypatch)
        for token in ("operate", "wrong", "bpo_0_0", INSTANCE + "_x", "bpr_x_y"):
            assert (await house.ask("GET", "/v1/status", token)).status_code == 401
        assert (await house.ask("GET", "/v1/status", "read")).status_code == 200
        assert reads == []


async def test_an_unknown_secret_of_a_known_id_takes_as_long_as_an_unknown_id(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        keys = house.context.keys
        known = house.tokens["read"]
        assert not keys.may_be_new(known)
        assert keys.may_be_new(known[:-64] + "0" * 64)
        assert keys.may_be_new(drawn(Scope.READ, NOW, None)[1])


async def test_a_read_that_is_cancelled_keeps_no_new_token_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        keys, at = house.context.keys, house.ports.clock.now().timestamp()
        await keys.catch_up(at)  # the next read begins a second later
        read, begun = house.ports.tokens.read, asyncio.Event()

        async def slow() -> TokenBook:
            is_first = not begun.is_set()
            begun.set()
            await asyncio.sleep(2 if is_first else 0)
            return await read()

        monkeypatch.setattr(house.ports.tokens, "read", slow)
        cancelled = asyncio.create_task(keys.catch_up(at))
        await asyncio.sleep(0)
        tokens = [created_elsewhere(house, name) for name in ("new", "other")]
        waiting = [asyncio.create_task(house.ask("GET", "/v1/status", token)) for token in tokens]
        await begun.wait()
        cancelled.cancel()
        assert [one.status_code for one in await asyncio.gather(*waiting)] == [200, 200]


async def test_an_unknown_token_is_a_503_while_the_tokens_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()

        async def broken() -> TokenBook:
            raise Unavailable("away")

        monkeypatch.setattr(house.ports.tokens, "read", broken)
        assert (await house.ask("GET", "/v1/status", created_elsewhere(house))).status_code == 503


async def test_every_replica_learns_of_a_revocation_by_itself(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        token = house.create(Scope.READ, name="ci")
        other = await Keys.opened(house.ports.tokens)
        stop = asyncio.Event()
        watching = asyncio.create_task(other.keep_current(house.ports.clock, stop))
        now = house.ports.clock.now().timestamp()
        assert other.bearer(token, now) is not None
        await house.ports.tokens.revoke("ci", house.ports.clock.now())
        await asyncio.sleep(2 * LOOK_EVERY)
        assert other.bearer(token, now) is None
        stop.set()
        await watching


async def test_an_agents_token_is_the_same_on_every_replica_of_a_store(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        here, there = await Keys.opened(house.ports.tokens), await Keys.opened(house.ports.tokens)
        assert there.bearer(here.agent_token(INSTANCE, 0), 1) == AgentIdentity(INSTANCE)


def test_an_agents_token_is_bound_to_its_instance_and_a_time() -> None:
    keys = keys_of()
    token = keys.agent_token(INSTANCE, 0)
    assert keys.bearer(token, 1) == AgentIdentity(INSTANCE)
    assert keys.bearer(token.replace(INSTANCE, OTHER), 1) is None
    assert keys.bearer(token.replace(f"_{AGENT_LASTS}_", f"_{AGENT_LASTS + 9}_"), 1) is None
    assert keys.bearer(token, AGENT_LASTS) is None


@pytest.mark.parametrize("left", [b"", b"x", bytes(31)])
def test_a_secret_that_is_too_short_is_refused(left: bytes) -> None:
    with pytest.raises(ConfigError, match="can be guessed"):
        keys_of(secret=left)


def test_an_agents_token_is_invalid_in_another_pool() -> None:
    here, there = keys_of(secret=b"a" * 32), keys_of(secret=b"b" * 32)
    assert there.bearer(here.agent_token(INSTANCE, 0), 1) is None


@pytest.mark.parametrize("text", ["", "x", "bpa_", "bpa_a_b_c", "bpa_a_9_é", "bpo_", "bpo_x", "bpa_a_1_2_3", "bpo__"])
async def test_a_malformed_token_is_invalid(tmp_path: Path, text: str) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert house.context.keys.bearer(text, 0) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
async def test_anything_but_loopback_needs_tokens(tmp_path: Path, host: str) -> None:
    async with a_house(tmp_path) as house:
        with pytest.raises(ConfigError, match="needs tokens"):
            check_bind(house.context.keys, 0, host)
        house.guard()
        check_bind(house.context.keys, 0, host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert is_loopback(host)
    check_bind(keys_of(), 0, host)


# ---- a server that has required tokens always does


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
async def test_a_service_that_others_can_reach_is_never_open(tmp_path: Path, address: str) -> None:
    async with a_house(tmp_path) as house:
        house.context.doorkeeper.settle(["127.0.0.1", address])
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        assert (await house.beat()).status_code == 401


async def test_a_server_that_loses_all_tokens_still_requires_one(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        house.context.doorkeeper.settle(["127.0.0.1"])
        house.memory.shelf.tokens.clear()
        house.memory.shelf.required = False
        await house.context.keys.refresh(0)
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        assert (await house.ask("GET", "/v1/status", "admin")).status_code == 401
        assert (await house.beat()).status_code == 401


async def test_tokens_stay_required_once_there_was_one(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        keys = house.context.keys
        assert not keys.has_tokens(0)
        house.guard()
        assert keys.has_tokens(0)
        keys.learn(TokenBook())
        assert keys.has_tokens(0)


async def test_an_open_service_answers_to_this_machine_only(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        there = httpx.ASGITransport(app=house.app, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=there, base_url="http://127.0.0.1") as client:
            assert (await client.get("/v1/status")).status_code == 403
            assert (await client.post("/v1/heartbeats", json={"workerInstanceKey": "w"})).status_code == 403
            assert (await client.get("/healthz")).status_code == 200
            house.guard()
            assert (await client.get("/v1/status")).status_code == 401
        assert await house.is_untouched()


async def test_tokens_that_cannot_be_read_for_long_are_a_503(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()

        async def broken() -> TokenBook:
            raise Unavailable("the store is at 192.0.2.7, and away")

        monkeypatch.setattr(house.ports.tokens, "read", broken)
        for _ in range(3):
            await house.context.keys.refresh(house.ports.clock.now().timestamp())
        assert (await house.ask("GET", "/v1/status", "admin")).status_code == 200
        await asyncio.sleep(STALE + 1)
        for answer in (await house.ask("GET", "/v1/status", "admin"), await house.beat(token="admin")):
            assert answer.status_code == 503
            assert "192.0.2.7" not in answer.text
        assert (await house.ask("GET", "/v1/status", "wrong")).status_code == 401
        assert (await house.beat(f"{INSTANCE}/1", token=INSTANCE)).status_code == 200  # agents prove themselves
        monkeypatch.undo()
        await house.context.keys.refresh(house.ports.clock.now().timestamp())
        assert (await house.ask("GET", "/v1/status", "admin")).status_code == 200
        assert caplog.text.count("192.0.2.7") == 1


async def test_an_open_server_refuses_callers_when_it_cannot_read_whether_there_are_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_house(tmp_path) as house:

        async def broken() -> TokenBook:
            raise Unavailable("away")

        monkeypatch.setattr(house.ports.tokens, "read", broken)
        await house.context.keys.refresh(house.ports.clock.now().timestamp())
        assert (await house.ask("GET", "/v1/status")).status_code == 200
        await asyncio.sleep(STALE + 1)
        assert (await house.ask("GET", "/v1/status")).status_code == 503


async def test_a_server_on_a_machine_that_runs_workflow_jobs_needs_tokens_on_loopback_too(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        with pytest.raises(ConfigError, match="jobs of workflows run on this machine"):
            check_bind(house.context.keys, 0, "127.0.0.1", strangers_here=True)
        house.guard()
        check_bind(house.context.keys, 0, "127.0.0.1", strangers_here=True)
