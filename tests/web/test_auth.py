"""Who may do what: operators by scope, agents for their own instance, nobody by default."""

import asyncio
import hmac
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from bullpen.engines.keys import AGENT_LASTS, LOOK_EVERY, SECRET, TOKENS, Agent, Keys, Operator, Scope
from bullpen.errors import ConfigError
from bullpen.web.auth import check_bind, is_loopback
from web.house import INSTANCE, OTHER, a_house

READS = ["/v1/status", "/v1/instances", "/v1/workers", "/v1/jobs?runId=r", "/v1/runs/r", "/v1/operations/op-1"]
WRITES = {
    "/v1/jobs": {"runId": "r", "command": ["true"]},
    "/v1/runs/r/release": None,
    "/v1/jobs/j-1/cancel": None,
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


async def test_health_is_told_to_anybody(tmp_path: Path) -> None:
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


# ---- tokens at rest


def test_a_token_is_kept_as_a_hash_and_for_its_owner_only(tmp_path: Path) -> None:
    token = Keys(tmp_path).create(Scope.READ, None)
    assert token not in (tmp_path / TOKENS).read_text()
    assert (tmp_path / TOKENS).stat().st_mode & 0o777 == 0o600


def test_a_token_is_known_until_it_expires(tmp_path: Path) -> None:
    keys, now = Keys(tmp_path), 1000.0
    from datetime import UTC, datetime

    token = keys.create(Scope.OPERATE, datetime.fromtimestamp(now, UTC) + timedelta(seconds=60))
    assert isinstance(keys.bearer(token, now + 59), Operator)
    assert keys.bearer(token, now + 60) is None


def test_a_token_whose_line_is_taken_out_is_revoked_within_a_second(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    first, second = keys.create(Scope.READ, None), keys.create(Scope.READ, None)
    assert keys.bearer(first, 0) is not None
    lines = (tmp_path / TOKENS).read_text().splitlines()
    (tmp_path / TOKENS).write_text(lines[1] + "\n")
    assert keys.bearer(first, 1) is None
    assert keys.bearer(second, 1) is not None


def test_an_agents_token_is_bound_to_its_instance_and_a_time(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    token = keys.agent_token(INSTANCE, 0)
    assert keys.bearer(token, 1) == Agent(INSTANCE)
    assert keys.bearer(token.replace(INSTANCE, OTHER), 1) is None
    assert keys.bearer(token.replace(f"_{AGENT_LASTS}_", f"_{AGENT_LASTS + 9}_"), 1) is None
    assert keys.bearer(token, AGENT_LASTS) is None
    assert (tmp_path / SECRET).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", [b"", b"x", bytes(31)])
def test_what_a_crash_left_of_the_secret_is_none(tmp_path: Path, left: bytes) -> None:
    (tmp_path / SECRET).write_bytes(left)
    mac = hmac.digest(left, f"{INSTANCE}\n900".encode(), "sha256").hex()
    with pytest.raises(ConfigError, match="are no secret"):
        Keys(tmp_path).bearer(f"bpa_{INSTANCE}_900_{mac}", 0)
    with pytest.raises(ConfigError, match="are no secret"):
        Keys(tmp_path).agent_token(INSTANCE, 0)


def test_another_home_knows_no_token_of_this_one(tmp_path: Path) -> None:
    here, there = Keys(tmp_path / "a"), Keys(tmp_path / "b")
    there.create(Scope.READ, None)
    assert there.bearer(here.agent_token(INSTANCE, 0), 1) is None
    assert there.bearer(here.create(Scope.ADMIN, None), 1) is None


@pytest.mark.parametrize("text", ["", "x", "bpa_", "bpa_a_b_c", "bpa_a_9_é", "bpo_", "bpo_x", "bpa_a_1_2_3", "bpo__"])
def test_what_is_no_token_is_nobodys(tmp_path: Path, text: str) -> None:
    keys = Keys(tmp_path)
    keys.create(Scope.ADMIN, None)
    assert keys.bearer(text, 0) is None


def test_a_file_of_tokens_that_cannot_be_read_is_an_error_and_no_open_door(tmp_path: Path) -> None:
    (tmp_path / TOKENS).write_text("{}\n")
    with pytest.raises(ConfigError, match="line 1"):
        Keys(tmp_path).bearer("bpo_a_b", 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_anything_but_loopback_needs_tokens(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="needs tokens"):
        check_bind(tmp_path, host)
    Keys(tmp_path).create(Scope.READ, None)
    check_bind(tmp_path, host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_needs_none(tmp_path: Path, host: str) -> None:
    assert is_loopback(host)
    check_bind(tmp_path, host)


# ---- a door that was shut stays shut


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1"])
async def test_a_service_that_others_can_reach_is_never_open(tmp_path: Path, address: str) -> None:
    async with a_house(tmp_path) as house:
        house.context.doorkeeper.settle(["127.0.0.1", address])
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        assert (await house.beat()).status_code == 401


async def test_losing_the_file_of_tokens_opens_no_door(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        house.context.doorkeeper.settle(["127.0.0.1"])
        (tmp_path / TOKENS).unlink()
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        await asyncio.sleep(LOOK_EVERY)
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        assert (await house.ask("GET", "/v1/status", "admin")).status_code == 401
        assert (await house.beat()).status_code == 401


def test_tokens_once_seen_are_asked_for_ever(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    assert not keys.has_tokens(0)
    keys.create(Scope.ADMIN, None)
    assert keys.has_tokens(10)
    (tmp_path / TOKENS).unlink()
    assert keys.has_tokens(20)


async def test_an_open_service_answers_to_this_machine_only(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        there = httpx.ASGITransport(app=house.app, client=("192.0.2.7", 4711))
        async with httpx.AsyncClient(transport=there, base_url="http://127.0.0.1") as client:
            assert (await client.get("/v1/status")).status_code == 403
            assert (await client.post("/v1/heartbeats", json={"workerInstanceKey": "w"})).status_code == 403
            assert (await client.get("/healthz")).status_code == 200
            house.guard()
            await asyncio.sleep(LOOK_EVERY)
            assert (await client.get("/v1/status")).status_code == 401
        assert await house.is_untouched()


async def test_tokens_that_cannot_be_read_are_a_503_that_names_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        (tmp_path / TOKENS).write_text("garbage\n")
        for token in ("admin", None):
            for answer in (
                await house.ask("GET", "/v1/status", token),
                await house.ask("POST", "/v1/heartbeats", token),
            ):
                assert answer.status_code == 503
                assert str(tmp_path) not in answer.text
        assert caplog.text.count(str(tmp_path)) == 1


def test_a_service_beside_jobs_of_strangers_needs_tokens_on_loopback_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jobs of workflows run on this machine"):
        check_bind(tmp_path, "127.0.0.1", strangers_here=True)
    Keys(tmp_path).create(Scope.ADMIN, None)
    check_bind(tmp_path, "127.0.0.1", strangers_here=True)
